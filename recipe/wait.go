package recipe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/internal/pause"
)

// recheckAfter is the least time after which a waiter looks at its queue again although nothing has woken it. It turns a
// lost event from a hang into a delay. No case of a lost event is known.
const recheckAfter = 30 * time.Second

// recheckAtMost is the most time that lookAfter draws.
const recheckAtMost = recheckAfter + recheckAfter/2

// turnAfter is the least time after which a waiter looks that awaits its turn, where a quarter of the TTL is shorter.
const turnAfter = time.Second

// await returns nil when nothing blocks p any more. ErrGone means that its entry or its session went away. On is what a look has
// shown, unless v says that it has failed.
//
// No wake-up is missed. A watch ends when any of its targets is gone or has changed, also if that was before the call;
// while all of them stay as they are, the rule would name the same ones, so p may not run. A wake-up tells that a target
// has gone, but not whether it was a holder. So the queue is looked at again, which proves at the same time that p's own
// entry still exists, unless the driver brings that proof along.
func (s *Store) await(ctx context.Context, p *place, r *Request, on []driver.Target, v verdict) error {
	err := v.err
	var behind error
	if err == nil && len(on) > 0 {
		on, behind, v, err = s.outlast(ctx, p, r, on)
	}
	return s.awaited(ctx, p, len(on) > 0, behind, v, err)
}

