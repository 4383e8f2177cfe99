package zk

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"time"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
)

// over reports whether the watch of a read has fired, or was never set.
func (r *read) over() bool { return happened(r.done) && (r.err != nil || happened(r.fired)) }

// Watch reads the targets and watches them, in one request each: no moment lies between. It starts no goroutine that
// waits: those that wait for one node, and there may be thousands, share one watch of the library's, and a waiter that
// gives up leaves nothing but its part in that.
func (s *session) Watch(
	ctx context.Context, _ driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	set := make([]*read, len(on))
	for i, t := range on {
		set[i] = s.watch(s.spot(t))
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
		return spot{opGetChildren, s.path(t.Entry.Queue)}
	case driver.Registered:
		return spot{opGetData, s.path(t.Entry.Queue)}
	default:
		return spot{opGetData, t.Entry.ID}
	}
}

// observe returns a watch that tells when the target changes, or none if it has changed since it was read.
func (s *session) observe(ctx context.Context, t driver.Target, w *read) (*read, error) {
	at := s.spot(t)
	w, err := s.await(ctx, w)
	if err == nil && t.Entry.Version > w.version(t.What) {
		// The node was read later than the watch was set, which has not fired: the connection was lost at the same time, and
		// the library has not asked for that change.
		s.forget(at, w)
		w, err = s.await(ctx, s.watch(at))
	}
	switch {
	case errors.Is(err, client.ErrNoNode) && (t.What == driver.Joined || t.What == driver.Registered && t.Entry.Version == 0):
		return s.appears(ctx, at.path)
	case errors.Is(err, client.ErrNoNode):
		s.left(t.Entry)
		return nil, nil
	case err != nil:
		return nil, err
	case at.path == t.Entry.ID && w.stat.EphemeralOwner == 0:
		// Forgotten, so that the next caller reads the node anew: it may be gone by then, and this watch not tell so yet.
		s.forget(at, w)
		return nil, stray(at.path)
	}
	changed := false
	switch t.What {
	case driver.Joined:
		if len(w.names) > 0 { // perhaps they are the nodes of other queues
			var v driver.View
			v, err = s.List(ctx, t.Entry.Queue, 1)
			changed = len(v.Entries) > 0
		}
	case driver.Registered:
		changed = t.Entry.Version != w.version(t.What)
	case driver.Changed:
		changed = t.Entry.Version != 0 && t.Entry.Version != w.version(t.What)
	case driver.Told:
		changed = string(w.data) == revoke
	}
	if err != nil || changed {
		return nil, err
	}
	return w, nil
}

// version returns what Version is to a target.
func (r *read) version(what driver.What) int64 {
	if what == driver.Registered {
		return r.register().Version
	}
	return version(&r.stat)
}

// appears returns a watch on a node that is not there, or none if it is.
func (s *session) appears(ctx context.Context, path string) (*read, error) {
	w, err := s.await(ctx, s.watch(spot{opExists, path}))
	if err != nil || w.stat.Czxid != 0 {
		return nil, err
	}
	return w, nil
}

// watch returns the session's watch of a spot, which may still have to be set. All waiters share it. The library
// cannot take it back: it stays until it fires.
func (s *session) watch(at spot) *read {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watches[at]
	if w != nil && !w.over() {
		return w
	}
	// Watches that have fired are left to the next sweep. It doubles its distance, so that it costs each watch a constant.
	if len(s.watches) >= s.sweepAt {
		maps.DeleteFunc(s.watches, func(_ spot, w *read) bool { return w.over() })
		s.sweepAt = 2*len(s.watches) + 64
	}
	w = newRead()
	if s.ending {
		w.err = errEnded
		close(w.done)
		return w
	}
	s.watches[at] = w
	s.calls.Go(func() { s.ask(at, w, true) })
	return w
}

// anchor sets a watch on a node that is never made, so that the library asks for its watches on every new link. The wire
// can count on that, and need not know which watches the library has. A server that refuses it costs nothing but this.
//
// The library may not be done with its first connection. If it finds a watch then it asks for that at once, and reads the
// last zxid as it does later; but no SetWatches is awaited there. So it is given a moment to find none.
func (s *session) anchor(ctx context.Context) error {
	moment, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	<-moment.Done()
	_, err := s.await(ctx, s.watch(spot{opExists, "/zookeeper/" + s.mark}))
	if err != nil && outcome(err) == driver.Refused {
		return nil
	}
	return err
}

func (s *session) forget(at spot, w *read) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[at] == w {
		delete(s.watches, at)
	}
}
