package zk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	client "github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/recipe"
)

// errSequence refuses a queue whose order cannot be told any more. See sequence.
var errSequence = errors.New("the queue's sequence has run over 2^31 creates: delete its parent node while nobody uses it")

// errLate is the error of an attempt that was not over when ctx ended. What becomes of it is seen to behind.
var errLate = errors.New("the create is still under way")

// Join creates the entry's node and reads the queue behind it.
func (s *Store) Join(ctx context.Context, r recipe.Request) (recipe.Entry, []recipe.Entry, error) {
	if err := recipe.CheckValue(r.Value); err != nil {
		return recipe.Entry{}, nil, err
	}
	var e recipe.Entry
	var blockers []recipe.Entry
	err := s.keeper.InSession(ctx, func(ctx context.Context, in *session) (err error) {
		e, blockers, err = s.join(ctx, r, in)
		return err
	})
	return e, blockers, err
}

func (s *Store) join(ctx context.Context, r recipe.Request, in *session) (recipe.Entry, []recipe.Entry, error) {
	e := recipe.Entry{
		Queue: r.Queue, Kind: r.Kind, Units: r.Units, Value: r.Value, Since: time.Now(), Session: in.Session,
	}
	if e.Value == nil {
		e.Value = []byte(s.options.Holder)
	}
	names, err := s.create(ctx, &e, in)
	if err != nil {
		return recipe.Entry{}, nil, err
	}
	var blockers []recipe.Entry
	if r.Kind == recipe.Permit {
		err = s.declare(ctx, in, r.Queue, r.Size, 0, names, aheadOf(e, names))
	}
	if err == nil {
		blockers, err = s.decide(ctx, in, e, r.Rule, names)
	}
	if err != nil {
		s.removeBehind(in, e.ID)
		return recipe.Entry{}, nil, err
	}
	return e, blockers, nil
}

// create makes e's node, fills in its ID and Revision, and returns the names in the queue after that.
//
// Each attempt has a name of its own. After one whose outcome is unknown, a Sync and a look at the queue tell: the
// server that answers has then seen whatever the leader had accepted before, and the leader accepts nothing more of an
// earlier connection of the session.
func (s *Store) create(ctx context.Context, e *recipe.Entry, in *session) ([]string, error) {
	queue := s.path(e.Queue)
	for delay := retryFirst; ; delay = min(2*delay, retryMost) {
		if err := s.guarded(ctx, in, queue); err != nil && !errors.Is(err, client.ErrNoNode) {
			return nil, err
		}
		name := newName(e.Kind, e.Units)
		path, zxid, names, err := s.createOnce(ctx, in, queue+"/"+name, e.Value)
		switch {
		case err == nil:
		case errors.Is(err, errLate):
			return nil, err
		case errors.Is(err, client.ErrNoNode):
			// A parent may be collected while what is below it is made.
			if err := s.makeParents(ctx, in, queue); err != nil && !errors.Is(err, client.ErrNoNode) {
				return nil, err
			}
			continue
		case refused(err):
			return nil, err
		default:
			var lost error
			if path, names, lost = s.search(ctx, in, queue, name); lost != nil {
				s.removeBehind(in, queue+"/"+name)
				return nil, lost
			}
		}
		if path != "" {
			e.ID, e.Revision = path, zxid
			if err = s.confirm(ctx, in, e); err == nil && names == nil {
				names, err = s.children(ctx, in, queue)
			}
			if err == nil {
				return names, nil
			}
			s.removeBehind(in, path)
			if !errors.Is(err, recipe.ErrGone) {
				return nil, err
			}
		}
		if recipe.Pause(ctx, delay) != nil {
			return nil, err
		}
	}
}

// createOnce makes one attempt. As soon as the create is on its way, the read of the queue follows it: the server
// carries out the requests of a session in order, so the answer shows the node, and one round trip serves for both.
// Names are nil if the read failed. If ctx ends before the outcome is known, the error is errLate.
func (s *Store) createOnce(ctx context.Context, in *session, path string, value []byte) (
	made string, zxid int64, names []string, err error,
) {
	m := in.wire.make(path)
	creating := start(in, func(c *client.Conn) (string, error) {
		return c.Create(path, value, client.FlagEphemeralSequential, s.acl())
	})
	select {
	case <-m.sent:
		if names, err = call(ctx, in, childrenOf(parentOf(path))); err != nil {
			names = nil
		}
	case a := <-creating: // it failed before it was sent, or was very quick
		return a.value, in.wire.made(path), nil, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-creating:
		return a.value, in.wire.made(path), names, a.err
	case <-ctx.Done():
		s.removeLate(in, path, creating)
		return "", 0, nil, fmt.Errorf("%w: %w", errLate, context.Cause(ctx))
	}
}

