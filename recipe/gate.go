package recipe

import (
	"context"
	"time"

	"github.com/farsync/farsync/driver"
)

// A gate is the local side of a lock: the callers of one Store who ask for the same wait in one line, whichever values they made of the
// path, and as few entries as that takes stand in the queue for them. A grant serves the line, one turn after another, or all at once at
// the gate of readers. This is lock cohorting (Dice, Marathe, Shavit: "Lock Cohorting", 2012).
//
// The first caller joins the queue by itself. Callers that come while it waits or holds stand in the line. So a waiter
// elsewhere is passed over by a bounded number of turns, and all of them begin within handOffFor of a grant. The turns on a grant
// follow one another, at most 255 after the first; for readers they run at the same time.
type gate struct {
	store  *Store
	key    key
	cohort *cohort // nil for units
	window *window // for units, else nil

	shard *shard
	uses  int // see use. Guarded by the shard's mu.
}

func newGate(s *Store, k key, in *shard) *gate {
	if k.kind == driver.Permit {
		both := new(struct {
			gate   gate
			window window
		})
		both.gate = gate{store: s, key: k, shard: in, window: &both.window}
		both.window.init(s, &both.gate)
		return &both.gate
	}
	both := new(struct {
		gate   gate
		cohort cohort
	})
	both.gate = gate{store: s, key: k, shard: in, cohort: &both.cohort}
	both.cohort.init(s, k.kind == driver.Read, &both.gate)
	return &both.gate
}

// A side is where a caller waits in a line: a cohort, or a window.
type side interface {
	blank() bool
	leave(w *waiter) bool
	trouble() verdict
	holder() words
}

func (g *gate) side() side {
	if g.window != nil {
		return g.window
	}
	return g.cohort
}

// request is what is asked for the line, for one unit.
func (g *gate) request() Request {
	return Request{
		Queue: g.key.queue, Kind: g.key.kind, Units: 1, Size: g.key.size, Replaceable: g.key.replaceable, Line: true, carried: true,
	}
}

func (g *gate) acquire(ctx context.Context, r *Request) (*Hold, error) {
	t, w := g.cohort.enter(ctx, r.note)
	if w == nil && !t.grant.won() {
		return g.compete(ctx, r, t.grant)
	}
	for {
		if w != nil {
			var err error
			if t, err = g.await(ctx, w); err != nil {
				return nil, err
			}
		}
		if h := newHold(t.grant, t.number); t.grant.in().err() == nil && h.ended() == nil {
			return h, nil
		}
		// The session ended while the turn was handed over.
		w = g.cohort.back(ctx, t.grant)
	}
}

// compete wins the grant from the queue for its caller. If the caller gives up, the entry stands on for the line.
func (g *gate) compete(ctx context.Context, r *Request, gr *grant) (*Hold, error) {
	p, err := g.store.stand(withGrant(ctx, gr), r, nil, time.Now())
	if err == nil {
		g.cohort.won(gr, p)
		return newHold(gr, 0), nil
	}
	switch {
	case outwaited(ctx, err):
		g.cohort.dismiss(gr, err)
	case !g.cohort.bequeath(gr, p) && p != nil:
		g.store.removeInBackground(p)
	}
	return nil, err
}

// carry wins the grant from the queue for the line. It runs in the background, and ends with ctx.
func (g *gate) carry(ctx context.Context, gr *grant, began time.Time) {
	r := g.request()
	r.note = gr.note
	p, err := g.store.stand(withGrant(ctx, gr), &r, gr.standing, began)
	if err == nil && g.cohort.serve(gr, p) {
		return
	}
	if p != nil {
		g.store.removeInBackground(p)
	}
	if outwaited(ctx, err) {
		g.cohort.dismiss(gr, err)
		return
	}
	g.cohort.refuse(gr, err)
}

func (g *gate) tryAcquire(ctx context.Context, r *Request) (*Hold, error) {
	t, ok := g.cohort.tryEnter(false)
	if !ok && (g.store.State() != Connected || g.cohort.trouble().silent || !g.cohort.known()) {
		t, ok = g.cohort.tryEnter(true)
	}
	if !ok {
		return nil, g.cohort.locked()
	}
	if t.grant.won() {
		return newHold(t.grant, t.number), nil
	}
	p, err := g.store.tryAcquire(ctx, r)
	if err != nil {
		g.cohort.depart(t.grant)
		return nil, err
	}
	g.cohort.won(t.grant, p)
	return newHold(t.grant, 0), nil
}

// await waits for a turn.
func (g *gate) await(ctx context.Context, w *waiter) (turn, error) {
	g.traceLine(ctx, w)
	select {
	case <-w.hand:
		return w.turn, w.turn.err
	case <-ctx.Done():
	case <-g.store.life.Done():
	}
	// Asked before w leaves: with the last of a line, the entry goes that was carried for it, and what is known of the wait with that.
	trouble := g.side().trouble()
	if !g.side().leave(w) {
		// A turn was on its way. A caller that has given up gets it all the same: to pass it on would cost more.
		<-w.hand
		return w.turn, w.turn.err
	}
	return turn{}, g.store.failure(ctx, trouble)
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
