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
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/deadlock"
)

func TestPoolLimitHoldsOverProcesses(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		const size, tasks = 3, 20
		var running, most, ran atomic.Int64
		var pools []*farsync.Pool
		started := make(chan struct{})
		for _, store := range []*farsync.Store{one, two} {
			pool := farsync.NewPool(t.Context(), farsync.NewSemaphore(store, "/a", size))
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
		pool := farsync.NewPool(t.Context(), farsync.NewSemaphore(one, "/a", 2))
		over := make(chan struct{})
		pool.Go(func(ctx context.Context) error {
			defer close(over)
			<-ctx.Done()
			return ctx.Err()
		})
		pool.Go(func(context.Context) error { return errWork })
		<-over
		pool.Go(func(context.Context) error { panic("no task is started any more") })
		require.False(t, pool.TryGo(func(context.Context) error { panic("no task is started any more") }))
		require.ErrorIs(t, pool.Wait(), errWork)
	})
}

func TestPoolTriesOnly(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		lease := must(t)(farsync.NewSemaphore(two, "/a", 1).Acquire(t.Context(), 1))
		pool := farsync.NewPool(t.Context(), farsync.NewSemaphore(one, "/a", 1))
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
		pool := farsync.NewPool(t.Context(), farsync.NewSemaphore(one, "/a", 1))
		pool.Go(func(ctx context.Context) error {
			<-ctx.Done()
			if context.Cause(ctx) == nil {
				return errWork
			}
			return nil
		})
		synctest.Wait()
		service.Expire(one)
		require.ErrorIs(t, pool.Wait(), farsync.ErrLost)
	})
}

func TestPoolOfARefusedSemaphore(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		lease := must(t)(farsync.NewSemaphore(two, "/a", 1).Acquire(t.Context(), 1))
		pool := farsync.NewPool(t.Context(), farsync.NewSemaphore(one, "/a", 2))
		pool.Go(func(context.Context) error { panic("not run") })
		require.ErrorIs(t, pool.Wait(), farsync.ErrSize)
		require.NoError(t, lease.Release())
	})
}

// Tasks that hold all units and each wait for another wait for one another. What is seen from outside says so.
func TestPoolShowsThatItWaitsForItself(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		pool := farsync.NewPool(ctx, farsync.NewSemaphore(one, "/a", 2))
		for range 2 {
			pool.Go(func(context.Context) error {
				time.Sleep(time.Second) // until both hold
				require.False(t, pool.TryGo(func(context.Context) error { panic("no unit is left") }))
				pool.Go(func(context.Context) error { panic("no unit is left") })
				return nil
			})
		}
		time.Sleep(time.Minute)
		list := must2(two.Participants(t.Context(), "/a"))(t)
		require.Len(t, list, 4)
		holders := []string{list[0].ID, list[1].ID}
		var under []string
		queue := deadlock.Queue{Path: "/a", Size: 2}
		for i, p := range list {
			queue.Entries = append(queue.Entries, deadlock.Entry{ID: p.ID, Kind: driver.Permit, Units: p.Units, Under: p.Under})
			require.Equal(t, i < 2, p.Held)
			under = append(under, p.Under...)
		}
		require.ElementsMatch(t, holders, under, "each waits under a unit of its own")
		require.NotEmpty(t, deadlock.Cycles([]deadlock.Queue{queue}), "what the page and the command show")
		cancel()
		require.ErrorIs(t, pool.Wait(), context.Canceled)
	})
}

// A task of a unit that Go got is run, and TryGo says the truth, also where the pool ends before the goroutine of the
// task begins: the caller may wait for what the task does.
func TestPoolRunsATaskThatItHasStarted(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, _, two *farsync.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		store := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Trace: &farsync.Trace{
			Acquire: func(ctx context.Context, _ farsync.TraceCall) (context.Context, func(farsync.TraceResult)) {
				return ctx, func(farsync.TraceResult) { cancel() } // the call has its unit, and cannot fail any more
			},
		}}})
		defer store.Close()
		pool := farsync.NewPool(ctx, farsync.NewSemaphore(store, "/a", 2))
		ran := make(chan error, 1)
		require.True(t, pool.TryGo(func(ctx context.Context) error {
			ran <- ctx.Err()
			return ctx.Err()
		}))
		require.ErrorIs(t, <-ran, context.Canceled)
		require.ErrorIs(t, pool.Wait(), context.Canceled)
		require.Empty(t, service.Entries("/a"))
	})
}

// A task that calls Go while a unit is free gets it, and a goroutine of the task's own is none of the pool's.
func TestPoolTaskStartsAnother(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		pool := farsync.NewPool(t.Context(), farsync.NewSemaphore(one, "/a", 2))
		var ran atomic.Int64
		task := func(context.Context) error { ran.Add(1); return nil }
		pool.Go(func(context.Context) error {
			pool.Go(task)
			done := make(chan struct{})
			go func() {
				defer close(done)
				pool.Go(task)
			}()
			<-done
			return task(nil)
		})
		require.NoError(t, pool.Wait())
		require.EqualValues(t, 3, ran.Load())
		require.Empty(t, service.Entries("/a"))
	})
}
