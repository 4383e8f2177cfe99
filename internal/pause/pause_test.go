//nolint:forbidigo // in a bubble
package pause_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/pause"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

func TestBrakeSlowsDownWhatComesToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b pause.Brake
		paused := func(news bool) time.Duration {
			began := time.Now()
			b.Woken(t.Context(), news)
			return time.Since(began)
		}
		for range 16 {
			require.Zero(t, paused(false))
		}
		require.Equal(t, 20*time.Millisecond, paused(false))
		require.Equal(t, 40*time.Millisecond, paused(false))
		for range 100 {
			require.LessOrEqual(t, paused(false), time.Second)
		}
		require.Zero(t, paused(true), "there was news")
		for range 15 {
			require.Zero(t, paused(false))
		}
		require.Positive(t, paused(false))
		for range 100 {
			time.Sleep(30 * time.Second)
			require.Zero(t, paused(false), "the wait was long")
		}
	})
}
