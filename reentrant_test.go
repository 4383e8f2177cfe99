package farsync_test

import (
	"context"
	"sync"
	"testing"
	"time"

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

// TestReentrantMutexGivesUpAsAMutex: with a ctx that has ended it does not enter again, and one that waits for another goroutine of its owner
// tells that the service does not answer.
func TestReentrantMutexGivesUpAsAMutex(t *testing.T) {
	bubble(t, func(t *testing.T, service *storetest.Mem, one, _ *farsync.Store) {
		mu := farsync.NewReentrantMutex(one, "/a")
		lease := must(t)(mu.Lock(t.Context()))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := mu.Lock(over)
		require.ErrorIs(t, err, context.Canceled)
		_, err = mu.TryLock(over)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, lease.Release())

		service.Partition(one, true)
		ctx, cancel := context.WithTimeout(farsync.WithOwner(t.Context()), time.Minute)
		defer cancel()
		errs := make(chan error)
		for range 2 {
			go func() {
				_, err := mu.Lock(ctx)
				errs <- err
			}()
		}
		for range 2 {
			err := <-errs
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, farsync.ErrUnavailable)
		}
		service.Partition(one, false)
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
