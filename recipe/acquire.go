package recipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

const (
	// recheckAfter is the least time after which a waiter looks at its queue again although nothing has woken it. It turns
	// a lost event, of which no case is known, from a hang into a delay.
	recheckAfter = 30 * time.Second
	// A waiter whose session was lost joins again after a random part of a time that doubles from rejoinFirst to
	// rejoinMost, so that the clients of a service that comes back do not all arrive at once.
	rejoinFirst = 20 * time.Millisecond
	rejoinMost  = 2 * time.Second
)

// A Request is what a primitive asks for.
type Request struct {
	// Queue is a path that CheckPath accepts.
	Queue string
	// Kind and Units are those of the entry to create. Units is 1 for all kinds but Permit.
	Kind  driver.Kind
	Units int64
	// Size is how many units a queue of permits is declared to have; 0 for all other kinds.
	Size int64
	// Value is what others read, of 64 KiB at most. Nil means the Holder of the Store.
	Value []byte
}

// rule returns the rule of the request, with the size of its queue as it is declared.
func (r Request) rule() rule { return ruleOf(r.Kind, r.Size) }

// Acquire waits until nothing ahead of a new entry blocks it, and returns a hold on it that is not shared within the
// process. On error nothing is held, and cleanup has begun. The error is that of a ctx that has ended, wraps ErrClosed, ErrName,
// ErrSize or ErrTooLarge, or is what the service said when it refused.
func Acquire(ctx context.Context, s *Store, r Request) (*Hold, error) {
	return s.lone(ctx, r, s.acquire)
}

// TryAcquire is Acquire without waiting for others: ErrLocked if anything would block. A queue that is seen to be busy
// costs one read and no write.
func TryAcquire(ctx context.Context, s *Store, r Request) (*Hold, error) {
	return s.lone(ctx, r, s.tryAcquire)
}

func (s *Store) lone(
	ctx context.Context, r Request, acquire func(context.Context, Request) (*place, error),
) (*Hold, error) {
	if err := admit(ctx, r); err != nil {
		return nil, err
	}
	p, err := acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return newHold(newGrant(s, nil).alone(p), 0), nil
}

// admit refuses what need not be asked for.
func admit(ctx context.Context, r Request) error {
	if err := CheckPath(r.Queue); err != nil {
		return err
	}
	if err := checkValue(r.Value); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return gaveUp(ctx, nil, false)
	}
	return nil
}

// acquire is the one waiting loop: it joins the queue, waits until the rule finds nothing ahead that blocks, and returns
// the place, whose entry exists and belongs to a live session. If the entry or its session goes away meanwhile, it joins
// again at the tail.
func (s *Store) acquire(ctx context.Context, r Request) (*place, error) {
	for delay := rejoinFirst; ; delay = min(2*delay, rejoinMost) {
		p, on, err := s.join(ctx, r)
		if err == nil {
			if err = s.await(ctx, p, r, on); err == nil {
				return p, nil
			}
			s.removeInBackground(p)
		}
		if !rejoins(err) {
			return nil, err
		}
		bound, cancel := bind(ctx, s.life)
		over := pause.For(bound, rand.N(delay))
		cancel()
		if over != nil {
			return nil, s.failure(ctx, verdict{err: err})
		}
	}
}

// rejoins reports whether an entry that was given up with err is to be replaced by another, at the tail.
func rejoins(err error) bool { return errors.Is(err, driver.ErrGone) || errors.Is(err, errNotAlone) }

// tryAcquire is acquire without the wait.
func (s *Store) tryAcquire(ctx context.Context, r Request) (*place, error) {
	for {
		free, err := s.peek(ctx, r)
		if err != nil {
			return nil, err
		}
		if !free {
			return nil, ErrLocked
		}
		p, on, err := s.join(ctx, r)
		switch {
		case rejoins(err):
			_ = pause.For(ctx, rand.N(rejoinFirst)) // two that declare different sizes must not meet again and again
			continue
		case err != nil:
			return nil, err
		case len(on) > 0:
			// Another entry came between the look and the join. Ours has stood in the queue for a moment, so those that
			// joined behind it wait for its removal: see it through while ctx lives.
			if err := s.remove(ctx, p); err != nil && !errors.Is(err, driver.ErrGone) && ctx.Err() == nil {
				return nil, err
			}
			return nil, ErrLocked
		case p.in.err() == nil:
			return p, nil
		}
		// The session ended on the way. Nothing was held: look again.
		s.removeInBackground(p)
	}
}

// peek reports whether an entry of the request would be granted if it joined now. A queue of permits that was declared
// with another size is left to join.
func (s *Store) peek(ctx context.Context, r Request) (free bool, err error) {
	e := driver.Entry{Queue: r.Queue, Kind: r.Kind, Units: r.Units}
	err = s.inSession(ctx, func(ctx context.Context, in *session) verdict {
		var v driver.View
		got := s.try(ctx, in, func(ctx context.Context, _ int) (err error) {
			v, err = in.Ahead(ctx, e, r.rule().nearest())
			return err
		})
		if got.fate != done {
			return got
		}
		rule := r.rule()
		if r.Kind == driver.Permit {
			declared, current, err := parseSize(r.Queue, v.Register)
			if err != nil {
				return verdict{fate: not, err: err}
			}
			if declared != r.Size {
				free = true
				return got
			}
			if err := fits(r.Units, current); err != nil {
				return verdict{fate: not, err: err}
			}
			rule = unitsRule(current)
		}
		free = len(rule.blockers(e, v.Entries)) == 0
		return got
	})
	return free, err
}

