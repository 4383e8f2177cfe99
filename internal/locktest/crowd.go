package locktest

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// A Crowded is a service in which a process can have died that had thousands of waiters, in the queue "/crowd". A client
// removes its entries, and may not lose its own session for the work.
type Crowded struct {
	Open  func(t testing.TB, ttl time.Duration) *farsync.Store
	Crowd func(t testing.TB, n int) // puts entries of a session into the queue, behind all entries that are there
	Adopt func(t testing.TB)        // gives them to the session of the only Store
	Dies  func(t testing.TB)        // has their session run out
	Many  int                       // how many are put there; 0: ten thousand
}

// RunCrowds runs the scenes with a service each, which open returns.
func RunCrowds(t *testing.T, open func(t testing.TB) Crowded) {
	scene := func(name string, play func(t *testing.T, s Crowded, crowd int)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			play(t, s, cmp.Or(s.Many, 10_000))
		})
	}
	standing := func(t testing.TB, store *farsync.Store, n int) {
		look := func() ([]farsync.Participant, error) { return store.Participants(Within(t, Soon), "/crowd") }
		for list, err := look(); len(list) < n; list, err = look() {
			require.NoError(t, err)
		}
	}
	scene("Dies", func(t *testing.T, s Crowded, crowd int) {
		alive := Lock(t, s.Open(t, time.Second), "/alive")
		looker := s.Open(t, 2*time.Second)
		s.Crowd(t, crowd/2)
		between := LockBehind(t, s.Open(t, 2*time.Second), "/crowd")
		standing(t, looker, crowd/2+1)
		s.Crowd(t, crowd/2)
		behind := LockBehind(t, s.Open(t, 2*time.Second), "/crowd")
		standing(t, looker, crowd+2)
		require.Empty(t, between)
		start := time.Now()
		s.Dies(t)
		next := <-between
		t.Logf("granted %v after the end of the session", time.Since(start))
		require.NoError(t, next.Release())
		require.NoError(t, (<-behind).Release())
		require.NoError(t, alive.Err())
		require.NoError(t, alive.Release())
	})
	scene("IsNotSeenByANewcomer", func(t *testing.T, s Crowded, crowd int) {
		store := s.Open(t, time.Hour)
		s.Crowd(t, crowd)
		s.Dies(t)
		lease, err := farsync.NewMutex(store, "/crowd").TryLock(Within(t, Soon))
		require.NoError(t, err)
		require.NoError(t, lease.Release())
	})
	scene("IsClosed", func(t *testing.T, s Crowded, crowd int) {
		store := s.Open(t, time.Hour)
		s.Crowd(t, crowd)
		s.Adopt(t)
		require.NoError(t, store.Close())
		list, err := s.Open(t, time.Hour).Participants(Within(t, Soon), "/crowd")
		require.NoError(t, err)
		require.Empty(t, list)
	})
}