// removeLate removes a node that is still being created. Only when the library has answered is it certain that the
// create does not wait to be sent, behind whatever else would be asked.
func (s *Store) removeLate(in *session, path string, creating <-chan answer[string]) {
	s.keeper.Behind(func(context.Context) {
		a := <-creating // at the latest when the session ends
		in.wire.made(path)
		switch {
		case a.err == nil:
			s.removeBehind(in, a.value)
		case !refused(a.err):
			s.removeBehind(in, path)
		}
	})
}

// confirm makes sure of a node's place: its sequence, and its revision if the reply that told it was lost.
func (s *Store) confirm(ctx context.Context, in *session, e *recipe.Entry) error {
	if n := parseNode(nameOf(e.ID), e.Kind); !sequence(n.order) {
		return errSequence
	}
	if e.Revision != 0 {
		return nil
	}
	found, _, err := retry(ctx, in, func(c *client.Conn) (*client.Stat, error) {
		_, stat, err := c.Exists(e.ID)
		return stat, err
	})
	if err != nil {
		return err
	}
	if found.EphemeralOwner != in.wire.sessionID() {
		return recipe.ErrGone
	}
	e.Revision = found.Czxid
	return nil
}

// search looks for a node by its name without the sequence, after a Sync. It returns no path if there is none.
func (s *Store) search(ctx context.Context, in *session, queue, name string) (path string, names []string, err error) {
	_, _, err = retry(ctx, in, func(c *client.Conn) (string, error) { return c.Sync(queue) })
	if err == nil {
		names, err = s.children(ctx, in, queue)
	}
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return "", nil, err
	}
	for _, child := range names {
		if strings.HasPrefix(child, name) {
			return queue + "/" + child, names, nil
		}
	}
	return "", nil, nil
}

// children reads the names in the queue.
func (s *Store) children(ctx context.Context, in *session, queue string) ([]string, error) {
	names, _, err := retry(ctx, in, childrenOf(queue))
	return names, err
}

func childrenOf(queue string) func(*client.Conn) ([]string, error) {
	return func(c *client.Conn) ([]string, error) {
		names, _, err := c.Children(queue)
		return names, err
	}
}

// decide applies the rule to what is ahead of e, if e is in the queue.
func (s *Store) decide(
	ctx context.Context, in *session, e recipe.Entry, r recipe.Rule, names []string,
) ([]recipe.Entry, error) {
	nodes := arrange(names, e.Kind)
	own := nameOf(e.ID)
	i := slices.IndexFunc(nodes, func(n node) bool { return n.name == own })
	if i < 0 {
		return nil, recipe.ErrGone
	}
	ahead := entries(e.Queue, parentOf(e.ID), nodes[:i])
	if e.Kind != recipe.Permit {
		return r.Blockers(e, ahead), nil
	}
	size, err := s.size(ctx, in, e.Queue)
	if err != nil {
		return nil, err
	}
	return recipe.Sized(e, ahead, size)
}

// aheadOf returns how many are ahead of e.
func aheadOf(e recipe.Entry, names []string) int {
	own := nameOf(e.ID)
	return max(0, slices.IndexFunc(arrange(names, e.Kind), func(n node) bool { return n.name == own }))
}

// entries returns nodes as entries. Their revisions are not known.
func entries(queue, path string, nodes []node) []recipe.Entry {
	list := make([]recipe.Entry, len(nodes))
	for i, n := range nodes {
		list[i] = recipe.Entry{Queue: queue, ID: path + "/" + n.name, Kind: n.kind, Units: n.units}
	}
	return list
}

// Blockers reads the queue. The server that answers may be behind the leader, but not behind what it told this session
// before: it shows the entry if it is there, and nobody ever comes ahead of it. What has gone meanwhile, a watch
// tells.
func (s *Store) Blockers(ctx context.Context, e recipe.Entry, r recipe.Rule) ([]recipe.Entry, error) {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	current, err := s.sessionOf(in, e)
	if err != nil {
		return nil, s.keeper.Verdict(ctx, err)
	}
	in, unbind := current.Bind(in)
	defer unbind()
	var blockers []recipe.Entry
	names, err := s.children(in, current, s.path(e.Queue))
	switch {
	case err == nil:
		blockers, err = s.decide(in, current, e, r, names)
	case errors.Is(err, client.ErrNoNode):
		err = recipe.ErrGone
	}
	if over := current.Err(); over != nil {
		err = fmt.Errorf("%w: %w", recipe.ErrGone, over)
	}
	if err != nil {
		return nil, s.keeper.Verdict(ctx, err)
	}
	return blockers, nil
}

