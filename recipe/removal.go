package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
)

// A removal is the removal of an entry that the Store has given up, once an attempt has failed. The attempts are repeated until one
// succeeds or the session ends. Meanwhile the entry may stand in its queue and block it, though nobody holds or waits by it: that the Store
// itself is in its own way says nothing of the lock.
//
// An entry whose removal has begun is never held again, and is left to no line: the last turn on it is over, or its caller has given up.
type removal struct {
	sent    time.Time // the first attempt that has failed
	refused bool      // the last attempt was
	why     error     // how the last attempt has failed
	gone    bool      // it is confirmed
}

// The removals of a queue are kept from the first failed attempt until none of them is left, with what is known of the calls that wait there.
type removals struct {
	of map[string]*removal // by the ID that was asked for. Invariant: not empty
	// calls are those that wait in the queue, or have failed since there were removals, by the ID of their entry: the entry of a call that has
	// failed stands until it is removed, and keeps what is behind it from what the call has waited for.
	calls    map[string]*waiting
	oldest   int64  // Invariant: no entry in of has a lower revision
	shortest int    // Invariant: no ID in of is shorter
	changes  uint64 // of what calls wait for
	waits    int    // how many of calls have not failed
	told     bool   // the log was, that one of them is not removed
}

// A stuckError says that an entry which the Store has given up may still stand, and why.
type stuckError struct {
	removal

	waited time.Duration // for the confirmation, when the error was made
}

func (e *stuckError) Error() string {
	if e.refused {
		return "an entry that this Store has given up still stands, for the service refuses to remove it: " + e.why.Error()
	}
	return fmt.Sprintf("an entry that this Store has given up may still stand, for its removal is not confirmed after %v: %v",
		e.waited.Round(silenceUnit), e.why)
}

// Unwrap returns what the service has said when it refused, or that it does not answer.
func (e *stuckError) Unwrap() error {
	if e.refused {
		return e.why
	}
	return ErrUnavailable
}

// IsStuck reports whether err says that nothing is in the way of a call but an entry which its own Store has given up, and which the service
// has not removed.
func IsStuck(err error) bool {
	_, stuck := errors.AsType[*stuckError](err)
	return stuck
}

// asError is the error of a call that does not wait for the removal. A removal that is overdue is told as a service that does not answer.
func (e *stuckError) asError() error {
	if e.refused {
		return e
	}
	return fmt.Errorf("%w (%w)", ErrUnavailable, e)
}

// removalFailed notes that an attempt to remove the entry of p has failed, which was sent at that time.
func (s *Store) removalFailed(ctx context.Context, p *place, sent time.Time, why error) {
	refused := s.outcome(p.in, why) == driver.Refused
	if !refused && ctx.Err() != nil {
		why = errNoAnswer // whoever has ended the wait for it
	}
	if p.in.removalFailed(p, sent, refused, why) {
		s.log.Error("entry not removed: trying again until the session ends",
			"path", p.entry.Queue, "kind", p.entry.Kind.String(), "cause", why)
	}
}

// removalFailed notes a failed attempt, and tells those Replaceable requests of it that wait behind the entry, if the service refuses, or has had its
// time. It reports whether that is to be logged: once in a queue, and of a service that does not answer only if a call waits there.
//
// That is when an attempt fails, and not by a clock of its own. The first attempt lasts for as long as an answer may take where the TTL is 6 seconds or
// more, or else half as long; the second, which begins at once, ends before half of the TTL is over. A service that puts off is asked again at
// least once a second.
func (in *session) removalFailed(p *place, sent time.Time, refused bool, why error) (news bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := in.removalsOf(p)
	if all.failed(p, removal{sent: sent, refused: refused, why: why}).overdue(in.ttl) == nil {
		return false
	}
	if news = !all.told && (refused || all.waits > 0) && in.life.Err() == nil; news {
		all.told = true
	}
	in.spurnAll(p.entry.Queue)
	return news
}

// spurnAll ends the wait of each Replaceable request in a queue that waits behind an entry which is not removed. Nothing is asked for that: each
// is woken once, and with the answer. The caller holds mu.
func (in *session) spurnAll(queue string) {
	for w := range in.movable[queue] {
		if stuck := in.ahead(w); stuck != nil {
			in.keeps(w)
			w.spurn(stuck)
		}
	}
}

// spurned returns the ctx of a Replaceable request that waits as w, which ends when the request waits behind an entry that is not removed: also one that
// was not removed before. Settle is called when the wait is over, and sees to its error.
func spurned(ctx context.Context, w *waiting) (bound context.Context, settle func(err *error)) {
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
	return bound, func(err *error) {
		if stuck, is := errors.AsType[*stuckError](context.Cause(bound)); is && *err != nil && ctx.Err() == nil {
			*err = stuck.asError()
		}
		spurn(nil)
	}
}

