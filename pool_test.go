//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

func TestPoolLimitHoldsOverProcesses(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		const size, tasks = 3, 20
		var running, most, ran atomic.Int64
		var pools []*farsync.Pool
		started := make(chan struct{})
		for _, store := range []*farsync.Store{one, two} {
			pool, _ := farsync.NewPool(t.Context(), farsync.NewSemaphore(store, "/a", size))
			pools = append(pools, pool)
			go func() {
				for range tasks {
					pool.Go(func(context.Context) error {
						now := running.Add(1)
						for {
							m := most.Load()
							if now <= m || most.CompareAndSwap(m, now) {
								break
							}
						}
						time.Sleep(time.Second)
						running.Add(-1)
						ran.Add(1)
						return nil
					})
				}
				started <- struct{}{}
			}()
		}
		began := time.Now()
		for _, pool := range pools {
			<-started
			_ = pool
		}
		for _, pool := range pools {
			require.NoError(t, pool.Wait())
		}
		require.EqualValues(t, size, most.Load())
		require.EqualValues(t, 2*tasks, ran.Load())
		require.Less(t, time.Since(began), 15*time.Second, "and is used: 14 s is what 40 tasks of a second take three at a time")
	})
}

func TestPoolEndsWithTheFirstError(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		pool, ctx := farsync.NewPool(t.Context(), farsync.NewSemaphore(one, "/a", 2))
		pool.Go(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		pool.Go(func(context.Context) error { return errWork })
		<-ctx.Done()
		pool.Go(func(context.Context) error { panic("no task is started any more") })
		require.False(t, pool.TryGo(func(context.Context) error { panic("no task is started any more") }))
		require.ErrorIs(t, pool.Wait(), errWork)
	})
}

func TestPoolTriesOnly(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		lease := must(t)(farsync.NewSemaphore(two, "/a", 1).Acquire(t.Context(), 1))
		pool, _ := farsync.NewPool(t.Context(), farsync.NewSemaphore(one, "/a", 1))
		ran := false
		task := func(context.Context) error { ran = true; return nil }
		require.False(t, pool.TryGo(task))
		require.NoError(t, lease.Release())
		require.True(t, pool.TryGo(task))
		require.NoError(t, pool.Wait(), "that it was taken is no error")
		require.True(t, ran)
		require.Empty(t, service.Entries("/a"))
	})
}

func TestPoolTaskUnderALostUnitHasFailed(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		pool, ctx := farsync.NewPool(t.Context(), farsync.NewSemaphore(one, "/a", 1))
		pool.Go(func(ctx context.Context) error {
			<-ctx.Done()
			if context.Cause(ctx) == nil {
				return errWork
			}
			return nil
		})
		synctest.Wait()
		service.Expire(one)
		<-ctx.Done()
		require.ErrorIs(t, pool.Wait(), farsync.ErrLost)
	})
}

func TestPoolOfARefusedSemaphore(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		lease := must(t)(farsync.NewSemaphore(two, "/a", 1).Acquire(t.Context(), 1))
		pool, ctx := farsync.NewPool(t.Context(), farsync.NewSemaphore(one, "/a", 2))
		pool.Go(func(context.Context) error { panic("not run") })
		<-ctx.Done()
		require.ErrorIs(t, pool.Wait(), farsync.ErrSize)
		require.NoError(t, lease.Release())
	})
}
