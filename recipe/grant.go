package recipe

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
)

// A turn is a number within a grant: 0 for the hold that won it from the queue.
type turn struct {
	grant  *grant
	number int
}

// A phase is the state of a grant. It only moves on.
type phase uint8

const (
	// joining: it is in the queue, or on its way there.
	joining phase = iota
	// open: it is held, and another turn may begin.
	open
	// closing: it is held, and no other turn may begin.
	closing
	// over: the last hold on it has ended.
	over
)

// A grant is one entry that this process wins from its queue, and the turns that are taken on it. Only a grant of a gate
// has more than one hold.
type grant struct {
	store *Store
	gate  *Gate                 // nil for a grant of its own
	place atomic.Pointer[place] // replaced when the entry is changed in its place; nil while joining

	// Set when it is won, before place.
	since time.Time
	life  context.Context // the grant's own, a child of the session's: done when it is given up or its entry is found gone
	end   context.CancelCauseFunc

	// Guarded by the gate's mu.
	phase phase
	turns int  // that have begun, after the first. Invariant: 0 ≤ turns ≤ 255
	gone  bool // the entry, though the session is alive and the last hold was not released
	holds int  // that have not been released. Invariant: 0 if joining or over, else > 0
}

// newGrant returns a grant that is joining.
func newGrant(s *Store, g *Gate) *grant { return &grant{store: s, gate: g, phase: joining} }

// alone makes a grant without a gate one that is held at p, by one hold.
func (gr *grant) alone(p *place) *grant {
	gr.phase, gr.holds = closing, 1
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

// won reports whether the grant was won from the queue.
func (gr *grant) won() bool { return gr.place.Load() != nil }

// in returns the session of the grant, which never changes. The grant was won.
func (gr *grant) in() *session { return gr.place.Load().in }

// admits reports whether another turn may begin on the grant now. The caller holds the gate's mu.
func (gr *grant) admits(now time.Time) bool {
	most := maxTurns
	if gr.gate.shared {
		most = maxReaders
	}
	return gr.phase == open && gr.turns < most && now.Sub(gr.since) < handOffFor && gr.in().err() == nil
}

// next begins another turn. The caller holds the gate's mu.
func (gr *grant) next() turn {
	gr.turns++
	gr.holds++
	return turn{gr, gr.turns}
}

// again adds a hold to the turn with that number, which must be the last that began and not be over.
func (gr *grant) again(number int) error {
	if err := gr.in().err(); err != nil {
		return err
	}
	if gr.life.Err() != nil {
		return context.Cause(gr.life) // its entry was found gone, or the last hold on it has ended
	}
	if gr.gate == nil || !gr.gate.again(gr, number) {
		return ErrReleased
	}
	return nil
}

// close ends the turns on the grant with the present one.
func (gr *grant) close() {
	if gr.gate != nil {
		gr.gate.close(gr)
	}
}

// pin ends the turns on the grant with the one of that number, and reports false if another has begun after that.
func (gr *grant) pin(number int) bool { return gr.gate == nil || gr.gate.pin(gr, number) }

// vanish ends the turns on the grant, whose entry is gone.
func (gr *grant) vanish() {
	if gr.gate != nil {
		gr.gate.vanish(gr)
	}
}

// finished ends one hold on the grant, and reports whether the grant is to be given up.
func (gr *grant) finished() bool { return gr.gate == nil || gr.gate.finished(gr) }

// giveUp ends the life of a grant whose last hold has ended.
func (gr *grant) giveUp() {
	gr.end(ErrReleased)
	gr.in().release(gr)
}

// release ends one hold on the grant. After the last it hands the grant off, or gives it up and waits for the service,
// for no longer than a third of the TTL or what is left of the session.
func (gr *grant) release() error {
	if !gr.finished() {
		return nil
	}
	gr.giveUp()
	p := gr.place.Load()
	var err error
	if p.in.err() == nil { // else the entry goes with its session, and the holder has been told
		limit := min(p.in.ttl/3, time.Until(p.in.until()))
		ctx, cancel := context.WithTimeout(context.Background(), limit)
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
	if gr.gate != nil {
		gr.gate.depart(gr)
	}
	return err
}

// abandon is release for a caller that cannot wait for the service.
func (gr *grant) abandon() {
	if gr.finished() {
		gr.giveUp()
		gr.store.removeInBackground(gr.place.Load())
		if gr.gate != nil {
			gr.gate.depart(gr)
		}
	}
}