// keeps takes w off those whose wait may be ended. The caller holds mu.
func (in *session) keeps(w *waiting) {
	queue := w.place.entry.Queue
	if delete(in.movable[queue], w); len(in.movable[queue]) == 0 {
		delete(in.movable, queue)
	}
}

// removalsOf returns the removals of the queue of p, an attempt of which has failed. It goes through the calls that wait in the session once in a
// queue, and not once for each removal. The caller holds mu.
func (in *session) removalsOf(p *place) *removals {
	queue := p.entry.Queue
	if all := in.removals[queue]; all != nil {
		return all
	}
	all := &removals{of: map[string]*removal{}, calls: map[string]*waiting{}, oldest: p.entry.Revision, shortest: len(p.made.ID)}
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
		r.sent = before.sent
		*before = r
		return before
	}
	all.of[p.made.ID] = &r
	all.oldest = min(all.oldest, p.entry.Revision)
	all.shortest = min(all.shortest, len(p.made.ID))
	return &r
}

// removed notes that the entry of p is gone. If an attempt had failed before, that is counted, and before the entry is forgotten: whoever has
// seen it in its way and does not find it here any more looks again.
func (in *session) removed(p *place, count *atomic.Uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := in.removals[p.entry.Queue]
	if all == nil {
		return
	}
	delete(all.calls, p.entry.ID)
	all.changes++
	if r := all.of[p.made.ID]; r != nil {
		r.gone = true
		count.Add(1)
		if delete(all.of, p.made.ID); len(all.of) == 0 {
			delete(in.removals, p.entry.Queue)
		}
	}
}

// find returns the removal of e, or nil. The removals may be nil.
func (all *removals) find(e driver.Entry) *removal {
	if all == nil {
		return nil
	}
	for n := len(e.ID); n >= all.shortest; n-- {
		if r := all.of[e.ID[:n]]; r != nil {
			return r
		}
	}
	return nil
}

// stuck returns the error of a call that the entry e of a queue is in the way of, if the Store has given e up and the service refuses to remove it, or has not
// confirmed that for as long as an answer may take; else nil. Before that a removal is under way, as after each release.
func (in *session) stuck(queue string, e driver.Entry) *stuckError {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.removals[queue].find(e).overdue(in.ttl)
}

// stuckIn is stuck where the service does not show which entries of the queue are in the way.
func (in *session) stuckIn(queue string) *stuckError {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := in.removals[queue]
	if all == nil {
		return nil
	}
	for _, r := range all.of {
		if stuck := r.overdue(in.ttl); stuck != nil {
			return stuck
		}
	}
	return nil
}

// stuckIn asks the session in use.
func (s *Store) stuckIn(queue string) *stuckError {
	in := s.inUse()
	if in == nil {
		return nil
	}
	return in.stuckIn(queue)
}

// overdue returns the removal as an error, or nil while it is in time, and if there is none.
func (r *removal) overdue(ttl time.Duration) *stuckError {
	if r == nil {
		return nil
	}
	waited := time.Since(r.sent)
	if r.refused || waited >= min(ttl/3, firstAttempt) {
		return &stuckError{removal: *r, waited: waited}
	}
	return nil
}

// inTheWay returns the error of a Try for e, which the entries ahead of it block by the rule, as the view shows.
//
// It is locked if one of them holds. If all that is in the way has been given up, or waits for nothing else than that, nobody holds.
func (in *session) inTheWay(by rule, e driver.Entry, v driver.View) error {
	if !in.removing() {
		return lockedBy(e.Kind, by.blockers(e, v.Entries), v)
	}
	if e.Kind == driver.Permit && !v.All {
		if stuck := in.stuckIn(e.Queue); stuck != nil {
			return stuck // it has units, and they may be the units that are missing
		}
		return ErrLocked
	}
	var first *stuckError
	var rest []driver.Entry // without the entries that were given up
	for i, other := range append(slices.Clone(v.Entries), e) {
		if stuck := in.stuck(e.Queue, other); stuck != nil {
			first = cmp.Or(first, stuck)
			continue
		}
		its := ruleOf(other.Kind, max(by.size, 1))
		if first != nil && len(its.blockers(other, v.Entries[:i])) > 0 && len(its.blockers(other, rest)) == 0 {
			return first
		}
		rest = append(rest, other)
	}
	v.Entries = rest[:len(rest)-1]
	return lockedBy(e.Kind, by.blockers(e, v.Entries), v)
}

// removing reports whether an attempt to remove an entry has failed, and none has succeeded since.
func (in *session) removing() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.removals) > 0
}

// stuck returns why nothing is known of the lock that w waits for, or nil. Nothing is known where w waits for an entry that the
// Store has given up, or for the entry of a waiter of this session who waits for such an entry, and may have just left.
func (w *waiting) stuck() *stuckError {
	in := w.place.in
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ahead(w)
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
