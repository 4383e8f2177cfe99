package recipe

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/nested"
	"github.com/farsync/farsync/internal/pause"
)

const (
	// A waiter whose session was lost joins again after a random part of a time that doubles from rejoinFirst to
	// rejoinMost, so that the clients of a service that comes back do not all arrive at once.
	rejoinFirst = 20 * time.Millisecond
	rejoinMost  = 2 * time.Second
)

// A Request is what a primitive asks for.
type Request struct {
	// Queue is a path that CheckPath accepts.
	Queue string
	// Kind and Units are the kind and the units of the entry to create. Units is 1 for all kinds but Permit.
	Kind  driver.Kind
	Units int64
	// Size is how many units a queue of permits is declared to have; 0 for all other kinds.
	Size int64
	// Value is what others read, of 64 KiB at most. Nil means the Holder of the Store.
	Value []byte
	// Try asks for what is free: ErrLocked if anything would block, a Silence if the service grants nothing for a
	// while. A queue that is seen to be busy costs one read and no write, on ZooKeeper two; one or
	// two more if another family is in it.
	Try bool
	// Replaceable is true if the caller has other Stores for this one. Such a request does not wait for the service, only
	// for those ahead of it: Acquire fails with ErrUnavailable when the service has not answered for a tenth of the TTL,
	// while the Store is not Connected, and when nothing is ahead of it and the service grants nothing for a while. It also
	// fails, with that or with what the service has said, while an entry that the Store has given up is not removed: at once if it
	// comes then, and as soon as it is known if it waits behind that entry already, whoever else waits between the
	// two.
	Replaceable bool
	// Line is true if the request waits in the line of its path. Callers of one Store whose Queue, Kind, Size and Replaceable
	// agree share entries there, and take turns on them; where Kind is Permit, few entries at a time stand in the queue for
	// them. A request with a Value has an entry of its own all the same, and so has a caller whose ctx stands for a lease
	// that is held.
	Line bool

	note    string // what its entry says beside the Holder, if Value is nil
	carried bool   // it stands for the callers of a line, and has none of its own
}

// rule returns the rule of the request, with the size of its queue as it is declared.
func (r Request) rule() rule { return ruleOf(r.Kind, r.Size) }

// Acquire waits until nothing ahead of a new entry blocks it, and returns a hold on it; or waits for a turn, if the request goes
// in a line. On error nothing is held, and cleanup has begun. The error is the error of a ctx that has ended, wraps ErrClosed,
// ErrPath, ErrSize, ErrTooLarge or driver.ErrKind, or is what the service said when it refused. Of a Try it may be a
// Silence.
//
// A caller whose ctx stands for a lease that is held waits with an entry of its own: what it waits for, and under what, can
// then be seen from outside.
//
// The request is read until Acquire returns, and not changed: calls may share it.
func Acquire(ctx context.Context, s *Store, r *Request) (*Hold, error) {
	return s.get(ctx, r)
}

// enter waits, or only tries, in the line of the request's path, or with an entry of its own.
func (s *Store) enter(ctx context.Context, r *Request) (*Hold, error) {
	switch {
	case !r.Line || r.Value != nil:
		return s.lone(ctx, r)
	case r.Try || !nested.Is(ctx):
		return s.inLine(ctx, r)
	}
	if h := s.shared(r); h != nil {
		return h, nil
	}
	return s.lone(ctx, r)
}

// inLine waits, or only tries, in the line of the request's path.
func (s *Store) inLine(ctx context.Context, r *Request) (*Hold, error) {
	g := s.through(r)
	defer g.use(-1)
	switch {
	case r.Try && g.window != nil:
		return g.tryUnits(ctx, r)
	case r.Try:
		return g.tryAcquire(ctx, r)
	case g.window != nil:
		return g.acquireUnits(ctx, r)
	default:
		return g.acquire(ctx, r)
	}
}

// shared returns a hold on the grant that readers of this Store have, if another may come in; else nil.
func (s *Store) shared(r *Request) *Hold {
	if r.Kind != driver.Read {
		return nil
	}
	g := s.through(r)
	defer g.use(-1)
	if t, ok := g.cohort.share(); ok {
		return newHold(t.grant, t.number)
	}
	return nil
}

