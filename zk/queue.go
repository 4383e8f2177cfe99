package zk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
)

// look reads the queue of an entry, and then its register if the entry is a permit. In this order the register is no
// older than the list: an entry that finds room because another has gone sees the size that was declared before that.
func (s *session) look(ctx context.Context, e *driver.Entry) (names *read, r driver.Register, err error) {
	path := s.path(e.Queue)
	if names, err = s.names(ctx, path); err == nil && e.Kind == driver.Permit {
		var node *read
		if node, err = s.node(ctx, path); err == nil {
			r = node.register()
		}
	}
	return names, r, err
}

// names reads the names in a queue, and refuses a queue that is a semaphore of Curator's. InterProcessSemaphoreV2, on which
// InterProcessSemaphoreMutex is built, has two nodes below the path, leases and locks, and its permits below the first.
// The server removes the second when it has been empty for a while, so it proves nothing. Each of the two may be a queue of
// ours.
func (s *session) names(ctx context.Context, path string) (*read, error) {
	names, err := s.children(ctx, path)
	if err != nil || !strings.Contains(string(names.names), leases) {
		return names, err
	}
	below, err := s.children(ctx, path+"/leases")
	switch {
	case errors.Is(err, driver.ErrGone):
		return names, nil
	case err != nil:
		return nil, err
	case strings.Contains(string(below.names), "-lease-"):
		return nil, fmt.Errorf("%w: Curator's InterProcessSemaphoreV2 or InterProcessSemaphoreMutex has nodes below %q", driver.ErrKind, path)
	}
	return names, nil
}

// leases is, as the server sends it, the name of the node below which Curator's semaphores have their permits. No name
// has a zero in it.
const leases = "\x00\x00\x00\x06leases"

// Ahead reads the queue. The server that answers may be behind the leader, but not behind what it told this session
// before: it shows all that was ahead of the entry and is left. It may show, for a moment, what another client has
// deleted. Of entries of this session, it shows none that is gone.
//
// Before it shows an entry that may be granted, a quorum has proved the session. The Syncs of a session that waits may
// have been answered by a leader that is cut off.
//
// Whether the node of the entry is its own is not read each time. It was when it was made. A Watch that sees a copy in
// its place says so, and a holder watches its own node.
func (s *session) Ahead(ctx context.Context, e driver.Entry, waiting bool) (v driver.View, err error) {
	if s.wasCopied(e.ID) {
		return v, driver.ErrGone
	}
	if s.first(&e) {
		_, err = s.entry(ctx, &e)
		v.Self, v.All = e, true
	} else if names, register, missing := s.look(ctx, &e); missing == nil {
		v.Register = register
		err = s.show(&v, &e, names, waiting)
	} else if err = missing; errors.Is(err, driver.ErrGone) && e.ID == "" {
		v.All, err = true, nil
	}
	if err == nil && e.ID == "" && waiting {
		err = s.meet(ctx, &v)
	}
	if err == nil {
		err = s.prove(ctx, &v)
	}
	return v, err
}

// meet reads the node that keeps an entry waiting which would join now, for the name of its holder. A node that no session
// will ever remove is refused: nothing waits behind it yet, and it would be taken for a holder for ever. If the node has gone
// since, or an ACL hides it, the list has shown that the queue is busy all the same.
func (s *session) meet(ctx context.Context, v *driver.View) error {
	i := slices.IndexFunc(v.Entries, excluding(v))
	if i < 0 || v.Self.Kind == driver.Permit {
		return nil
	}
	r, err := s.node(ctx, v.Entries[i].ID)
	switch {
	case errors.Is(err, driver.ErrGone), err != nil && outcome(err) == driver.Refused:
		err = nil
	case err != nil:
	case r.stat.owner == 0:
		err = stray(v.Entries[i].ID)
	default:
		v.Entries[i] = r.fill(v.Entries[i])
	}
	return err
}

// show sets in v what a queue that was read shows of an entry. Where the nearest ahead stands for all, one pass finds
// it, and it is the queues in which a session has several entries that are put in order, once for all of them.
func (s *session) show(v *driver.View, e *driver.Entry, names *read, waiting bool) error {
	var there bool
	if path := s.path(e.Queue); waiting && e.Kind != driver.Permit && e.Kind != driver.Read && !s.crowded(names.names) {
		v.Entries, v.All, there = names.names.nearest(e, path)
	} else {
		q := names.queue(e.Queue, path, e.Kind)
		if e.ID != "" {
			s.remember(q, e)
		}
		v.Entries, v.All, there = q.ahead(e, waiting)
	}
	if v.Self = *e; !there && e.ID != "" {
		return driver.ErrGone
	}
	return nil
}

