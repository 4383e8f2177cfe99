package recipe

import (
	"context"
	"errors"

	"github.com/farsync/farsync/driver"
)

// spurnAll ends the wait of each Replaceable request in a queue that waits behind an entry which is not removed. Nothing is asked for that: each
// is woken once, and with the answer. The caller holds mu.
//
// The entry may have gone unconfirmed, and somebody may hold who stands between. A request that comes then is not
// told of him either: see joinInTime.
func (in *session) spurnAll(queue string) {
	for w := range in.movable[queue] {
		if stuck := in.inFront(w); stuck != nil {
			in.dropMovable(w)
			w.spurn(stuck)
		}
	}
}

// inFront is ahead for a Replaceable request, which also leaves an entry of its Store that stands further ahead, with
// entries of others between the two. A reader waits for one writer, and by that for all that is ahead of the writer.
func (in *session) inFront(w *waiting) *stuckError {
	if stuck := in.ahead(w); stuck != nil {
		return stuck
	}
	all, e := in.removals[w.place.entry.Queue], w.place.entry
	if e.Kind == driver.Read {
		e = w.behind
	}
	return all.before(e, in.ttl)
}

// spurned returns the ctx of a Replaceable request that waits as w, which ends when the request waits behind an entry that is not removed: also one that
// was not removed before. Settle is called when the wait is over, and returns its error.
func spurned(ctx context.Context, w *waiting) (bound context.Context, settle func(error) error) {
	in, queue := w.place.in, w.place.entry.Queue
	bound, spurn := context.WithCancelCause(ctx)
	in.mu.Lock()
	defer in.mu.Unlock()
	w.spurn = spurn
	if in.movable == nil {
		in.movable = map[string]map[*waiting]bool{}
	}
	if in.movable[queue] == nil {
		in.movable[queue] = map[*waiting]bool{}
	}
	in.movable[queue][w] = true
	if in.removals[queue] != nil {
		in.spurnAll(queue)
	}
	return bound, func(err error) error {
		defer spurn(nil)
		if stuck, is := errors.AsType[*stuckError](context.Cause(bound)); is && err != nil && ctx.Err() == nil {
			return stuck.asError()
		}
		return err
	}
}

// dropMovable takes w off those whose wait may be ended. The caller holds mu.
func (in *session) dropMovable(w *waiting) {
	queue := w.place.entry.Queue
	if delete(in.movable[queue], w); len(in.movable[queue]) == 0 {
		delete(in.movable, queue)
	}
}
