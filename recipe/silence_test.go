package recipe_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A Try whose answer comes when the silence has ended looks again: nothing is held that could be in its way.
func TestTryAcquireAsTheSilenceEnds(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		w.Restart(ttl)
		time.Sleep(ttl / 2) //nolint:forbidigo // in a bubble; for a session after that
		require.Equal(w, recipe.Recovering, s.State())
		time.Sleep(ttl/2 - 3*time.Millisecond) //nolint:forbidigo // in a bubble
		w.SetLatency(2 * time.Millisecond)     // the service looks before the end, and its answer comes after it
		h, err := recipe.Acquire(w.Context(), s, &recipe.Request{Queue: queue, Kind: driver.Exclusive, Units: 1, Try: true})
		require.NoError(w, err)
		w.SetLatency(0)
		require.NoError(w, h.Release())
	})
}
