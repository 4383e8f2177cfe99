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

// The process is kept from running between two readings, as on a busy machine. That is no suspend, nor is the next result one.
func TestPauseBetweenTwoReadingsIsNoSuspend(t *testing.T) {
	const offset = 3 * time.Hour
	for pause := range 6 { // before the reading of that number
		now, reads := time.Minute, 0
		read := func(id uintptr) (time.Duration, bool) {
			if now += time.Microsecond; reads == pause {
				now += time.Second
			}
			reads++
			if id == clockBoottime {
				return now + offset, true
			}
			return now, true
		}
		for range 2 {
			require.InDelta(t, offset, suspendedBy(read), float64(leastSuspend/4), "paused before reading %d", pause)
		}
	}
}

func BenchmarkSuspended(b *testing.B) {
	for b.Loop() {
		suspended()
	}
}
