package redistest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
)

// TestRequestsOfALock: a free lock takes one request and its release another; one that has to wait takes a third, to look.
func TestRequestsOfALock(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	requests := func() int {
		_, _, n := commands(t, admin)
		return n
	}
	store := newStore(t, server.Endpoint(), fresh(time.Hour))
	require.NoError(t, lock(t, store, "/traffic").Release())
	const times = 20
	before := requests()
	for range times {
		require.NoError(t, lock(t, store, "/traffic").Release())
	}
	require.Equal(t, 2*times, requests()-before)

	lease := lock(t, store, "/traffic")
	before = requests()
	for range times {
		_, err := farsync.NewMutex(store, "/traffic").TryLock(within(t, soon))
		require.ErrorIs(t, err, farsync.ErrLocked)
	}
	require.Equal(t, times, requests()-before, "one that is taken")
	require.NoError(t, lease.Release())

	for _, waiters := range []int{8, 64} {
		stores := make([]*farsync.Store, waiters)
		for i := range stores {
			stores[i] = newStore(t, server.Endpoint(), fresh(time.Hour))
		}
		lease := lock(t, store, "/traffic")
		before := requests()
		var all sync.WaitGroup
		for _, store := range stores {
			all.Go(func() {
				lease, err := farsync.NewMutex(store, "/traffic").Lock(within(t, soon))
				if err == nil {
					err = lease.Release()
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		require.Eventually(t, func() bool {
			n, err := admin.ZCard(within(t, soon), prefix+"q:/traffic").Result()
			return err == nil && n == int64(waiters)+1
		}, soon, time.Millisecond)
		require.Equal(t, waiters, requests()-before, "to join")
		require.NoError(t, lease.Release())
		all.Wait()
		n := requests() - before - 1
		t.Logf("%d waiters: %d requests", waiters, n)
		require.GreaterOrEqual(t, n, 3*waiters, "join, look, leave")
		// A wake-up that is faster than the answer to the join costs one more.
		require.LessOrEqual(t, n, 3*waiters+waiters/4)
		for _, store := range stores {
			require.NoError(t, store.Close())
		}
	}
}
