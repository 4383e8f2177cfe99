package farsync_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// The service refuses to watch an entry that no session ends. An observer then looks now and then.
func TestObserveBehindAStray(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := farsynctest.NewMem()
		s := m.Open(nil)
		stray := m.AddStray("/e", "stray")
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		m.ResetCount()
		m.SetFault(func(farsynctest.Op) farsynctest.Fault {
			if m.Count() > 10000 {
				panic("it spins")
			}
			return farsynctest.None
		})
		n := 0
		for leader, err := range farsync.NewElection(s, "/e").Observe(ctx) {
			t.Log(leader, err)
			n++
		}
		require.Less(t, m.Count(), 200)
		require.Less(t, n, 3)
		m.Delete(stray)
		require.NoError(t, s.Close())
	})
}

// TestNobodyLeadsWhileNothingIsGranted, for whoever led before may not know yet that it does not: neither Leader nor Observe names a
// candidate that has joined meanwhile, and it is shown to wait.
func TestNobodyLeadsWhileNothingIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const silence = 10 * time.Second
		m := farsynctest.NewMem()
		s := m.Open(nil)
		m.Restart(silence)
		began := time.Now()
		e := farsync.NewElection(s, "/e")
		var lease *farsync.Lease
		elected := make(chan error, 1)
		go func() { // ends when it is elected, or with the test
			var err error
			lease, err = e.Campaign(t.Context(), "a")
			elected <- err
		}()
		time.Sleep(silence / 2) //nolint:forbidigo // in a bubble; its Store has had to open a session anew
		list, err := s.Participants(t.Context(), "/e")
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.False(t, list[0].Held)
		_, err = e.Leader(t.Context())
		require.ErrorIs(t, err, farsync.ErrUnavailable)
		require.NotErrorIs(t, err, farsync.ErrNoLeader, "nobody knows")
		for lock, err := range s.Survey(t.Context(), "/") {
			require.NoError(t, err)
			require.Len(t, lock.Participants, 1)
			require.False(t, lock.Participants[0].Held)
		}

		for leader, err := range e.Observe(t.Context()) {
			require.NoError(t, err)
			require.Equal(t, "a", leader.Value, "the first that is known")
			break
		}
		require.GreaterOrEqual(t, time.Since(began), silence)
		require.Less(t, time.Since(began), silence+5*time.Second)
		require.NoError(t, <-elected)
		require.NoError(t, lease.Release())
		require.NoError(t, s.Close())
	})
}

// A look at the leader whose answer comes when the silence has ended is made again: by then somebody leads.
func TestLeaderAsTheSilenceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const silence = 10 * time.Second
		m := farsynctest.NewMem()
		s := m.Open(nil)
		defer s.Close()
		m.Restart(silence)
		e := farsync.NewElection(s, "/e")
		elected := make(chan error, 1)
		go func() { // sends when its candidate leads, which is when the silence is over
			_, err := e.Campaign(t.Context(), "next")
			elected <- err
		}()
		time.Sleep(silence - 3*time.Millisecond) //nolint:forbidigo // in a bubble
		m.SetLatency(2 * time.Millisecond)       // the service looks before the end, and its answer comes after it
		leader, err := e.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "next", leader.Value)
		require.NoError(t, <-elected)
	})
}
