package recipe_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

// A line has one timer, whatever the deadlines of those that stand in it. Each is told the holder's name, and a crowd that gives up
// at the same time costs one read.
func TestTheHolderIsNamedToALine(t *testing.T) {
	inBubble(t, func(w *world) {
		holder := w.granted(w.start(w.open()))
		s, err := recipe.Open(w.Context(), nameless{w.Service("x")}, recipe.Options{TTL: time.Hour, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(w, err)
		defer func() { require.NoError(w, s.Close()) }()
		g := newGate(s)
		first := w.startGate(g) // stands in the queue for the line, for as long as it takes
		w.ResetCount()

		within := func(patience time.Duration) *try {
			return w.begin(func(ctx context.Context, t *try) {
				ctx, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				began := time.Now()
				t.hold, t.err = g.Acquire(ctx)
				assert.LessOrEqual(w, time.Since(began), patience)
			})
		}
		var crowd []*try
		patiences := []time.Duration{3 * time.Minute, time.Second, 2 * time.Second, time.Millisecond, 90 * time.Second}
		for range 100 {
			patiences = append(patiences, 10*time.Second)
		}
		for _, patience := range patiences {
			crowd = append(crowd, within(patience))
		}
		for _, each := range crowd {
			<-each.done
			require.ErrorIs(w, each.err, context.DeadlineExceeded)
			require.ErrorContains(w, each.err, `waiting behind "client-1"`)
		}
		require.Equal(w, 6, w.Count(farsynctest.List), "one read for each moment at which some give up")

		// Those that are served before their time is over ask for nothing, nor does a line behind a holder of its own process.
		waits := within(time.Hour)
		w.release(holder)
		hold := w.granted(first)
		late := within(time.Second)
		<-late.done
		require.ErrorContains(w, late.err, "behind another goroutine of this process")
		waits.cancel()
		<-waits.done
		require.Equal(w, 6, w.Count(farsynctest.List))
		w.release(hold)
		w.idle(g)
	})
}