// prove has a quorum prove the session before an entry is shown that may be granted, where none has. An entry ahead
// leaves room for another only if both are readers, or permits.
func (s *session) prove(ctx context.Context, v *driver.View) error {
	if v.Self.ID == "" || !s.wire.unproved() || slices.ContainsFunc(v.Entries, excluding(v)) {
		return nil
	}
	return s.propose(ctx, v.Self.ID)
}

// excluding returns whether an entry ahead of v.Self keeps it waiting for certain.
func excluding(v *driver.View) func(other driver.Entry) bool {
	return func(other driver.Entry) bool {
		return other.Kind != v.Self.Kind || other.Kind != driver.Read && other.Kind != driver.Permit
	}
}

// blocked refuses a queue in which an entry that has just joined would wait for ever, though the entry nearest ahead is a
// client's: another program has made a node further ahead, and no session will remove that node.
//
// To read every node ahead would cost too much, so two are read at most, at a time. One is the first whose name is none
// that farsync gives, where there is such a name. The other is the head. A node with a name of farsync's, copied with its
// tree for example, has a number of its own time and mostly comes to stand ahead of all; or right ahead of the entry, and
// then Watch finds it. Between others it is found by the first entry that joins behind it, or comes to stand there.
//
// The names of farsync's nodes are given once. A head that a session was seen to own is read again by none of this
// session's entries, and an own node by none at all.
func (s *session) blocked(ctx context.Context, v *driver.View, names children) error {
	if v.All || !slices.ContainsFunc(v.Entries, excluding(v)) {
		return nil // Watch looks at the only one, and what is free need not wait for an answer
	}
	path := s.path(v.Self.Queue) + "/"
	var reads []*read
	for _, n := range names.suspects(&v.Self) {
		if at := path + n.name; !marked(n.name) || !strings.HasPrefix(n.name, s.mark) && at != v.Entries[0].ID && !s.knownOwned(at) {
			reads = append(reads, s.begin(spot{opGetData, at, false}))
		}
	}
	var found error
	for _, r := range reads {
		r, err := s.await(ctx, r)
		switch {
		case err != nil || found != nil:
		case r.stat.owner == 0:
			found = stray(r.at.path)
		case marked(nameOf(r.at.path)):
			s.noteOwned(r.at.path)
		}
	}
	return found
}

// suspects returns the first node ahead of an entry, and the first whose name is none that farsync gives, if that is
// another.
func (c children) suspects(e *driver.Entry) (list []node) {
	own := parseNode(nameOf(e.ID), e.Kind)
	var head, foreign node
	for name := range c.all {
		n := parseNode(name, e.Kind)
		if byOrder(&n, &own) >= 0 {
			continue
		}
		if head.name == "" || byOrder(&n, &head) < 0 {
			head = n
		}
		if !marked(name) && (foreign.name == "" || byOrder(&n, &foreign) < 0) {
			foreign = n
		}
	}
	for _, n := range []node{head, foreign} {
		if n.name != "" && (len(list) == 0 || n.name != list[0].name) {
			list = append(list, n)
		}
	}
	return list
}

// knownOwned reports whether a node is the head that was seen last to go with a session.
func (s *session) knownOwned(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned == path
}

func (s *session) noteOwned(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned = path
}

// List reads the names in the queue, and every node that is asked for. It leaves out nodes that go meanwhile, and the
// nodes of queues further down. A node that no session will ever remove, and that blocks the queue, is shown as an entry of
// no session, beside the error that names it.
func (s *session) List(ctx context.Context, name string, limit int) (driver.View, error) {
	path := s.path(name)
	names, err := s.names(ctx, path)
	if errors.Is(err, driver.ErrGone) {
		return driver.View{All: true}, nil
	}
	if err != nil {
		return driver.View{}, err
	}
	q := names.queue(name, path, driver.Exclusive)
	var v driver.View
	if v.Entries, v.All, err = s.fill(ctx, q.entries(len(q.nodes)), q.tail, limit); err != nil {
		v.Entries = joined(v.Entries)
	}
	return v, err
}

