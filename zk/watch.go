package zk

import (
	"context"
	"errors"
	"reflect"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
)

// Watch reads the targets and watches them, in one request each: no moment lies between. It starts no goroutine that
// waits: those that wait for one node, and there may be thousands, share one watch of the library's, and a waiter that
// gives up leaves nothing but its part in that.
func (s *session) Watch(
	ctx context.Context, _ driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	set := make([]*read, len(on))
	for i, t := range on {
		set[i] = s.begin(s.spot(t))
	}
	cases := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(s.wire.life.Done())},
	}
	for i, t := range on {
		w, err := s.observe(ctx, t, set[i])
		if err != nil || w == nil {
			return nil, err
		}
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(w.fired)})
	}
	stands()
	first, event, _ := reflect.Select(cases)
	if first < 2 {
		return nil, s.unanswered(ctx)
	}
	if event.Interface().(client.Event).Type == client.EventNodeDeleted {
		s.left(on[first-2].Entry)
	}
	return nil, nil //nolint:nilnil // no error, and no proof
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
		changed = err == nil && w.stat.Czxid != 0
	case errors.Is(err, driver.ErrGone):
		s.left(t.Entry)
		return nil, nil
	case err != nil:
	case at.path == t.Entry.ID && w.stat.EphemeralOwner == 0:
		// Forgotten, so that the next caller reads the node anew: it may be gone by then, and this watch not tell so yet.
		s.mu.Lock()
		delete(s.reads, at)
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
