package turnstile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFarTicketsLookRarely, at the pace at which others leave, and twice at least while they are patient.
func TestFarTicketsLookRarely(t *testing.T) {
	var p pace
	now := time.Now()
	p.moved(now, 100)
	require.Equal(t, 10*look, p.rest(now, 10), "nothing has left")
	now = now.Add(time.Millisecond)
	p.moved(now, 101)
	require.Equal(t, 5*time.Millisecond, p.rest(now, 10))
	require.Equal(t, patience, p.rest(now, 100), "it has not waited for long")
	require.Equal(t, 25*time.Millisecond, p.rest(now.Add(49*time.Millisecond), 100))
	require.Equal(t, 50*time.Millisecond, p.rest(now.Add(time.Second), 100))
	require.Equal(t, mostPatient*patience/2, p.rest(now.Add(time.Second), 1000))
	p.moved(now, 104)
	require.Equal(t, 1250*time.Microsecond, p.rest(now, 10))
	p.moved(now, 50) // it was overtaken, and comes late
	require.Equal(t, time.Millisecond, p.rest(now, 10))

	looks := 0
	for ahead, left := int64(200), time.Duration(0); ahead > 0; looks++ { // one leaves each 200 µs
		left += p.rest(now, ahead)
		for ; left >= 200*time.Microsecond; left -= 200 * time.Microsecond {
			ahead--
		}
	}
	require.Less(t, looks, 20)
}

// TestLooksWhereTurnsAreLong: of 150 processes each writes for 50 ms. Together they look some 110 times a turn. 420 looks a turn, as many as if
// each process looked again after patience, would take the processors from the process that writes.
func TestLooksWhereTurnsAreLong(t *testing.T) {
	const tickets, turn = 150, 50 * time.Millisecond
	looks := 0
	for place := range int64(tickets) {
		var p pace
		began := time.Now()
		for now, ahead := began, place; ahead > near; looks++ {
			left := int64(now.Sub(began) / turn)
			p.moved(now, left)
			ahead = place - left
			if p.tires(now, ahead) { // it tries, and waits again
				p = pace{}
				p.moved(now, left)
			}
			now = now.Add(p.rest(now, ahead))
		}
	}
	require.Less(t, looks/tickets, 120)
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
