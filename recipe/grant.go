package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
)

// A turn is a number within a grant: 0 for the hold that won it from the queue. Or it is none, for err.
type turn struct {
	grant  *grant
	number int
	err    error
}

// A phase is the state of a grant. It only moves on.
type phase uint8

const (
	// trying: a caller that does not wait has it in the queue, or on its way there.
	trying phase = iota
	// joining: it is in the queue, or on its way there.
	joining
	// open: it is held, and another turn may begin.
	open
	// closing: it is held, and no other turn may begin.
	closing
	// over: the last hold on it has ended, or it was not won.
	over
)

// A grant is one entry that this process wins from its queue, and the turns that are taken on it. Only a grant of a gate
// has more than one turn.
type grant struct {
	store  *Store
	cohort *cohort               // nil for a grant of its own
	place  atomic.Pointer[place] // replaced when the entry is changed in its place; nil until it is won

	// For the callers of the line, until it is won: how it waits in the queue, and since when the service has not answered. Nil if it
	// does not wait, and if the service answers.
	waits      atomic.Pointer[waiting]
	unanswered atomic.Pointer[patience]

	// Set when it is won, before place.
	since time.Time
	life  context.Context // the grant's own, a child of the session's: done when it is given up or its entry is found gone
	end   context.CancelCauseFunc

	// easing counts the changes under way that make a reader of the writer: the entry may be the one or the other.
	easing atomic.Int32

	// beside counts the holds on a grant without a cohort, beside the first, that have not been released. It is -1 when
	// the last hold was.
	beside atomic.Int32

	// Guarded by the cohort's mu.
	phase    phase
	turns    int                // that have begun, after the first. Invariant: 0 ≤ turns ≤ 255
	gone     bool               // the entry, though the session is alive and the last hold was not released
	holds    int                // that have not been released. Invariant: > 0 if open; 0 before, and while a grant that is closing has its entry removed
	standing *place             // of the entry that its caller has left to the line
	drop     context.CancelFunc // while it is carried for the line; else nil
	note     string             // what its entry is to say; set before it is carried
}

// loneGrant returns a grant that is held at p, by one hold, and belongs to no gate. It has one turn.
func loneGrant(s *Store, p *place) *grant {
	gr := &grant{store: s, phase: closing, holds: 1}
	gr.winAt(p)
	return gr
}

// winAt makes p the place of the grant, which is held from now on.
func (gr *grant) winAt(p *place) {
	gr.since = time.Now()
	gr.life, gr.end = context.WithCancelCause(p.in.life)
	gr.place.Store(p)
	gr.store.watchOver(gr)
}

// hears adds to v, of one of the line, what is known of the requests for a grant that is to be won.
func (v *verdict) hears(gr *grant) {
	if p := gr.unanswered.Load(); p != nil {
		v.silent = v.silent || p.exhausted()
		v.err = p.why
	}
}

// won reports whether the grant was won from the queue.
func (gr *grant) won() bool { return gr.place.Load() != nil }

// in returns the session of the grant, which never changes. The grant was won.
func (gr *grant) in() *session { return gr.place.Load().in }

// held reports whether the grant was won, and its entry still stands as far as is known. The caller holds the cohort's mu.
func (gr *grant) held() bool { return gr.won() && !gr.gone && gr.in().err() == nil }

// kept reports whether the grant is held, and is not being given up. The caller holds the cohort's mu.
func (gr *grant) kept() bool { return gr.holds > 0 && gr.held() }

// stuck returns why the entry of a grant that was won may still stand, though the grant was given up; nil if it was not, or its removal is in time.
func (gr *grant) stuck() *stuckError {
	p := gr.place.Load()
	return p.in.stuck(p.entry.Queue, p.entry)
}

// waitsForOthers reports whether the entry of a grant that is to be won was shown what it waits for, and that is none that the Store has
// given up.
func (gr *grant) waitsForOthers() bool {
	w := gr.waits.Load()
	return w != nil && w.stuck() == nil
}

// next begins another turn. The caller holds the cohort's mu.
func (gr *grant) next() turn {
	gr.turns++
	gr.holds++
	return turn{grant: gr, number: gr.turns}
}

