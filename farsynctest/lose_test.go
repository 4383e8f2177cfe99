//nolint:forbidigo // time is that of a bubble
package farsynctest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// TestLoseEndsTheSessionForBothSides: whatever becomes of the requests with which the Store asks, its leases end at the
// instant of Lose, and the lock is free; also while a renewal is under way.
func TestLoseEndsTheSessionForBothSides(t *testing.T) {
	for name, c := range map[string]struct {
		trouble func(m *farsynctest.Mem, s *farsync.Store)
		mend    func(m *farsynctest.Mem, s *farsync.Store)
	}{
		"well": {func(*farsynctest.Mem, *farsync.Store) {}, func(*farsynctest.Mem, *farsync.Store) {}},
		"refused": {
			func(m *farsynctest.Mem, s *farsync.Store) {
				m.SetFault(func(op farsynctest.Op) farsynctest.Fault {
					if op.Client == m.Client(s) {
						return farsynctest.Refuse(errors.New("no"))
					}
					return farsynctest.None
				})
			},
			func(m *farsynctest.Mem, _ *farsync.Store) { m.SetFault(nil) },
		},
		"cut off": {
			func(m *farsynctest.Mem, s *farsync.Store) { m.Partition(s, true) },
			func(m *farsynctest.Mem, s *farsync.Store) { m.Partition(s, false) },
		},
	} {
		for _, renewing := range []time.Duration{0, 2500 * time.Millisecond, 3 * time.Second} { // a quarter of the TTL, and more
			t.Run(fmt.Sprint(name, " for ", renewing), func(t *testing.T) {
				inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
					a, b := m.Open(nil), m.Open(nil)
					lease, err := farsync.NewMutex(a, "/q").Lock(t.Context())
					require.NoError(t, err)
					time.Sleep(time.Minute)
					require.NoError(t, lease.Err())
					c.trouble(m, a)
					time.Sleep(renewing)
					began := time.Now()
					m.Lose(a)
					require.Empty(t, m.Entries("/q"))
					next, err := farsync.NewMutex(b, "/q").TryLock(t.Context())
					require.NoError(t, err, "it is free at once")
					<-lease.Done()
					require.ErrorIs(t, lease.Err(), farsync.ErrLost)
					require.Zero(t, time.Since(began))
					require.NoError(t, next.Err(), "another Store's lease is left alone")
					require.NoError(t, next.Release())
					c.mend(m, a)
					time.Sleep(time.Minute)
					again, err := farsync.NewMutex(a, "/q").Lock(t.Context())
					require.NoError(t, err, "the Store stays usable")
					m.Lose(a)
					m.Lose(a) // there may be no session just now
					<-again.Done()
					require.NoError(t, a.Close())
					require.NoError(t, b.Close())
				})
			})
		}
	}
}

// TestLoseOfAWaiter: a call that waits is not told of the loss. It stands in the queue again.
func TestLoseOfAWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
		a, b := m.Open(nil), m.Open(nil)
		lease, err := farsync.NewMutex(a, "/q").Lock(t.Context())
		require.NoError(t, err)
		got := make(chan *farsync.Lease)
		go func() { // ends when the lock is free
			lease, err := farsync.NewMutex(b, "/q").Lock(context.Background())
			assert.NoError(t, err)
			got <- lease
		}()
		synctest.Wait()
		m.Lose(b)
		time.Sleep(time.Minute)
		require.Len(t, m.Entries("/q"), 2)
		require.NoError(t, lease.Release())
		require.NoError(t, (<-got).Release())
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}
