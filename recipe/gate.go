package recipe

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
)

const (
	// maxTurns is how many more turns may be taken on a grant, one after another.
	maxTurns = 16
	// maxReaders is how many more readers may share a grant: as many as a token has turns.
	maxReaders = 255
	// handOffFor is how long after its grant the last turn may begin.
	handOffFor = 50 * time.Millisecond
)

// A Gate is the local side of one primitive: the goroutines that share it take turns on one grant where that is fair to
// waiters elsewhere, and stand in the queue on their own where it is not. The turns follow one another or, at the gate of
// readers, run at the same time.
//
// A goroutine that finds no grant of its gate joins the queue. One that does waits a moment for a turn, for as long as
// there may be one; then it joins the queue too. So a waiter elsewhere is passed over by a bounded number of turns that
// begin within handOffFor of a grant, taken by goroutines that have waited no longer than that.
type Gate struct {
	store   *Store
	request Request
	shared  bool

	mu      sync.Mutex
	grants  []*grant  // Invariant: none has ended.
	latest  *grant    // the grant won last, while turns on it may begin; nil if there is none
	waiters []*waiter // in order of arrival. Invariant: each leaves by itself after handOffFor at the latest.
}

// A waiter is a goroutine that waits for a turn from another of its process. It is sent one turn, ever: one on a grant
// that is held, or one on a grant that it is to win from the queue itself.
type waiter struct {
	hand chan turn // room for one
}

// NewGate returns a gate in front of the queue that r names. Its turns follow one another, at most 16 more on a grant; for
// readers they run at the same time, at most 255 more on a grant. None begins later than 50 ms after the grant.
func NewGate(s *Store, r Request) *Gate {
	return &Gate{store: s, request: r, shared: r.Kind == driver.Read}
}

// Acquire waits for a hold. On error nothing is held, and cleanup has begun. The errors are those of the function Acquire.
func (g *Gate) Acquire(ctx context.Context) (*Hold, error) {
	return g.enterWith(ctx, g.acquire)
}

// TryAcquire is Acquire without waiting for others: ErrLocked if another goroutine or process holds or waits.
func (g *Gate) TryAcquire(ctx context.Context) (*Hold, error) {
	return g.enterWith(ctx, g.tryAcquire)
}

func (g *Gate) enterWith(ctx context.Context, acquire func(context.Context) (*Hold, error)) (*Hold, error) {
	if err := admit(ctx, g.request); err != nil {
		return nil, err
	}
	began := g.store.begin()
	h, err := acquire(ctx)
	if err == nil {
		g.store.noteAcquired(h, began)
	}
	return h, err
}

func (g *Gate) acquire(ctx context.Context) (*Hold, error) {
	t, w, wait := g.enter()
	if w != nil {
		var err error
		if t, err = g.await(ctx, w, wait); err != nil {
			return nil, err
		}
	}
	if t.grant.won() {
		h := newHold(t.grant, t.number)
		if h.Err() == nil {
			return h, nil
		}
		// The session ended while the turn was handed off.
		t.grant = g.rejoin(t.grant)
	}
	p, err := g.store.acquire(ctx, g.request)
	return g.joined(t.grant, p, err)
}

func (g *Gate) tryAcquire(ctx context.Context) (*Hold, error) {
	t, ok := g.tryEnter()
	if !ok {
		return nil, ErrLocked
	}
	if t.grant.won() {
		return newHold(t.grant, t.number), nil
	}
	p, err := g.store.tryAcquire(ctx, g.request)
	return g.joined(t.grant, p, err)
}

// enter decides how a newcomer begins: with a turn, or waiting for one for so long at most. The turn may be one on a
// grant that the newcomer has to win from the queue.
func (g *Gate) enter() (turn, *waiter, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	wait := handOffFor
	switch held := g.latest; {
	case held == nil:
	case g.shared && held.admits(now):
		return held.next(), nil, 0
	case g.shared:
		wait = 0
	case held.phase != open || held.turns+len(g.waiters) >= maxTurns:
		wait = 0 // its turns are spoken for
	default:
		wait -= now.Sub(held.since)
	}
	if wait <= 0 || !g.busy() {
		return turn{grant: g.newGrant()}, nil, 0
	}
	w := &waiter{hand: make(chan turn, 1)}
	g.waiters = append(g.waiters, w)
	return turn{}, w, wait
}