// again adds a hold to the turn with that number, which must be the last that began and not be over.
func (gr *grant) again(number int) error {
	if err := gr.in().err(); err != nil {
		return err
	}
	if gr.life.Err() != nil {
		return context.Cause(gr.life) // its entry was found gone, or the last hold on it has ended
	}
	if gr.cohort != nil && gr.cohort.again(gr, number) || gr.cohort == nil && gr.join() {
		return nil
	}
	return ErrReleased
}

// join adds a hold to a grant without a cohort, and reports false if the last one has ended. A release that comes before
// it leaves nothing to add to; a release that comes after it is not the last.
func (gr *grant) join() bool {
	for {
		n := gr.beside.Load()
		if n < 0 {
			return false
		}
		if gr.beside.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// close ends the turns on the grant with the present one.
func (gr *grant) close() {
	if gr.cohort != nil {
		gr.cohort.close(gr)
	}
}

// pin ends the turns on the grant with the turn of that number, and reports false if another has begun after that.
func (gr *grant) pin(number int) bool { return gr.cohort == nil || gr.cohort.pin(gr, number) }

// shared reports whether the turns on the grant are held at the same time.
func (gr *grant) shared() bool { return gr.cohort != nil && gr.cohort.shared }

// meant reports whether a message is for the turn that is held. Then no further turn begins.
func (gr *grant) meant(m message) bool { return m.means(gr.turn(), gr.shared()) && gr.pin(m.turn) }

// vanish ends the turns on the grant, whose entry is gone.
func (gr *grant) vanish() {
	if gr.cohort != nil {
		gr.cohort.vanish(gr)
	}
}

// lose ends the turns on the grant, whose session is over.
func (gr *grant) lose() {
	if gr.cohort != nil {
		gr.cohort.lose(gr)
	}
}

// finished ends one hold on the grant, and reports whether the grant is to be given up.
func (gr *grant) finished() bool {
	if gr.cohort == nil {
		return gr.beside.Add(-1) < 0
	}
	return gr.cohort.finished(gr)
}

// giveUp ends the life of a grant whose last hold has ended.
func (gr *grant) giveUp() {
	gr.end(ErrReleased)
	gr.in().release(gr)
}

// release ends one hold on the grant. After the last it hands the grant off, or gives it up and waits for the service,
// for no longer than a third of the TTL or what is left of the session.
func (gr *grant) release(ctx context.Context) error {
	if !gr.finished() {
		return nil
	}
	gr.giveUp()
	p := gr.place.Load()
	var err error
	if p.in.err() == nil { // else the entry goes with its session, and the holder has been told
		limit := min(p.in.ttl/3, time.Until(p.in.until()))
		ctx, cancel := context.WithTimeout(ctx, limit)
		err = gr.store.remove(ctx, p)
		cancel()
		switch {
		case errors.Is(err, driver.ErrGone):
			err = fmt.Errorf("%w: %w", ErrLost, err)
		case errors.Is(err, context.DeadlineExceeded):
			// The deadline was none of the caller's.
			err = fmt.Errorf("%w: not released within %v", ErrUnavailable, limit.Round(time.Millisecond))
		}
	}
	if gr.cohort != nil {
		gr.cohort.depart(gr)
	}
	return err
}

// abandon is release for a caller that cannot wait for the service.
func (gr *grant) abandon() {
	if gr.finished() {
		gr.giveUp()
		gr.store.removeInBackground(gr.place.Load())
		if gr.cohort != nil {
			gr.cohort.depart(gr)
		}
	}
}

// grants are the grants of a cohort, in order of their making. Its mu guards them.
type grants []*grant

// joining returns how many stand in the queue, or are on their way there, for as long as it takes, and behind how many of them is a
// caller of its own.
func (l grants) joining() (all, callers int) {
	for _, gr := range l {
		if gr.phase == joining {
			all++
			if gr.drop == nil {
				callers++
			}
		}
	}
	return all, callers
}

// held reports whether one is held.
func (l grants) held() bool { return slices.ContainsFunc(l, (*grant).held) }

// kept reports whether one is kept.
func (l grants) kept() bool { return slices.ContainsFunc(l, (*grant).kept) }

// remove removes one, and reports whether it was there.
func (l *grants) remove(gr *grant) bool {
	i := slices.Index(*l, gr)
	if i < 0 {
		return false
	}
	*l = slices.Delete(*l, i, i+1)
	return true
}
