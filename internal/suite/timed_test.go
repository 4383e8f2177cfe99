package suite

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

func TestVerdict(t *testing.T) {
	const allowed = 100 * time.Millisecond
	require.Equal(t, "not judged: a timer came 350ms late, and 100ms are allowed", verdict(true, 350*time.Millisecond, allowed))
	require.Empty(t, verdict(true, allowed, allowed), "the machine was as fast as it has to be")
	require.Empty(t, verdict(false, time.Hour, allowed), "it has passed")
}

// TestLateTimerIsSeen: in a bubble none is late but what is said to be.
func TestLateTimerIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchTimers()
		time.Sleep(time.Second) //nolint:forbidigo // in a bubble
		require.True(t, w.saw(time.Second))
		require.True(t, w.saw(time.Millisecond))
		time.Sleep(time.Second) //nolint:forbidigo // in a bubble
		require.Equal(t, time.Second, w.stop())
		require.False(t, w.saw(0), "no timer goes on")
	})
}
