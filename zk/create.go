package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/legible"
)

// The creation of an entry is the one request here that may not be repeated blindly: a sequential node that is created
// twice is two nodes, and the session keeps both alive. So its name has an ID of the entry's own, and every path on
// which an answer can get lost ends in a search for that name.

// NewID returns the path of the entry's node, up to the sequence that the server adds.
func (s *session) NewID(name string, k driver.Kind, units int64) string {
	return s.path(name) + "/" + newName(s.mark, s.entries.Add(1), k, units)
}

// Create makes the entry's node, and the queue's node if it is missing.
//
// An attempt after the first looks for the node before it makes one. A node that it does not find will not be made any
// more.
func (s *session) Create(ctx context.Context, e driver.Entry, attempt int) (driver.View, error) {
	if err := s.take(ctx, s.joins); err != nil {
		return driver.View{}, err
	}
	defer func() { <-s.joins }()
	if attempt > 0 {
		// If the search fails, this attempt has done nothing: only the outcome of the earlier attempt is open.
		found, err := s.search(ctx, e)
		switch {
		case err == nil:
			return s.joined(ctx, &found, nil, driver.Register{})
		case !errors.Is(err, driver.ErrGone):
			return driver.View{}, notDone(err)
		}
	}
	path := s.path(e.Queue)
	for range makeTries {
		err := s.guarded(ctx, path)
		if err == nil {
			var v driver.View
			if v, err = s.create(ctx, &e); !errors.Is(err, driver.ErrGone) {
				return v, err
			}
		}
		if errors.Is(err, driver.ErrGone) { // the queue's node
			err = s.makeQueue(ctx, path, nil, s.acl)
		}
		if err != nil && !errors.Is(err, driver.ErrConflict) {
			return driver.View{}, notDone(err)
		}
	}
	return driver.View{}, attemptError{fmt.Errorf("node %s is collected again and again", path), driver.NotDone}
}

// create makes one attempt. The read of the queue is sent with the request: the server carries out the requests of a
// session in order, so the answer shows the node, and one round trip serves for both.
func (s *session) create(ctx context.Context, as *driver.Entry) (driver.View, error) {
	making := newCall(newFrame(opCreate).create(as.ID, as.Value, s.acl, client.FlagEphemeralSequential))
	if err := s.send(ctx, making); err != nil {
		return driver.View{}, err
	}
	names, register, looked := s.look(ctx, as)
	if err := s.wait(ctx, making); err != nil {
		return driver.View{}, err
	}
	if !strings.HasPrefix(making.path, as.ID) {
		return driver.View{}, fmt.Errorf("%w: it says that it made node %s where %q was asked for", errFrame, legible.Quote(making.path), as.ID)
	}
	e := *as
	e.ID, e.Revision, e.Version = making.path, making.zxid, 1
	// After a look without an answer the View is not All, and the caller looks again. A refusal would be repeated, and the
	// node would stand in the queue meanwhile.
	if looked != nil && outcome(looked) == driver.Refused {
		return driver.View{}, s.undo(ctx, e.ID, looked)
	}
	v, err := s.joined(ctx, &e, names, register)
	if err == nil && names != nil {
		if blocked := s.blocked(ctx, &v, names.names); blocked != nil {
			return driver.View{}, s.undo(ctx, e.ID, blocked)
		}
	}
	return v, err
}

// joined returns what an entry that was made has ahead of it.
func (s *session) joined(ctx context.Context, e *driver.Entry, names *read, r driver.Register) (v driver.View, err error) {
	if n := parseNode(nameOf(e.ID), e.Kind); !placed(n.order) {
		return v, s.undo(ctx, e.ID, errCounter)
	}
	v.Self, v.Register = *e, r
	if names != nil && (s.show(&v, e, names, true) != nil || s.prove(ctx, &v) != nil) {
		v.Entries, v.All = nil, false // the caller asks Ahead, which proves it
	}
	return v, nil
}

// undo deletes the node of an entry that must not stand where it does, and returns why. The caller takes that for a
// refusal, which leaves nothing: so it is one only if the node is gone. If that is not certain the outcome is Unknown,
// and the caller's next attempt, or its removal, finds the node by its name.
func (s *session) undo(ctx context.Context, path string, why error) error {
	err := s.do(ctx, newFrame(opDelete).check(path, -1))
	if err == nil || errors.Is(err, driver.ErrGone) {
		return why
	}
	return attemptError{fmt.Errorf("%w; its node is left: %w", why, err), driver.Unknown}
}

// guarded refuses a queue whose entries others may delete, where the session has a user: that right hangs on the
// queue's node.
func (s *session) guarded(ctx context.Context, path string) error {
	if s.digest == nil {
		return nil
	}
	asking := newCall(newFrame(opGetACL).text(path))
	if err := s.ask(ctx, asking); err != nil {
		return err
	}
	for _, a := range asking.acl {
		if a.Scheme == "world" && a.Perms&(client.PermWrite|client.PermDelete|client.PermCreate|client.PermAdmin) != 0 {
			return refusal("node %q can be written to by everybody: any client could delete what a Digest protects below it", path)
		}
	}
	return nil
}

// makeTries bounds how often a step begins anew because the server has collected an empty parent in the middle of it.
const makeTries = 5

// makeQueue makes a queue's node, and those above it that are missing, as containers: the server removes them when they
// have been empty for a while, and they are made again. It begins at the bottom, for a user may have no rights above.
// Those above belong to others too, so anyone may use them.
func (s *session) makeQueue(ctx context.Context, path string, data []byte, acl []client.ACL) error {
	var err error
	for range makeTries {
		err = s.do(ctx, newFrame(opContainer).create(path, data, acl, client.FlagContainer))
		if !errors.Is(err, driver.ErrGone) || parentOf(path) == "" {
			break
		}
		err = s.makeQueue(ctx, parentOf(path), nil, client.WorldACL(client.PermAll))
		if err != nil && !errors.Is(err, driver.ErrConflict) {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", path, err)
	}
	return nil
}

// search returns an entry under the ID that it has. It looks for the node by its name without the sequence. ErrGone
// means that no attempt to create it was carried out, or will be: an attempt on this connection was sent before this.
// The server that answers after a Sync has seen whatever the leader had accepted before, and the leader accepts nothing
// more of an earlier connection of the session.
func (s *session) search(ctx context.Context, e driver.Entry) (driver.Entry, error) {
	if confirmed(e.ID) {
		return e, nil
	}
	path := s.path(e.Queue)
	if err := s.do(ctx, syncing(path)); err != nil {
		return e, err
	}
	names, err := s.children(ctx, path)
	if err != nil {
		return e, err
	}
	for name := range names.names.all {
		if !strings.HasPrefix(name, nameOf(e.ID)) {
			continue
		}
		r, err := s.node(ctx, path+"/"+name)
		switch {
		case errors.Is(err, driver.ErrGone):
		case err != nil:
			return e, err
		case r.stat.owner == s.wire.id.Load(): // it goes with this session, and with no other
			e.ID = path + "/" + name
			return r.fill(e), nil
		}
	}
	return e, driver.ErrGone
}
