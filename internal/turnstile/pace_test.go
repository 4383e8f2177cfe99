package turnstile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFarTicketsLookRarely, at the pace at which others leave, and never more rarely than the next loses patience.
func TestFarTicketsLookRarely(t *testing.T) {
	var p pace
	now := time.Now()
	p.moved(now, 100)
	require.Equal(t, 10*look, p.rest(10), "nothing has left")
	now = now.Add(time.Millisecond)
	p.moved(now, 101)
	require.Equal(t, 5*time.Millisecond, p.rest(10))
	require.Equal(t, patience, p.rest(100))
	p.moved(now, 104)
	require.Equal(t, 1250*time.Microsecond, p.rest(10))
	p.moved(now, 50) // it was overtaken, and comes late
	require.Equal(t, time.Millisecond, p.rest(10))

	looks := 0
	for ahead, left := int64(200), time.Duration(0); ahead > 0; looks++ { // one leaves each 200 µs
		left += p.rest(ahead)
		for ; left >= 200*time.Microsecond; left -= 200 * time.Microsecond {
			ahead--
		}
	}
	require.Less(t, looks, 20)
}

// TestFarTicketsArePatient: if nothing moves, they try one after the other.
func TestFarTicketsArePatient(t *testing.T) {
	var p pace
	start := time.Now()
	p.moved(start, 100)
	for ahead, at := range map[int64]time.Duration{1: patience, 2: 2 * patience, 20: 20 * patience, 1000: 20 * patience} {
		require.False(t, p.tires(start.Add(at), ahead))
		require.True(t, p.tires(start.Add(at+1), ahead))
	}
	p.moved(start.Add(patience), 100)
	require.True(t, p.tires(start.Add(patience+1), 1), "it has not moved")
	p.moved(start.Add(patience), 101)
	require.False(t, p.tires(start.Add(2*patience), 1))
}