// tryEnter is enter without a wait. It reports false if a grant of this process is in the way.
func (g *Gate) tryEnter() (turn, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.shared && g.latest != nil && g.latest.admits(time.Now()):
		return g.latest.next(), true
	case !g.shared && g.busy():
		return turn{}, false
	default:
		return turn{grant: g.newGrant()}, true
	}
}

// busy reports whether a grant of this gate is in the queue or held. One whose session is over, or whose entry was found to
// be gone, holds nothing and stands nowhere, whether or not it was released. The caller holds mu.
func (g *Gate) busy() bool {
	return slices.ContainsFunc(g.grants, func(other *grant) bool {
		p := other.place.Load()
		return p == nil || !other.gone && p.in.err() == nil
	})
}

// newGrant returns a grant that its caller is to win from the queue. The caller holds mu.
func (g *Gate) newGrant() *grant {
	gr := newGrant(g.store, g)
	g.grants = append(g.grants, gr)
	return gr
}

// await waits for a turn.
func (g *Gate) await(ctx context.Context, w *waiter, wait time.Duration) (turn, error) {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case t := <-w.hand:
		return t, nil
	case <-t.C:
		if t, ok := g.leave(w, true); ok {
			return t, nil
		}
		// A hand was on its way when the time was up.
		return <-w.hand, nil
	case <-ctx.Done():
		if _, ok := g.leave(w, false); !ok {
			// A hand was on its way: pass it on.
			if t := <-w.hand; t.grant.won() {
				t.grant.abandon()
			} else {
				g.depart(t.grant)
			}
		}
		return turn{}, g.store.failure(ctx, verdict{err: errTurn})
	}
}

// leave takes w out of the waiters, and reports whether it was among them. If w is to join the queue it gets a grant in the
// same step, so that a newcomer never finds the gate without one.
func (g *Gate) leave(w *waiter, toQueue bool) (turn, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiters, w)
	if i < 0 {
		return turn{}, false
	}
	g.waiters = slices.Delete(g.waiters, i, i+1)
	if !toQueue {
		return turn{}, true
	}
	return turn{grant: g.newGrant()}, true
}

// joined makes a hold of a grant that was won, or ends it.
func (g *Gate) joined(gr *grant, p *place, err error) (*Hold, error) {
	if err != nil {
		g.depart(gr)
		return nil, err
	}
	g.mu.Lock()
	gr.phase, gr.holds = open, 1
	gr.winAt(p)
	g.latest = gr
	for g.shared && len(g.waiters) > 0 && gr.admits(gr.since) {
		g.pop().hand <- gr.next()
	}
	g.mu.Unlock()
	return newHold(gr, 0), nil
}

// pop takes the first waiter. The caller holds mu.
func (g *Gate) pop() *waiter {
	w := g.waiters[0]
	g.waiters = slices.Delete(g.waiters, 0, 1)
	return w
}

// depart ends a grant. If it was the last of the gate, the first waiter joins in its place: no other goroutine of this
// process is left that could hand a turn to it.
func (g *Gate) depart(gr *grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gr.phase = over
	if i := slices.Index(g.grants, gr); i >= 0 {
		g.grants = slices.Delete(g.grants, i, i+1)
	}
	if len(g.waiters) > 0 && !g.busy() {
		g.pop().hand <- turn{grant: g.newGrant()}
	}
}

// rejoin gives back a turn on a grant whose session is over, and returns a grant to win from the queue instead.
func (g *Gate) rejoin(gr *grant) *grant {
	g.mu.Lock()
	next := g.newGrant()
	g.mu.Unlock()
	if gr.finished() {
		g.depart(gr)
	}
	return next
}
