package farsync_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/storetest"
)

func TestReentrantMutexEntersAgainWithoutARequest(t *testing.T) {
	bubble(t, func(t *testing.T, service *storetest.Mem, one, _ *farsync.Store) {
		mu := farsync.NewReentrantMutex(one, "/a")
		first := must(t)(mu.Lock(t.Context()))
		service.ResetCount()
		second, third := must(t)(mu.Lock(t.Context())), must(t)(mu.TryLock(t.Context()))
		require.NoError(t, first.Release())
		require.NoError(t, third.Release())
		require.Zero(t, service.Count())
		require.NoError(t, second.Release())
		require.Equal(t, 1, service.Count(storetest.Delete))
		require.Equal(t, 1, service.Count())
	})
}

func TestReentrantMutexJoinsOnceForAllGoroutinesOfAnOwner(t *testing.T) {
	bubble(t, func(t *testing.T, service *storetest.Mem, one, _ *farsync.Store) {
		mu := farsync.NewReentrantMutex(one, "/a")
		ctx := farsync.WithOwner(t.Context())
		leases := make([]*farsync.Lease, 8)
		var all sync.WaitGroup
		for i := range leases {
			all.Go(func() { leases[i], _ = mu.Lock(ctx) })
		}
		all.Wait()
		require.Equal(t, 1, service.Count(storetest.Create))
		for _, lease := range leases {
			require.NotNil(t, lease)
			require.NoError(t, lease.Release())
		}
	})
}
