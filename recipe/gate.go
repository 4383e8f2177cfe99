package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// maxTurns is how often a grant is handed on within the process.
	maxTurns = 16
	// handOnFor is how long after its grant the last turn may start.
	handOnFor = 50 * time.Millisecond
)

// A Gate is the local side of one exclusive primitive: the goroutines that share it take turns on one grant where that
// is fair to those who wait elsewhere, and queue on their own where it is not.
//
// A goroutine that finds nobody of its gate in the queue joins it. One that does waits a moment for a turn, for as
// long as a grant may still be handed on; then it joins the queue too. So whoever waits elsewhere is passed over by
// at most maxTurns turns that start within handOnFor of a grant, by goroutines that have waited no longer than that.
type Gate struct {
	store   Store
	request Request
	line    line
}

// NewGate returns a gate in front of the queue that r names.
func NewGate(s Store, r Request) *Gate {
	return &Gate{store: s, request: r}
}

// Acquire waits for a hold. On error nothing is held, and the removal of what was joined has begun. The errors are
// those of Store.Join and Store.Wait, and ErrName.
func (g *Gate) Acquire(ctx context.Context) (*Hold, error) {
	if err := CheckPath(g.request.Queue); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, GaveUp(ctx, nil)
	}
	if w, wait := g.enter(); w != nil {
		turn, err := g.await(ctx, w, wait)
		if err != nil {
			return nil, err
		}
		if turn != nil {
			h := newHold(g, turn)
			if h.Err() == nil {
				return h, nil
			}
			// The session ended while the turn was handed on. We are the one of its grant in the queue's count, and
			// stay in it.
		}
	}
	e, err := Acquire(ctx, g.store, g.request)
	return g.won(e, err)
}

// TryAcquire is Acquire without waiting for others: ErrLocked if anybody, of this process or not, holds or waits.
func (g *Gate) TryAcquire(ctx context.Context) (*Hold, error) {
	if err := CheckPath(g.request.Queue); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, GaveUp(ctx, nil)
	}
	g.line.mu.Lock()
	busy := g.line.queued > 0
	if !busy {
		g.line.queued++
	}
	g.line.mu.Unlock()
	if busy {
		return nil, ErrLocked
	}
	e, err := TryAcquire(ctx, g.store, g.request)
	return g.won(e, err)
}

// enter decides how a newcomer starts: in the queue (nil), or waiting for a turn, for so long at most.
func (g *Gate) enter() (*waiter, time.Duration) {
	l := &g.line
	l.mu.Lock()
	defer l.mu.Unlock()
	wait := handOnFor
	if l.held != nil {
		wait -= time.Since(l.held.since)
		if l.held.turns+len(l.waiters) >= maxTurns {
			wait = 0 // its turns are spoken for
		}
	}
	if l.queued == 0 || wait <= 0 {
		l.queued++
		return nil, 0
	}
	w := &waiter{hand: make(chan *grant, 1)}
	l.waiters = append(l.waiters, w)
	return w, wait
}

// await waits for a turn: a grant to go on with, or nil if the caller is to join the queue, where it is counted
// already.
func (g *Gate) await(ctx context.Context, w *waiter, wait time.Duration) (*grant, error) {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case turn := <-w.hand:
		return turn, nil
	case <-t.C:
		if g.leave(w, true) {
			return nil, nil
		}
		// A hand was on its way when the time was up.
		return <-w.hand, nil
	case <-ctx.Done():
		if !g.leave(w, false) {
			// A hand was on its way: pass it on as if we had not been there.
			if turn := <-w.hand; turn != nil {
				g.releaseBehind(turn)
			} else {
				g.depart()
			}
		}
		return nil, GaveUp(ctx, nil)
	}
}

// leave takes w out of the line, and reports whether it was still in it. If it goes on to the queue it is counted
// there in the same step, so that no newcomer finds the queue without anybody of this process.
func (g *Gate) leave(w *waiter, toQueue bool) bool {
	l := &g.line
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiters, w)
	if i < 0 {
		return false
	}
	l.waiters = slices.Delete(l.waiters, i, i+1)
	if toQueue {
		l.queued++
	}
	return true
}

// won makes a hold of an entry that was granted, or takes the caller out of the queue's count.
func (g *Gate) won(e Entry, err error) (*Hold, error) {
	if err != nil {
		g.depart()
		return nil, err
	}
	turn := &grant{entry: e, since: time.Now()}
	g.line.mu.Lock()
	g.line.held = turn
	g.line.mu.Unlock()
	return newHold(g, turn), nil
}

// depart counts a goroutine out of the queue. If it was the last, the first in the line joins in its place: nobody
// else of this process is left who could hand anything on.
func (g *Gate) depart() {
	l := &g.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued--
	if l.queued == 0 && len(l.waiters) > 0 {
		l.queued++
		l.pop().hand <- nil
	}
}

// release hands the grant on, or gives it up.
func (g *Gate) release(turn *grant) error {
	if g.handOn(turn) {
		return nil
	}
	err := g.giveUp(turn)
	g.depart()
	return err
}

// releaseBehind is release for those who cannot wait for the service.
func (g *Gate) releaseBehind(turn *grant) {
	if g.handOn(turn) {
		return
	}
	begin(g.store, turn.entry)
	g.depart()
}

// handOn starts the next turn of the grant, if it may have one and somebody waits for it.
func (g *Gate) handOn(turn *grant) bool {
	l := &g.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiters) > 0 && turn.mayHandOn(time.Now()) {
		turn.turns++
		l.pop().hand <- turn
		return true
	}
	// Another of this process may have been granted meanwhile, if the session of this one was lost long ago.
	if l.held == turn {
		l.held = nil
	}
	return false
}

// giveUp removes the grant's entry.
func (g *Gate) giveUp(turn *grant) error {
	s := turn.entry.Session
	if s.Err() != nil {
		return nil // the entry goes with its session, and the holder has been told
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(s.TTL()/3, time.Until(s.Deadline())))
	defer cancel()
	err := g.store.Leave(ctx, turn.entry)
	if errors.Is(err, ErrGone) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}
