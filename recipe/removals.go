package recipe

import (
	"time"

	"github.com/farsync/farsync/driver"
)

// The removals of a queue are kept from the first failed attempt until none of them is left, with what is known of the calls that wait there.
type removals struct {
	of map[string]*removal // by the ID that was asked for. Invariant: not empty
	// calls are those that wait in the queue, or have failed since there were removals, by the ID of their entry: the entry of a call that has
	// failed stands until it is removed, and keeps what is behind it from what the call has waited for.
	calls   map[string]*waiting
	oldest  int64  // Invariant: no entry in of has a lower revision
	changes uint64 // of what calls wait for
	waits   int    // how many of calls have not failed
	told    bool   // the log was, that one of them is not removed
}

// removalsOf returns the removals of the queue of p, an attempt of which has failed. It goes through the calls that wait in the session once in a
// queue, and not once for each removal. The caller holds mu.
func (in *session) removalsOf(p *place) *removals {
	queue := p.entry.Queue
	if all := in.removals[queue]; all != nil {
		return all
	}
	all := &removals{of: map[string]*removal{}, calls: map[string]*waiting{}, oldest: p.entry.Revision}
	for w := range in.waiters {
		if w.place.entry.Queue == queue {
			all.calls[w.place.entry.ID] = w
			all.waits++
		}
	}
	if in.removals == nil {
		in.removals = map[string]*removals{}
	}
	in.removals[queue] = all
	return all
}

// failed adds a failed attempt. It is noted by the ID that was asked for: the ID that the entry got, and the ID of an entry that has replaced it, begin
// with that.
func (all *removals) failed(p *place, r removal) *removal {
	if before := all.of[p.made.ID]; before != nil {
		r.sent, r.revision = before.sent, before.revision
		*before = r
		return before
	}
	r.revision = p.entry.Revision
	all.of[p.made.ID] = &r
	all.oldest = min(all.oldest, p.entry.Revision)
	return &r
}

// find returns the removal of e, or nil. The removals may be nil.
func (all *removals) find(e driver.Entry) *removal {
	if all == nil {
		return nil
	}
	r, _ := byID(all.of, e)
	return r
}

// ahead is stuck for a caller that holds the session's mu.
//
// A crowd that waits one behind the other would be gone through once for each that gives up. So what a walk has found is noted with all that it has
// passed, and is right until what one of them waits for has changed. Nor does a walk begin where w is ahead of all that was given up: a queue keeps its
// order, so none of that is in its way.
func (in *session) ahead(w *waiting) *stuckError {
	all := in.removals[w.place.entry.Queue]
	if all == nil || w.place.entry.Revision < all.oldest {
		return nil
	}
	in.walks++
	for at := w; at != nil && at.walk != in.walks; at = all.calls[at.nearest().ID] {
		at.walk = in.walks // what was seen of the calls may be old, so they are no chain for certain
		r := at.found
		if r == nil || r.gone || at.foundAt != all.changes {
			r = all.find(at.nearest())
		}
		stuck := r.overdue(in.ttl)
		if stuck == nil {
			continue
		}
		for ; w != at; w = all.calls[w.nearest().ID] {
			w.found, w.foundAt = r, all.changes
		}
		at.found, at.foundAt = r, all.changes
		return stuck
	}
	return nil
}

// before returns the error of a removal that is overdue, of an entry ahead of e which e waits for; else nil.
//
// Between the two may be entries of other Stores, of which it is not seen what they wait for. It need not be: whoever
// asks for all of a lock waits for all that is ahead of it, whether that holds or waits, and a queue keeps the order
// of its revisions. A reader waits for less, and so does a permit.
func (all *removals) before(e driver.Entry, ttl time.Duration) *stuckError {
	if e.Kind == driver.Read || e.Kind == driver.Permit || e.Revision < all.oldest {
		return nil
	}
	for _, r := range all.of {
		if stuck := r.overdue(ttl); stuck != nil && 0 < r.revision && r.revision < e.Revision {
			return stuck
		}
	}
	return nil
}
