package zk

import (
	"context"
	"errors"
	"reflect"
	"strings"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
)

// Watch reads the targets and watches them, in one request each: no moment lies between. It starts no goroutine that
// waits: all callers who wait for one node, and there may be thousands, share one watch, and a waiter that gives up
// leaves nothing but its part in that.
//
// The node of e is watched together with the node of an entry that is alone ahead of it, which makes a proof of the
// other's end.
func (s *session) Watch(ctx context.Context, e driver.Entry, on []driver.Target, stands func()) (*driver.View, error) {
	set, err := s.set(ctx, &e, on)
	if err != nil || set == nil {
		return nil, err
	}
	list := s.list(&e, on, set)
	stands()
	if err := s.outlast(ctx, set[:len(on)], list); err != nil {
		return nil, err
	}
	return s.proof(&e, on, set, list), nil
}

// set returns the watches of targets, and behind them the watch of the node of e, if it is watched too; or none if a
// target has changed. The stack that set and proof need is not needed while the caller waits.
func (s *session) set(ctx context.Context, e *driver.Entry, on []driver.Target) (set []*read, err error) {
	watched := on
	// An entry whose writer's node ends may be there still, as a reader. And entries of one session may end in one
	// transaction.
	if t := &on[0]; len(on) == 1 && t.Alone && t.What == driver.Gone && t.Entry.Kind != driver.Write && e.ID != "" &&
		!strings.HasPrefix(nameOf(t.Entry.ID), s.mark) {
		watched = []driver.Target{*t, {Entry: *e}}
	}
	for i := range watched { // a target is large to copy
		set = append(set, s.begin(s.spot(&watched[i])))
	}
	for i := range set {
		if set[i], err = s.observe(ctx, &watched[i], set[i]); err != nil || set[i] == nil {
			s.leave(set[i+1:]...)
			return nil, err
		}
	}
	return set, nil
}

// A listing is a read of a queue that is made as soon as a watch fires. The goroutine that reads the event sends it, so
// that a waiter is woken once, by the answer.
type listing struct {
	call
	queue string
}

// list returns the listing that follows the watch of the one entry that keeps e waiting; or nil where the nearest ahead
// does not stand for all, the proof needs no list, or a crowd has a shorter way to it.
func (s *session) list(e *driver.Entry, on []driver.Target, set []*read) *listing {
	if len(set) != 1 || on[0].What != driver.Gone || e.ID == "" || e.Kind == driver.Read || e.Kind == driver.Permit {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := set[0]
	if happened(r.fired) || s.crowds[e.Queue] != nil {
		return nil
	}
	if r.then == nil { // else another caller waits for the same node, or has
		r.then = &listing{*newCall(append(newFrame(opGetChildren).text(s.path(e.Queue)), 0)), e.Queue}
	}
	return r.then
}

// proof returns what the list shows that was made when the watch fired, if that is all that is ahead of e. Without a
// list it returns a view with nothing ahead of e, if its node was watched and there when the node of the one entry
// ahead of it went. Otherwise it returns nil.
//
// A server carries out all changes in their order, and tells a connection of each that it watches before anything
// younger. So of two nodes that were there when one connection began to watch them, the news of the other's end comes
// first on it if that was first. While it has not come, the entry was there when the entry ahead went, and as none
// joins ahead of it later, it is at the head. The server may be behind others, as it may be with an answer to Ahead.
// A transaction of another program that removes both, the entry ahead first, is told as two changes: the entry has been at
// the head then, and its holder is told that it was removed, as of any node that a person deletes.
//
// A connection on which watches were set again proves nothing: the server then tells of what has gone meanwhile in no
// order. Nor does a session that only a leader has vouched for since: the caller asks Ahead, which has a quorum prove
// it.
func (s *session) proof(e *driver.Entry, on []driver.Target, set []*read, list *listing) *driver.View {
	for i := range on {
		if happened(set[i].fired) && set[i].event == eventDeleted {
			s.left(&on[i].Entry)
		}
	}
	if list != nil {
		entries, all, there := list.names.nearest(e, s.path(e.Queue))
		if !there || !all || strings.Contains(string(list.names), leases) || s.wire.unproved() {
			return nil
		}
		return &driver.View{Self: *e, Entries: entries, All: true}
	}
	ahead, own := set[0], set[len(on):]
	if len(own) == 0 || ahead.event != eventDeleted || ahead.by != ahead.link || own[0].link != ahead.link ||
		happened(own[0].fired) || s.wire.unproved() {
		return nil
	}
	return &driver.View{Self: *e, All: true}
}

// outlast waits until one of the watches of reads has fired, and until the list is there that follows. Mostly there is
// one.
func (s *session) outlast(ctx context.Context, set []*read, list *listing) error {
	switch {
	case list != nil:
		return s.until(ctx, list.done)
	case len(set) == 1:
		return s.until(ctx, set[0].fired)
	default:
		return s.firstOf(ctx, set)
	}
}

// firstOf is outlast for several. The stack that it needs is not needed while one is waited for.
//
//go:noinline
func (s *session) firstOf(ctx context.Context, set []*read) error {
	cases := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())}, {Dir: reflect.SelectRecv, Chan: reflect.ValueOf(s.Over())},
	}
	for _, w := range set {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(w.fired)})
	}
	if first, _, _ := reflect.Select(cases); first < 2 {
		return s.unanswered(ctx)
	}
	return nil
}

// spot returns what tells of a target first.
func (s *session) spot(t *driver.Target) spot {
	switch t.What {
	case driver.Joined:
		return spot{opGetChildren, s.path(t.Entry.Queue), true}
	case driver.Registered:
		return spot{opGetData, s.path(t.Entry.Queue), true}
	default:
		return spot{opGetData, t.Entry.ID, true}
	}
}

// observe returns a watch that tells when the target changes, or none if it has changed since it was read.
func (s *session) observe(ctx context.Context, t *driver.Target, w *read) (*read, error) {
	at, changed := s.spot(t), false
	w, err := s.await(ctx, w)
	switch {
	case errors.Is(err, driver.ErrGone) && (t.What == driver.Joined || t.What == driver.Registered && t.Entry.Version == 0):
		w, err = s.await(ctx, s.begin(spot{opExists, at.path, true})) // it tells when the node is made
		changed = err == nil && w.stat.created != 0
	case errors.Is(err, driver.ErrGone):
		s.left(&t.Entry)
		return nil, nil
	case errors.Is(err, client.ErrNoAuth) && at.path == t.Entry.ID:
		if _, copied := s.entry(ctx, &t.Entry); errors.Is(copied, driver.ErrGone) {
			s.left(&t.Entry)
			return nil, nil
		}
	case err != nil:
	case at.path == t.Entry.ID && !s.is(&t.Entry, &w.stat): // a copy has taken its place
		s.left(&t.Entry)
		return nil, nil
	case at.path == t.Entry.ID && w.stat.owner == 0:
		// Forgotten, so that the next caller reads the node anew: it may be gone by then, and this watch not tell so yet.
		s.mu.Lock()
		if s.reads[at] == w {
			delete(s.reads, at)
		}
		s.mu.Unlock()
		err = stray(at.path)
	case t.What == driver.Joined && w.names != "": // perhaps they are the nodes of other queues
		var v driver.View
		v, err = s.List(ctx, t.Entry.Queue, 1)
		changed = len(v.Entries) > 0
	case t.What == driver.Registered:
		changed = t.Entry.Version != w.register().Version
	case t.What == driver.Changed:
		changed = t.Entry.Version != 0 && t.Entry.Version != version(&w.stat)
	case t.What == driver.Told:
		changed = words(w.data) != ""
	}
	if err != nil || changed {
		return nil, err
	}
	return w, nil
}
