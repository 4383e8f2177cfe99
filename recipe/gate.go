package recipe

import (
	"context"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/nested"
)

// A Gate is the local side of one primitive: the goroutines that share it wait in one line, and as few entries as that takes
// stand in the queue for them. A grant serves the line, one turn after another, or all at once at the gate of readers. This is
// lock cohorting (Dice, Marathe, Shavit: "Lock Cohorting", 2012).
//
// The first caller joins the queue by itself. Those that come while it waits or holds stand in the line. So a waiter
// elsewhere is passed over by a bounded number of turns, all of which begin within handOffFor of a grant.
type Gate struct {
	store   *Store
	request Request
	cohort  *cohort
}

// NewGate returns a gate in front of the queue that r names. Its turns follow one another, at most 255 more on a grant; for
// readers they run at the same time, at most 255 more on a grant. None begins later than 50 ms after the grant.
func NewGate(s *Store, r Request) *Gate {
	g := &Gate{store: s, request: r}
	g.cohort = &cohort{store: s, shared: r.Kind == driver.Read, carry: g.carry}
	return g
}

// Acquire waits for a hold. On error nothing is held, and cleanup has begun. The errors are those of the function Acquire.
//
// A caller whose ctx stands for a lease that is held waits with an entry of its own: what it waits for, and under what, can
// then be seen from outside.
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
	t, w := g.cohort.enter(nested.Is(ctx))
	if w == nil && !t.grant.won() {
		return g.compete(ctx, t.grant)
	}
	for {
		if w != nil {
			var err error
			if t, err = g.await(ctx, w); err != nil {
				return nil, err
			}
		}
		h := newHold(t.grant, t.number)
		if h.Err() == nil {
			return h, nil
		}
		// The session ended while the turn was handed over.
		w = g.cohort.back(t.grant)
	}
}

// compete wins the grant from the queue for its caller. If the caller gives up, the entry stands on for the line.
func (g *Gate) compete(ctx context.Context, gr *grant) (*Hold, error) {
	p, err := g.store.stand(withGrant(ctx, gr), g.request, nil, time.Now())
	if err == nil {
		g.cohort.won(gr, p)
		return newHold(gr, 0), nil
	}
	if !g.cohort.bequeath(gr, p) && p != nil {
		g.store.removeInBackground(p)
	}
	return nil, err
}

// carry wins the grant from the queue for the line. It runs in the background, and ends with ctx.
func (g *Gate) carry(ctx context.Context, gr *grant, began time.Time) {
	p, err := g.store.stand(withGrant(ctx, gr), g.request, gr.standing, began)
	if err == nil && g.cohort.serve(gr, p) {
		return
	}
	if p != nil {
		g.store.removeInBackground(p)
	}
	g.cohort.refuse(gr, err)
}

func (g *Gate) tryAcquire(ctx context.Context) (*Hold, error) {
	t, ok := g.cohort.tryEnter()
	if !ok {
		return nil, ErrLocked
	}
	if t.grant.won() {
		return newHold(t.grant, t.number), nil
	}
	p, err := g.store.tryAcquire(ctx, g.request)
	if err != nil {
		g.cohort.depart(t.grant)
		return nil, err
	}
	g.cohort.won(t.grant, p)
	return newHold(t.grant, 0), nil
}

// await waits for a turn.
func (g *Gate) await(ctx context.Context, w *waiter) (turn, error) {
	stop := g.store.sight(ctx, g.cohort.waits)
	defer stop()
	select {
	case t := <-w.hand:
		return t, t.err
	case <-ctx.Done():
	case <-g.store.life.Done():
	}
	if !g.cohort.leave(w) {
		// A turn was on its way. A caller that has given up gets it all the same: to pass it on would cost more.
		t := <-w.hand
		return t, t.err
	}
	return turn{}, g.store.failure(ctx, g.cohort.trouble())
}

// grantKey is the key under which the ctx of a wait in the queue has the grant that is to be won.
type grantKey struct{}

// withGrant returns a ctx under which the wait can be seen in gr.
func withGrant(ctx context.Context, gr *grant) context.Context {
	return context.WithValue(ctx, grantKey{}, gr)
}

// grantOf returns the grant that is to be won, or nil.
func grantOf(ctx context.Context) *grant {
	gr, _ := ctx.Value(grantKey{}).(*grant)
	return gr
}
