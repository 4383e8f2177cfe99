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
	p.in.removalFailed(p, sent, refused, why)
}

func (in *session) removalFailed(p *place, sent time.Time, refused bool, why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.removals == nil {
		in.removals = map[string]map[string]removal{}
	}
	of := in.removals[p.entry.Queue]
	if of == nil {
		of = map[string]removal{}
		in.removals[p.entry.Queue] = of
	}
	// By the ID that was asked for: the ID that the entry got, and the ID of an entry that has replaced it, begin with that.
	if before, ok := of[p.made.ID]; ok {
		sent = before.sent
	}
	of[p.made.ID] = removal{sent: sent, refused: refused, why: why}
}

// removed notes that the entry of p is gone. If an attempt had failed before, that is counted, and before the entry is forgotten: whoever has
// seen it in its way and does not find it here any more looks again.
func (in *session) removed(p *place, count *atomic.Uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	of := in.removals[p.entry.Queue]
	if _, late := of[p.made.ID]; late {
		count.Add(1)
		if delete(of, p.made.ID); len(of) == 0 {
			delete(in.removals, p.entry.Queue)
		}
	}
	if delete(in.parted, p.entry.ID); len(in.removals) == 0 {
		in.parted = nil
	}
}

// stuck returns the error of a call that the entry e of a queue is in the way of, if the Store has given e up and the service refuses to remove it, or has not
// confirmed that for as long as an answer may take; else nil. Before that a removal is under way, as after each release.
func (in *session) stuck(queue string, e driver.Entry) *stuckError {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.overdue(queue, e)
}

// overdue is stuck for a caller that holds mu.
func (in *session) overdue(queue string, e driver.Entry) *stuckError {
	of := in.removals[queue]
	for n := len(e.ID); n > 0 && len(of) > 0; n-- {
		if r, ok := of[e.ID[:n]]; ok {
			return r.overdue(in.ttl)
		}
	}
	return nil
}

// stuckIn is stuck where the service does not show which entries of the queue are in the way.
func (in *session) stuckIn(queue string) *stuckError {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, r := range in.removals[queue] {
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

// overdue returns the removal as an error, or nil while it is in time.
func (r removal) overdue(ttl time.Duration) *stuckError {
	waited := time.Since(r.sent)
	if r.refused || waited >= min(ttl/3, firstAttempt) {
		return &stuckError{removal: r, waited: waited}
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
	in, queue := w.place.in, w.place.entry.Queue
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.removals[queue]) == 0 {
		return nil
	}
	e := w.nearest()
	if stuck := in.overdue(queue, e); stuck != nil {
		return stuck // so most calls of a crowd that gives up at the same moment go through no waiters
	}
	next := map[string]*waiting{}
	stands := func(other *waiting) {
		if other.place.entry.Queue == queue {
			next[other.place.entry.ID] = other
		}
	}
	for _, other := range in.parted {
		stands(other)
	}
	for other := range in.waiters {
		stands(other)
	}
	for {
		delete(next, w.place.entry.ID) // what was seen of the others may be old, so they are no chain for certain
		if w = next[e.ID]; w == nil {
			return nil
		}
		e = w.nearest()
		if stuck := in.overdue(queue, e); stuck != nil {
			return stuck
		}
	}
}
