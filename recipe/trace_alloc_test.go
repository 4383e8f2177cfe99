package recipe

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// All places at which a Trace is told something are passed by each lock of each program.
func TestNoTraceCostsNothing(t *testing.T) {
	s := &Store{log: slog.New(slog.DiscardHandler), changed: make(chan struct{})}
	s.life, s.shut = context.WithCancelCause(t.Context())
	s.shut(ErrClosed)
	r := Request{Queue: "/q", Kind: driver.Exclusive, Units: 1, Try: true}
	h := &Hold{grant: &grant{store: s}}
	through := r
	through.Line = true
	g, w, v, ctx, now := s.through(&through), &waiter{}, &waiting{}, t.Context(), time.Now()
	bare := testing.AllocsPerRun(100, func() { _, _ = s.admitted(ctx, &r) })
	for what, f := range map[string]func(){
		"begin and end of a call": func() { _, _ = s.get(ctx, &r) },
		"a wait in the queue":     func() { s.traceWait(ctx, &r, v) },
		"a wait in the line":      func() { g.traceLine(ctx, w) },
		"the end of a hold":       func() { h.conclude(ErrReleased, nil, now) },
		"a renewal":               func() { s.traceSession(Health{State: Connected}) },
	} {
		most := 0.0
		if what == "begin and end of a call" {
			most = bare
		}
		require.LessOrEqual(t, testing.AllocsPerRun(100, f), most, what)
	}
}
