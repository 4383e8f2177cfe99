package recipe

import (
	"context"
	"errors"
	"time"
)

// acquireUnits is acquire for a semaphore.
func (g *gate) acquireUnits(ctx context.Context, r *Request) (*Hold, error) {
	b, w := g.window.enter(ctx, r.note, r.Units)
	if w == nil {
		return g.competeUnits(ctx, r, b)
	}
	for {
		t, err := g.await(ctx, w)
		if err != nil {
			return nil, err
		}
		h := newHold(t.grant, 0)
		if t.grant.in().err() == nil && h.ended() == nil {
			return h, nil
		}
		// The session ended while the units were handed over.
		h.Abandon()
		w = g.window.back(ctx, r.Units)
	}
}

// competeUnits wins a bid from the queue for its caller. If the caller gives up, the entry stands on for the line.
func (g *gate) competeUnits(ctx context.Context, r *Request, b *bid) (*Hold, error) {
	p, err := g.store.stand(withGrant(ctx, &b.grant), r, nil, time.Now())
	if err == nil {
		g.window.won(b, p)
		return newHold(&b.grant, 0), nil
	}
	switch {
	case answersAll(ctx, err):
		g.window.dismiss(b, err)
		if p != nil {
			g.store.removeInBackground(p)
		}
	case !g.window.bequeath(b, p) && p != nil:
		g.store.removeInBackground(p)
	}
	return nil, err
}

// carryUnits wins a bid from the queue for the line. It runs in the background, and ends with ctx.
func (g *gate) carryUnits(ctx context.Context, b *bid, began time.Time) {
	r := g.request()
	r.Units, r.note = b.units, b.note
	p, err := g.store.stand(withGrant(ctx, &b.grant), &r, b.standing, began)
	if err == nil && g.window.serve(b, p) {
		return
	}
	if p != nil {
		g.store.removeInBackground(p)
	}
	if answersAll(ctx, err) {
		g.window.dismiss(b, err)
		return
	}
	g.window.refuse(b, err)
}

// answersAll reports whether err, of a caller who asks for units, is what all who declare the same size are to be told.
func answersAll(ctx context.Context, err error) bool {
	return outwaited(ctx, err) || ctx.Err() == nil && errors.Is(err, ErrSize)
}

// tryUnits is tryAcquire for a semaphore. The callers in the line are passed by only while nobody knows whether units are free, and by
// whoever asks for more units than any entry does: the semaphore may not have so many, which only a look shows.
func (g *gate) tryUnits(ctx context.Context, r *Request) (*Hold, error) {
	if g.window.crowded(r.Units) && g.store.State() == Connected && !g.window.trouble().silent && g.window.known() {
		return nil, g.window.locked()
	}
	return g.store.lone(ctx, r)
}