// joined moves the entries of no session to where they have joined. A name may sort ahead of the names of all that were
// there before: whoever held then holds, and is not to be shown behind it.
func joined(entries []driver.Entry) (list []driver.Entry) {
	var strays []driver.Entry
	for _, e := range entries {
		if e.Session == "" {
			strays = append(strays, e)
		} else {
			list = append(list, e)
		}
	}
	if len(strays) == 0 {
		return list
	}
	// Stable: of two strays the first stays first, unless the other has joined before it.
	slices.SortStableFunc(strays, func(a, b driver.Entry) int { return cmp.Compare(a.Revision, b.Revision) })
	all := make([]driver.Entry, 0, len(entries))
	for _, e := range list {
		for len(strays) > 0 && strays[0].Revision < e.Revision {
			all, strays = append(all, strays[0]), strays[1:]
		}
		all = append(all, e)
	}
	return append(all, strays...)
}

// readAhead is how many nodes of one kind are asked for at a time.
const readAhead = 64

// fill reads the nodes of entries, up to the limit if it is positive, and leaves out nodes that are none. The error beside
// entries refuses a node that stands among the first of the queue and that no session will ever remove: it would block the
// queue.
func (s *session) fill(ctx context.Context, entries []driver.Entry, blocking, limit int) (filled []driver.Entry, all bool, err error) {
	if limit <= 0 {
		limit = len(entries) + 1
	}
	var blocked error
	for part := range slices.Chunk(entries, min(readAhead, limit)) {
		if len(filled) >= limit {
			return filled, false, blocked
		}
		reads := make([]*read, len(part))
		for i, e := range part {
			reads[i] = s.begin(spot{opGetData, e.ID, false})
		}
		for i, e := range part {
			r, err := s.await(ctx, reads[i])
			if errors.Is(err, client.ErrNoAuth) { // the stat of a node is shown to everybody, and says whose it is
				if r, err = s.read(ctx, spot{opExists, e.ID, false}); err == nil && r.stat.created == 0 {
					err = driver.ErrGone
				}
			}
			switch {
			case errors.Is(err, driver.ErrGone):
			case err != nil:
				s.leave(reads[i+1:]...)
				return nil, false, err
			case r.stat.owner != 0:
				filled = append(filled, r.fill(e))
			case e.Ahead < blocking:
				filled = append(filled, r.fill(e))
				if blocked == nil {
					blocked = stray(e.ID)
				}
			}
		}
	}
	return filled, true, blocked
}

// fill returns e with what its node tells.
func (r *read) fill(e driver.Entry) driver.Entry {
	e.Value, e.Version, e.Since = r.data, version(&r.stat), time.UnixMilli(r.stat.time)
	if r.stat.owner != 0 {
		e.Session = shownSession(r.stat.owner)
	}
	if e.Revision == 0 { // else it may be the revision of the node whose place this one has taken
		e.Revision = r.stat.created
	}
	return e
}

// shownSession returns a session's ID as ZooKeeper's tools write it.
func shownSession(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }

// version returns what a node's version is to the Store: one more, for there 0 means that there is none.
func version(s *stat) int64 { return int64(s.version) + 1 }

// Find reads the entry's node after a Sync: the answer to a change of it may have been lost with a connection to
// another server. If the node of a writer is gone, Find looks for the node of the reader that has its place.
func (s *session) Find(ctx context.Context, e driver.Entry) (driver.Entry, error) {
	e, err := s.search(ctx, e)
	if err != nil {
		return e, err
	}
	if err := s.do(ctx, syncing(parentOf(e.ID))); err != nil {
		return e, err
	}
	r, err := s.entry(ctx, &e)
	if errors.Is(err, driver.ErrGone) && e.Kind == driver.Write {
		e.ID, e.Kind = readName(e.ID), driver.Read
		r, err = s.entry(ctx, &e)
	}
	if err != nil {
		return e, err
	}
	return r.fill(e), nil
}

// Owned reads the names in the queues after a Sync. The names of this session's entries begin with its mark, also the
// names of entries that a replacement has given another kind.
func (s *session) Owned(ctx context.Context, queues []string) ([]driver.Entry, error) {
	if err := s.do(ctx, syncing("/")); err != nil {
		return nil, err
	}
	var owned []driver.Entry
	for _, name := range queues {
		names, err := s.children(ctx, s.path(name))
		if errors.Is(err, driver.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		q := names.queue(name, s.path(name), driver.Exclusive)
		for i, n := range q.nodes {
			if strings.HasPrefix(n.name, s.mark) {
				owned = append(owned, q.entry(i))
			}
		}
	}
	return owned, nil
}
