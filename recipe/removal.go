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
	sent     time.Time // the first attempt that has failed
	refused  bool      // the last attempt was
	why      error     // how the last attempt has failed
	gone     bool      // it is confirmed
	revision int64     // of the entry; 0 if the service may not have made it
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