// sessionOf returns the session of an entry of ours, or ErrGone if it is over.
func (s *Store) sessionOf(ctx context.Context, e recipe.Entry) (*session, error) {
	if err := e.Session.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", recipe.ErrGone, err)
	}
	current, err := s.keeper.Session(ctx)
	if err == nil && current.Session != e.Session {
		err = recipe.ErrGone
	}
	return current, err
}

// Peek reads the names in the queue.
func (s *Store) Peek(ctx context.Context, r recipe.Request) (blockers []recipe.Entry, err error) {
	err = s.keeper.InSession(ctx, func(ctx context.Context, in *session) error {
		blockers, err = s.peek(ctx, in, r)
		return err
	})
	return blockers, err
}

func (s *Store) peek(ctx context.Context, in *session, r recipe.Request) ([]recipe.Entry, error) {
	names, err := s.look(ctx, in, r.Queue)
	if err != nil {
		return nil, err
	}
	queued := entries(r.Queue, s.path(r.Queue), queuedOf(names, r.Kind))
	e := recipe.Entry{Queue: r.Queue, Kind: r.Kind, Units: r.Units}
	if r.Kind != recipe.Permit {
		return r.Rule.Blockers(e, queued), nil
	}
	if len(queued) == 0 {
		return nil, nil // Join sees to the size
	}
	if err := s.declare(ctx, in, r.Queue, r.Size, 0, names, len(queued)); err != nil {
		return nil, err
	}
	size, err := s.size(ctx, in, r.Queue)
	if err != nil {
		return nil, err
	}
	return recipe.Sized(e, queued, size)
}

// queuedOf returns the children that an entry that joined now would have ahead of it. A foreign one that sorts behind any
// sequence is ahead of nobody: the node of another queue, most likely.
func queuedOf(names []string, family recipe.Kind) []node {
	return slices.DeleteFunc(arrange(names, family), func(n node) bool { return n.order > lastSequence })
}

// Entries reads the queue and every node in it. Those that go meanwhile are left out, and so are the nodes of queues
// further down.
func (s *Store) Entries(ctx context.Context, queue string) (list []recipe.Entry, err error) {
	err = s.keeper.InSession(ctx, func(ctx context.Context, in *session) error {
		list, err = s.entries(ctx, in, queue)
		return err
	})
	return list, err
}

func (s *Store) entries(ctx context.Context, in *session, queue string) ([]recipe.Entry, error) {
	names, err := s.look(ctx, in, queue)
	if err != nil {
		return nil, err
	}
	nodes := arrange(names, familyOf(names))
	list := entries(queue, s.path(queue), nodes)
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range list {
		group.Go(func() error {
			ephemeral, err := s.fill(each, in, &list[i])
			if err == nil && !ephemeral && nodes[i].order <= lastSequence {
				return strayError(list[i].ID)
			}
			if !ephemeral {
				list[i].Revision = 0
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(e recipe.Entry) bool { return e.Revision == 0 }), nil
}

// look reads the names in a queue. The server may be behind the leader by a moment, and show what has just gone. A queue
// that was never used is empty.
func (s *Store) look(ctx context.Context, in *session, queue string) ([]string, error) {
	names, err := s.children(ctx, in, s.path(queue))
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// fill reads what an entry's name does not tell, and reports whether its node goes with its session. A node that has
// gone counts as one.
func (s *Store) fill(ctx context.Context, in *session, e *recipe.Entry) (ephemeral bool, err error) {
	type data struct {
		value []byte
		stat  *client.Stat
	}
	got, _, err := retry(ctx, in, func(c *client.Conn) (data, error) {
		value, stat, err := c.Get(e.ID)
		return data{value, stat}, err
	})
	if errors.Is(err, client.ErrNoNode) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	e.Value, e.Revision, e.Since = got.value, got.stat.Czxid, time.UnixMilli(got.stat.Ctime)
	e.Version = got.stat.Mzxid
	return got.stat.EphemeralOwner != 0, nil
}

func nameOf(path string) string   { return path[strings.LastIndexByte(path, '/')+1:] }
func parentOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }
