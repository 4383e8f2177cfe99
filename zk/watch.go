package zk

import (
	"context"
	"errors"
	"reflect"

	"github.com/farsync/farsync/driver"
)

// Watch reads the targets and watches them, in one request each: no moment lies between. It starts no goroutine that
// waits: those that wait for one node, and there may be thousands, share one watch, and a waiter that gives up leaves nothing
// but its part in that.
func (s *session) Watch(
	ctx context.Context, _ driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	set := make([]*read, len(on))
	for i, t := range on {
		set[i] = s.begin(s.spot(t))
	}
	for i, t := range on {
		w, err := s.observe(ctx, t, set[i])
		if err != nil || w == nil {
			return nil, err
		}
		set[i] = w
	}
	stands()
	if err := s.outlast(ctx, set); err != nil {
		return nil, err
	}
	for i, t := range on {
		if happened(set[i].fired) && set[i].event == eventDeleted {
			s.left(t.Entry)
		}
	}
	return nil, nil //nolint:nilnil // no error, and no proof
}

// outlast waits until one of the watches of reads has fired. Mostly there is one.
func (s *session) outlast(ctx context.Context, set []*read) error {
	if len(set) == 1 {
		return s.until(ctx, set[0].fired)
	}
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
func (s *session) spot(t driver.Target) spot {
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
func (s *session) observe(ctx context.Context, t driver.Target, w *read) (*read, error) {
	at, changed := s.spot(t), false
	w, err := s.await(ctx, w)
	switch {
	case errors.Is(err, driver.ErrGone) && (t.What == driver.Joined || t.What == driver.Registered && t.Entry.Version == 0):
		w, err = s.await(ctx, s.begin(spot{opExists, at.path, true})) // it tells when the node is made
		changed = err == nil && w.stat.created != 0
	case errors.Is(err, driver.ErrGone):
		s.left(t.Entry)
		return nil, nil
	case err != nil:
	case at.path == t.Entry.ID && w.stat.owner == 0:
		// Forgotten, so that the next caller reads the node anew: it may be gone by then, and this watch not tell so yet.
		s.mu.Lock()
		if s.reads[at] == w {
			delete(s.reads, at)
		}
		s.mu.Unlock()
		err = stray(at.path)
	case t.What == driver.Joined && len(w.names) > 0: // perhaps they are the nodes of other queues
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
