package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// maxTurns is how many more turns may be taken on a grant, one after another.
	maxTurns = 16
	// maxReaders is how many more readers may share a grant: as many as a token has turns.
	maxReaders = 255
	// handOnFor is how long after its grant the last turn may begin.
	handOnFor = 50 * time.Millisecond
)

// A Gate is the local side of one primitive: the goroutines that share it take turns on one grant where that is fair to
// those who wait elsewhere, and queue on their own where it is not. The turns follow one another, or, at the gate of
// readers, go on at the same time.
//
// A goroutine that finds nobody of its gate in the queue joins it. One that does waits a moment for a turn, for as
// long as there may be one; then it joins the queue too. So whoever waits elsewhere is passed over by a bounded number
// of turns that begin within handOnFor of a grant, by goroutines that have waited no longer than that.
type Gate struct {
	store    Store
	request  Request
	together bool
	line     line
}

// NewGate returns a gate in front of the queue that r names, whose turns follow one another: at most 16 more on a
// grant, none begun later than 50 ms after it.
func NewGate(s Store, r Request) *Gate {
	return &Gate{store: s, request: r}
}

// NewSharedGate returns a gate whose turns go on at the same time: at most 255 more on a grant, none begun later than
// 50 ms after it.
func NewSharedGate(s Store, r Request) *Gate {
	return &Gate{store: s, request: r, together: true}
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
	turn, w, wait := g.enter()
	if w != nil {
		var err error
		if turn, err = g.await(ctx, w, wait); err != nil {
			return nil, err
		}
	}
	if turn.grant != nil {
		h := newHold(g, turn)
		if h.Err() == nil {
			return h, nil
		}
		// The session ended while the turn was handed on.
		g.abandon(turn.grant)
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
	l := &g.line
	l.mu.Lock()
	var turn share
	busy := false
	switch {
	case l.held != nil && g.together && l.held.open(time.Now(), maxReaders):
		turn = l.held.next()
	case l.queued > 0 && !g.together:
		busy = true
	default:
		l.queued++
	}
	l.mu.Unlock()
	switch {
	case busy:
		return nil, ErrLocked
	case turn.grant != nil:
		return newHold(g, turn), nil
	}
	e, err := TryAcquire(ctx, g.store, g.request)
	return g.won(e, err)
}

// enter decides how a newcomer begins: with a turn, waiting for one for so long at most, or in the queue if it gets
// neither.
func (g *Gate) enter() (share, *waiter, time.Duration) {
	l := &g.line
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	wait := handOnFor
	switch {
	case l.held != nil && g.together:
		if l.held.open(now, maxReaders) {
			return l.held.next(), nil, 0
		}
		wait = 0
	case l.held != nil:
		wait -= now.Sub(l.held.since)
		if l.held.fixed || l.held.turns+len(l.waiters) >= maxTurns {
			wait = 0 // its turns are spoken for
		}
	}
	if l.queued == 0 || wait <= 0 {
		l.queued++
		return share{}, nil, 0
	}
	w := &waiter{hand: make(chan share, 1)}
	l.waiters = append(l.waiters, w)
	return share{}, w, wait
}

// await waits for a turn: a share of a grant to go on with, or an empty one if the caller is to join the queue, where it
// is counted already.
func (g *Gate) await(ctx context.Context, w *waiter, wait time.Duration) (share, error) {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case turn := <-w.hand:
		return turn, nil
	case <-t.C:
		if g.leave(w, true) {
			return share{}, nil
		}
		// A hand was on its way when the time was up.
		return <-w.hand, nil
	case <-ctx.Done():
		if !g.leave(w, false) {
			// A hand was on its way: pass it on as if we had not been there.
			if turn := <-w.hand; turn.grant != nil {
				g.releaseBehind(turn.grant)
			} else {
				g.depart()
			}
		}
		return share{}, GaveUp(ctx, nil)
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
	granted := newGrant(e)
	l := &g.line
	l.mu.Lock()
	l.held = granted
	for g.together && len(l.waiters) > 0 && granted.turns < maxReaders {
		l.pop().hand <- granted.next()
	}
	l.mu.Unlock()
	return newHold(g, share{granted, 0}), nil
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
		l.pop().hand <- share{}
	}
}

// release ends one hold on the grant. After the last, it hands the grant on, or gives it up.
func (g *Gate) release(granted *grant) error {
	if !g.finished(granted) {
		return nil
	}
	err := g.giveUp(granted)
	g.depart()
	return err
}

// releaseBehind is release for those who cannot wait for the service.
func (g *Gate) releaseBehind(granted *grant) {
	if g.finished(granted) {
		begin(g.store, *granted.entry.Load())
		g.depart()
	}
}

// abandon is release of a turn on a grant whose session is over, by one who joins the queue instead.
func (g *Gate) abandon(granted *grant) {
	if !g.finished(granted) {
		// Others have yet to release theirs, and the last of them counts the grant out.
		g.line.mu.Lock()
		g.line.queued++
		g.line.mu.Unlock()
	}
}

// finished ends one hold on the grant, and reports whether the grant is to be given up: if it was the last, and no
// further turn follows.
func (g *Gate) finished(granted *grant) bool {
	l := &g.line
	l.mu.Lock()
	defer l.mu.Unlock()
	granted.holds--
	if granted.holds > 0 {
		return false
	}
	if !g.together && len(l.waiters) > 0 && granted.open(time.Now(), maxTurns) {
		l.pop().hand <- granted.next()
		return false
	}
	granted.fixed = true
	// Another of this process may have been granted meanwhile.
	if l.held == granted {
		l.held = nil
	}
	return true
}

// giveUp removes the grant's entry.
func (g *Gate) giveUp(granted *grant) error {
	s := granted.session()
	if s.Err() != nil {
		return nil // the entry goes with its session, and the holder has been told
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(s.TTL()/3, time.Until(s.Deadline())))
	defer cancel()
	err := g.store.Leave(ctx, *granted.entry.Load())
	if errors.Is(err, ErrGone) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}
