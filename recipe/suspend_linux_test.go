package recipe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClocksAdvance(t *testing.T) {
	for _, id := range []uintptr{clockMonotonic, clockBoottime} {
		first, ok := readClock(id)
		require.True(t, ok)
		require.Positive(t, first)
		begun := time.Now()
		for time.Since(begun) < time.Millisecond {
		}
		second, _ := readClock(id)
		require.GreaterOrEqual(t, second-first, time.Millisecond)
	}
	_, ok := readClock(1 << 20)
	require.False(t, ok)
	now := suspended()
	require.InDelta(t, now, suspended(), float64(time.Second), "while the host runs it stays what it is")
}

func BenchmarkSuspended(b *testing.B) {
	for b.Loop() {
		suspended()
	}
}