// awaited returns the error of a wait that has ended with err. It is a function of its own so that p needs no stack for it
// while it waits.
func (s *Store) awaited(ctx context.Context, p *place, waiting bool, behind error, v verdict, err error) error {
	over := p.in.err()
	switch {
	case s.life.Err() != nil:
		return context.Cause(s.life)
	case ctx.Err() != nil:
		trouble := v.err
		if waiting {
			trouble = behind
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
// waited for, and says of that what is known.
func (s *Store) outlast(
	ctx context.Context, p *place, r *Request, on []driver.Target,
) (left []driver.Target, behind error, v verdict, err error) {
	w := s.enlist(p, on)
	waits, over := s.shown(ctx, w, r.Replaceable)
	defer func() { err = over(err) }()
	s.traceWait(ctx, r, w)
	ctx = waits
	var brake pause.Brake
	for err == nil && len(on) > 0 {
		var proof *driver.View
		if proof, v.silent, err = s.watch(ctx, p.in, &p.entry, on); err != nil {
			break
		}
		var other bool
		if on, other, v = s.woken(ctx, p, r, w, on, proof); v.err == nil && len(on) > 0 {
			brake.Woken(ctx, other)
		}
		err = v.err
	}
	if err != nil {
		behind = p.in.behind(w)
	}
	return on, behind, v, err
}

// shown has others see that w waits, and lets them end the wait if the request is Replaceable: ctx is then bound to that. Over ends
// all of it, and returns the error of the wait. It is not inlined, so that p needs no stack for it while it waits.
//
//go:noinline
func (s *Store) shown(ctx context.Context, w *waiting, replaceable bool) (bound context.Context, over func(error) error) {
	asked := s.sight(ctx, w)
	gr := grantOf(ctx)
	if gr != nil {
		gr.unanswered.Store(nil) // what is waited for was an answer
		gr.waits.Store(w)
	}
	var settle func(error) error
	if replaceable {
		ctx, settle = spurned(ctx, w)
	}
	return ctx, func(err error) error {
		if settle != nil {
			err = settle(err)
		}
		if gr != nil {
			gr.waits.Store(nil)
		}
		asked()
		w.place.in.delist(w, err != nil)
		return err
	}
}

// woken looks at what is ahead of p, unless proof shows it, and decides. It returns what to wait for now, and whether that is something
// else than before. It is not inlined, so that p needs no stack for it
// while it waits.
//
//go:noinline
func (s *Store) woken(
	ctx context.Context, p *place, r *Request, w *waiting, before []driver.Target, proof *driver.View,
) (on []driver.Target, other bool, v verdict) {
	if proof == nil || !proof.All || proof.Self.ID != p.entry.ID {
		on, v = s.look(ctx, p, r, registerIn(before))
	} else {
		on, v = s.decide(ctx, p, r, registerIn(before), proof)
	}
	if v.err == nil && len(on) > 0 {
		p.in.moved(w, on)
		other = !slices.EqualFunc(before, on, sameTarget)
	}
	return on, other, v
}

// sameTarget reports whether a look has found what was waited for as it was.
func sameTarget(a, b driver.Target) bool {
	return a.What == b.What && a.Entry.ID == b.Entry.ID && a.Entry.Version == b.Entry.Version
}

// look asks for what is ahead of p, and decides. Was is the register that p has seen last.
func (s *Store) look(ctx context.Context, p *place, r *Request, was driver.Register) ([]driver.Target, verdict) {
	v, got := s.ahead(ctx, p.in, p.entry, true)
	if got.fate != done {
		return nil, got
	}
	return s.decide(ctx, p, r, was, &v)
}

func (s *Store) ahead(ctx context.Context, in *session, e driver.Entry, waiting bool) (v driver.View, got verdict) {
	got = s.try(ctx, in, func(ctx context.Context, _ int) (err error) {
		v, err = in.Session.Ahead(ctx, e, waiting)
		return err
	})
	return v, got
}

// decide applies the rule to what is ahead of p, and returns what p has to wait for. Nothing means that it is granted.
func (s *Store) decide(
	ctx context.Context, p *place, r *Request, was driver.Register, v *driver.View,
) ([]driver.Target, verdict) {
	if v.Silent && r.Replaceable {
		return nil, verdict{fate: not, err: p.in.spurned()}
	}
	if !p.native && mixed(r.Kind, v.Entries) {
		if got := s.checkKind(ctx, p.in, p.entry, *v); got.fate != done {
			return nil, got
		}
		p.native = true
	}
	switch {
	case v.Silent:
		// Nothing holds units of another size, and when the silence is over, p is asked about that once more.
		return []driver.Target{{Entry: v.Entries[len(v.Entries)-1]}}, verdict{fate: done}
	case r.Kind == driver.Permit:
		return s.decideUnits(ctx, p, r, was, v)
	default:
		return p.targets(r.rule(), v), verdict{fate: done}
	}
}

// decideUnits is decide for a permit, in a queue whose size has to be settled.
func (s *Store) decideUnits(
	ctx context.Context, p *place, r *Request, was driver.Register, v *driver.View,
) ([]driver.Target, verdict) {
	current, settled, got := s.settleSize(ctx, p, *r, was, *v)
	if got.fate != done {
		return nil, got
	}
	if err := fits(r.Units, current); err != nil {
		return nil, verdict{fate: not, err: err}
	}
	by := unitsRule(current)
	on := p.targets(by, &settled)
	switch {
	case len(on) > 0:
		on = append(on, registered(r.Queue, settled.Register)) // it may fit when the size changes
	case settled.All:
		p.left = by.left(p.entry, settled.Entries)
	}
	return on, got
}

// targets returns what p has to wait for by the rule, of what is ahead of it.
func (p *place) targets(by rule, v *driver.View) []driver.Target {
	blockers := by.blockers(p.entry, v.Entries)
	if len(blockers) == 0 {
		return nil
	}
	on := make([]driver.Target, len(blockers), len(blockers)+1)
	alone := v.All && len(v.Entries) == 1
	for i, e := range blockers {
		on[i] = driver.Target{Entry: e, What: by.ends(e), Alone: alone}
	}
	if v.Turn {
		return []driver.Target{{Entry: on[0].Entry, What: driver.Turn}}
	}
	return on
}

// watch waits until one of the targets may have changed. It watches again when a watch fails, and when one does not stand in
// time: a server that is silent must not keep a waiter from others that answer. Now and then a watch is cut short by a
// random amount, so that the waiters of a queue do not all look at the same time. Silent is as in a verdict.
//
// A server that has ended the session may be out of reach, and what blocks be there for ever: the session's own end wakes the
// waiter, too.
func (s *Store) watch(
	ctx context.Context, in *session, e *driver.Entry, on []driver.Target,
) (proof *driver.View, silent bool, err error) {
	recheck, cancel := in.within(ctx, in.lookAfter(on))
	defer cancel()
	p := in.patience()
	for delay := retryFirst; ; delay = min(2*delay, retryMost) {
		began := time.Now()
		proof, stood, err := in.watchOnce(recheck, e, on, &p)
		if stood || err == nil {
			p.answered(ctx)
		} else {
			p.unanswered(ctx, began, err)
			if time.Since(began) >= p.limit {
				p.grow() // else a service that is slower than this would have all its watches set up anew each time
			}
		}
		switch {
		case err == nil:
			return proof, false, nil
		case ctx.Err() != nil || in.life.Err() != nil:
			return nil, p.exhausted(), err
		case recheck.Err() != nil:
			return nil, false, nil
		case s.outcome(in, err) == driver.Refused:
			return nil, false, err
		}
		if stood && time.Since(began) >= retryMost {
			delay = retryFirst // a connection that is cut now and then, by a balancer for example, is no service in trouble
		}
		_ = pause.For(recheck, delay/2+rand.N(delay/2))
	}
}

// lookAfter returns after which time a waiter looks at its queue again. A waiter that awaits its turn does so sooner, and only once: from
// then on it watches an entry. A client ahead of it that dies, or whose session ends, tells it nothing.
func (in *session) lookAfter(on []driver.Target) time.Duration {
	least := recheckAfter
	if on[0].What == driver.Turn {
		least = min(max(turnAfter, in.ttl/4), recheckAfter)
	}
	return least + rand.N(least/2)
}

// watchOnce makes one attempt to watch. If it does not stand in time, the driver is to drop a connection that is silent, and
// the attempt continues: a service that is slow sets up a crowd of watches one by one, and a watch that is given up comes
// last again. So a watch is given up only once the patience has grown to its end.
func (in *session) watchOnce(
	ctx context.Context, e *driver.Entry, on []driver.Target, p *patience,
) (proof *driver.View, stood bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := in.lateness(p, cancel)
	proof, err = in.Session.Watch(ctx, *e, on, func() {
		late.stands()
		p.answered(ctx) // for the callers of the line: it may be long until Watch returns
	})
	return proof, late.over(), err
}

// A lateness is what happens while a watch does not stand.
type lateness struct {
	reset, end *time.Timer
	resets     chan struct{} // closed when Reset has returned, or will not be called
	stood      atomic.Bool
}

func (in *session) lateness(p *patience, cancel context.CancelCauseFunc) *lateness {
	l := &lateness{resets: make(chan struct{})}
	l.end = time.AfterFunc(p.most, func() { cancel(errNoAnswer) })
	l.reset = time.AfterFunc(p.limit, func() {
		defer close(l.resets)
		in.Reset()
	})
	return l
}

// stands notes that the watch does, unless it is given up already.
func (l *lateness) stands() {
	if l.reset.Stop() {
		close(l.resets)
	}
	if l.end.Stop() {
		l.stood.Store(true)
	}
}

// over reports whether the watch has stood. Nothing happens any more when it has returned.
func (l *lateness) over() bool {
	l.end.Stop()
	if !l.reset.Stop() {
		<-l.resets
	}
	return l.stood.Load()
}

// describe names an entry for people.
func describe(e driver.Entry) string {
	if len(e.Value) == 0 {
		return nameOf(e)
	}
	return nameOf(e) + " (entry " + legible.Quote(e.ID) + ")"
}