func (s *Store) lone(ctx context.Context, r *Request) (*Hold, error) {
	var p *place
	var err error
	if r.Try {
		p, err = s.tryAcquire(ctx, r)
	} else {
		p, err = s.acquire(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	return newHold(loneGrant(s, p), 0), nil
}

// admit refuses what need not be asked for.
func admit(ctx context.Context, r *Request) error {
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

// acquire is stand, for a caller that leaves nothing behind when it fails.
func (s *Store) acquire(ctx context.Context, r *Request) (*place, error) {
	p, err := s.stand(ctx, r, nil, time.Now())
	if err != nil && p != nil {
		s.removeInBackground(p)
		p = nil
	}
	return p, err
}

// stand is standAt, which for a Replaceable request also ends when the Store is not Connected.
func (s *Store) stand(ctx context.Context, r *Request, p *place, began time.Time) (*place, error) {
	if r.Replaceable {
		return s.standConnected(ctx, r, p, began)
	}
	return s.standAt(ctx, r, p, began)
}

// standConnected is stand for a Replaceable request. It is a function of its own, as all others need no stack for it while they wait.
func (s *Store) standConnected(ctx context.Context, r *Request, p *place, began time.Time) (*place, error) {
	bound, cancel := bind(ctx, s.states.connected())
	defer cancel()
	p, err := s.standAt(bound, r, p, began)
	if err != nil && ctx.Err() == nil && bound.Err() != nil && s.life.Err() == nil {
		err = context.Cause(bound)
	}
	return p, err
}

// standAt is the one waiting loop: it joins the queue, waits until the rule finds nothing ahead that blocks, and returns
// the place, whose entry exists and belongs to a live session. If the entry or its session goes away meanwhile, it joins
// again at the tail.
//
// If ctx ends while the entry waits, standAt returns its place with the error. The caller removes the entry, or has it wait on
// by another call, whose p it then is. Nothing is known then of what is ahead, so that call begins with a look.
func (s *Store) standAt(ctx context.Context, r *Request, p *place, began time.Time) (*place, error) {
	var g grace
	before := 0
	if p != nil {
		before = p.before
	}
	for delay := rejoinFirst; ; delay = min(2*delay, rejoinMost) {
		var on []driver.Target
		var v verdict
		var err error
		if p == nil {
			asked := time.Now()
			if p, on, err = s.joinInTime(ctx, r); err == nil {
				p.began, p.before = began, before
			}
			g.saw(asked)
		} else {
			on, v = s.look(ctx, p, r, driver.Register{})
		}
		if p != nil {
			err = s.await(ctx, p, r, on, v)
		}
		switch {
		case err == nil:
			return p, nil
		case p != nil && ctx.Err() != nil && s.life.Err() == nil:
			if !errors.Is(err, ctx.Err()) { // the wait has ended, by the end of the session for example, a moment before ctx
				err = s.failure(ctx, verdict{err: err})
			}
			return p, err
		case p != nil:
			s.removeInBackground(p)
			p = nil
			before++
		}
		if !rejoins(err) && !s.outwait(ctx, err, &g) {
			return nil, err
		}
		if pauseIn(ctx, s.life, rand.N(delay)) != nil {
			return nil, s.failure(ctx, verdict{err: err})
		}
	}
}

// joinInTime is join, which waits for nothing but answers, in the time that a service has which can be replaced.
func (s *Store) joinInTime(ctx context.Context, r *Request) (*place, []driver.Target, error) {
	if !r.Replaceable {
		return s.join(ctx, r)
	}
	if stuck := s.stuckIn(r.Queue); stuck != nil {
		return nil, nil, stuck.asError() // one more entry would not be removed either
	}
	bound, cancel := context.WithTimeout(ctx, s.options.TTL/10)
	defer cancel()
	p, on, err := s.join(bound, r)
	if err != nil && ctx.Err() == nil && bound.Err() != nil && s.life.Err() == nil {
		err = errOverdue
	}
	return p, on, err
}

// rejoins reports whether an entry that was given up with err is to be replaced by another, at the tail.
func rejoins(err error) bool { return errors.Is(err, driver.ErrGone) || errors.Is(err, errNotAlone) }

// tryAcquire is acquire without the wait.
func (s *Store) tryAcquire(ctx context.Context, r *Request) (*place, error) {
	var g grace
	for {
		was, removed := s.silence(), s.unstuck.Load()
		in, locked, err := s.peek(ctx, r)
		switch {
		case err != nil:
			return nil, err
		case locked != nil && was != nil && in.silence() == nil:
			continue // what was in the way may have been a silence that has just ended
		case locked != nil && s.unstuck.Load() != removed:
			continue // or an entry whose removal is confirmed at last
		case locked != nil:
			return nil, in.taken(locked)
		}
		asked := time.Now()
		p, on, err := s.join(ctx, r)
		g.saw(asked)
		switch {
		case rejoins(err), errors.Is(err, ErrSize) && s.outwait(ctx, err, &g):
			_ = pause.For(ctx, rand.N(rejoinFirst)) // two that declare different sizes must not meet again and again
			continue
		case err != nil:
			return nil, err
		case len(on) > 0:
			// Another entry came between the look and the join. Ours has stood in the queue for a moment, so the
			// entries that joined behind it wait for its removal: see it through while ctx lives.
			if err := s.remove(ctx, p); err != nil && !errors.Is(err, driver.ErrGone) && ctx.Err() == nil {
				return nil, err
			}
			if s.unstuck.Load() != removed {
				continue
			}
			if stuck := p.in.stuck(r.Queue, on[0].Entry); stuck != nil {
				return nil, p.in.taken(stuck)
			}
			return nil, p.in.taken(&lockedError{how: "behind", by: on[0].Entry})
		case p.in.err() == nil:
			return p, nil
		}
		// The session ended on the way. Nothing was held: look again.
		s.removeInBackground(p)
	}
}

// peek returns in locked who is in the way of an entry of the request that would join now, as a Try is told it, or nil if the
// entry would be granted. A queue of permits that was declared with another size is left to join. In is the session that
// was asked in.
func (s *Store) peek(ctx context.Context, r *Request) (in *session, locked, err error) {
	e := driver.Entry{Queue: r.Queue, Kind: r.Kind, Units: r.Units}
	err = s.inSession(ctx, func(current *session) verdict {
		in, locked = current, nil
		v, got := s.ahead(ctx, in, e, true)
		if got.fate == done {
			got = s.checkKind(ctx, in, e, v)
		}
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
				return got
			}
			if err := fits(r.Units, current); err != nil {
				return verdict{fate: not, err: err}
			}
			rule = unitsRule(current)
		}
		if len(rule.blockers(e, v.Entries)) > 0 {
			locked = in.inTheWay(rule, e, v)
		}
		return got
	})
	return in, locked, err
}