// await returns nil when nothing blocks p any more. ErrGone means that its entry or its session went away.
//
// No wake-up is missed. A watch ends when any of its targets is gone or has changed, also if that was before the call;
// while all of them stay as they are, the rule would name the same ones, so p may not run. A wake-up tells that a target
// has gone, but not whether it was a holder. So the queue is looked at again, which proves at the same time that p's own
// entry still exists, unless the driver brings that proof along.
func (s *Store) await(ctx context.Context, p *place, r Request, on []driver.Target) error {
	var err error
	var v verdict
	if len(on) > 0 {
		on, v, err = s.outlast(ctx, p, r, on)
	}
	over := p.in.err()
	switch {
	case s.life.Err() != nil:
		return context.Cause(s.life)
	case ctx.Err() != nil:
		trouble := v.err
		if len(on) > 0 {
			trouble = fmt.Errorf("waiting behind %s", describe(on[0].Entry))
		}
		return s.failure(ctx, verdict{err: trouble, silent: v.silent})
	case over != nil:
		// Also when the look has just shown that nothing blocks: the answer may be older than the session's end.
		return fmt.Errorf("%w: %v", driver.ErrGone, over) //nolint:errorlint // nothing was held, so nothing was lost
	default:
		return err
	}
}

// outlast waits for the targets, and for what is found instead of them, until nothing is left. On error it returns what was
// waited for.
func (s *Store) outlast(
	ctx context.Context, p *place, r Request, on []driver.Target,
) (left []driver.Target, v verdict, err error) {
	// A server that has ended the session may be out of reach, and what blocks be there for ever: the session's own end
	// must wake the waiter.
	bound, cancel := p.in.bind(ctx)
	defer cancel()
	var brake pause.Brake
	for err == nil && len(on) > 0 {
		var proof *driver.View
		if proof, err = s.watch(bound, p.in, p.entry, on); err != nil {
			break
		}
		before := on
		if proof == nil || !proof.All || proof.Self.ID != p.entry.ID {
			on, v = s.look(bound, p, r, registerIn(before))
		} else {
			on, v = s.decide(bound, p, r, registerIn(before), *proof)
		}
		if err = v.err; err == nil && len(on) > 0 {
			brake.Woken(bound, !slices.EqualFunc(before, on, sameTarget))
		}
	}
	return on, v, err
}

// sameTarget reports whether a look has found what was waited for as it was.
func sameTarget(a, b driver.Target) bool {
	return a.What == b.What && a.Entry.ID == b.Entry.ID && a.Entry.Version == b.Entry.Version
}

// look asks for what is ahead of p, and decides. Was is the register that p has seen last.
func (s *Store) look(ctx context.Context, p *place, r Request, was driver.Register) ([]driver.Target, verdict) {
	v, got := s.ahead(ctx, p, r.rule())
	if got.fate != done {
		return nil, got
	}
	return s.decide(ctx, p, r, was, v)
}

func (s *Store) ahead(ctx context.Context, p *place, r rule) (v driver.View, got verdict) {
	got = s.try(ctx, p.in, func(ctx context.Context, _ int) (err error) {
		v, err = p.in.Ahead(ctx, p.entry, r.nearest())
		return err
	})
	return v, got
}

// decide applies the rule to what is ahead of p, and returns what p has to wait for. Nothing means that it is granted.
func (s *Store) decide(
	ctx context.Context, p *place, r Request, was driver.Register, v driver.View,
) ([]driver.Target, verdict) {
	rule := r.rule()
	if r.Kind == driver.Permit {
		current, settled, got := s.settleSize(ctx, p, r, was, v)
		if got.fate != done {
			return nil, got
		}
		if err := fits(r.Units, current); err != nil {
			return nil, verdict{fate: not, err: err}
		}
		v, rule = settled, unitsRule(current)
	}
	blockers := rule.blockers(p.entry, v.Entries)
	if len(blockers) == 0 {
		return nil, verdict{fate: done}
	}
	on := make([]driver.Target, 0, len(blockers)+1)
	for _, e := range blockers {
		on = append(on, driver.Target{Entry: e, What: rule.ends(e)})
	}
	if r.Kind == driver.Permit {
		on = append(on, registered(r.Queue, v.Register)) // it may fit when the size changes
	}
	return on, verdict{fate: done}
}

// watch waits until one of the targets may have changed, and watches again when a watch fails. Now and then it is cut
// short by a random amount, so that the waiters of a queue do not all look at the same time.
func (s *Store) watch(ctx context.Context, in *session, e driver.Entry, on []driver.Target) (*driver.View, error) {
	recheck, cancel := context.WithTimeout(ctx, recheckAfter+rand.N(recheckAfter/2))
	defer cancel()
	for delay := retryFirst; ; delay = min(2*delay, retryMost) {
		proof, err := in.Watch(recheck, e, on)
		switch {
		case err == nil:
			return proof, nil
		case ctx.Err() != nil:
			return nil, err
		case recheck.Err() != nil:
			return nil, nil //nolint:nilnil // no error, and no proof
		case s.outcome(in, err) == driver.Refused:
			return nil, err
		}
		_ = pause.For(recheck, delay/2+rand.N(delay/2))
	}
}

// describe names an entry for people.
func describe(e driver.Entry) string {
	if len(e.Value) == 0 {
		return fmt.Sprintf("%q", e.ID)
	}
	return fmt.Sprintf("%q of %q", e.ID, e.Value)
}
