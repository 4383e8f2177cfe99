//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// TestNumbersThatCannotBeAreErrors: what a user asks for, and the size in a setting, is data.
func TestNumbersThatCannotBeAreErrors(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		service.ResetCount()
		s := farsync.NewSemaphore(one, "/a", 2)
		_, err := s.Acquire(t.Context(), 0)
		require.EqualError(t, err, "farsync: acquire /a: asked for 0 units: 1 is the least")
		_, err = s.TryAcquire(t.Context(), math.MinInt64)
		require.EqualError(t, err, "farsync: try acquire /a: asked for -9223372036854775808 units: 1 is the least")
		require.EqualError(t, s.Resize(t.Context(), -1), "farsync: resize /a: asked for -1 units: 1 is the least")
		none := farsync.NewSemaphore(one, "/a", 0)
		_, err = none.Acquire(t.Context(), 1)
		require.EqualError(t, err, "farsync: acquire /a: the semaphore was made with 0 units: 1 is the least")
		require.EqualError(t, none.Resize(t.Context(), 1), "farsync: resize /a: the semaphore was made with 0 units: 1 is the least")
		pool := farsync.NewPool(t.Context(), none)
		pool.Go(func(context.Context) error { t.Error("it runs without a unit"); return nil })
		require.False(t, pool.TryGo(func(context.Context) error { t.Error("it runs without a unit"); return nil }))
		require.ErrorContains(t, pool.Wait(), "the semaphore was made with 0 units: 1 is the least")
		require.Zero(t, service.Count(), "nothing is asked of the service")
	})
}

// acquire is Acquire of n units.
func acquire(s *farsync.Semaphore, n int64) func(context.Context) (*farsync.Lease, error) {
	return func(ctx context.Context) (*farsync.Lease, error) { return s.Acquire(ctx, n) }
}

// A watch that is woken returns, so those that have returned tell how many were woken.
func TestSemaphoreReleaseWakesOneInOrderAndAFewOutOfOrder(t *testing.T) {
	const size, waiters = 50, 50
	for _, row := range []struct {
		why      string
		released int // which of the holders, the oldest is 0
		woken    int
	}{
		{"in order", 0, 1},
		{"the third oldest could be the one that makes room for each of the first three waiters", 2, 3},
		{"the youngest: for all that stand in the queue", size - 1, 16},
	} {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
			var record farsynctest.Record
			holders := farsync.NewSemaphore(one, "/a", size)
			var held []*farsync.Lease
			for range size {
				held = append(held, must(t)(holders.Acquire(t.Context(), 1)))
			}
			recorded := open(t, record.Wrap(service.Service("recorded"), "recorded"))
			others := farsync.NewSemaphore(recorded, "/a", size)
			var waiting []*pending
			for range waiters {
				waiting = append(waiting, begin(acquire(others, 1)))
			}
			record.Reset()
			require.NoError(t, held[row.released].Release())
			synctest.Wait()
			require.Equal(t, row.woken, record.Count(farsynctest.Watch), row.why)
			require.LessOrEqual(t, record.Count(farsynctest.Ahead), row.woken, "and look once at the most")
			first := waiting[0].got(t)
			require.True(t, waiting[1].waiting())
			require.NoError(t, first.Release())
			for i, lease := range held {
				if i != row.released {
					require.NoError(t, lease.Release())
				}
			}
			for _, p := range waiting[1:] {
				require.NoError(t, p.got(t).Release())
			}
			require.NoError(t, recorded.Close())
		})
	}
}

// An entry that asks for more than a sum can hold is there for a moment, before it is refused.
func TestSemaphoreIsNotFooledByAHugeRequest(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		service.SetLatency(10 * time.Millisecond) // so that the moment is long
		s := farsync.NewSemaphore(one, "/a", 2)
		first := must(t)(s.Acquire(t.Context(), 2))
		huge := begin(acquire(farsync.NewSemaphore(two, "/a", 2), math.MaxInt64))
		time.Sleep(15 * time.Millisecond)
		second := begin(acquire(s, 1))
		time.Sleep(time.Second)
		require.False(t, huge.waiting())
		require.ErrorIs(t, huge.err, farsync.ErrTooLarge)
		require.True(t, second.waiting())
		require.NoError(t, first.Release())
		time.Sleep(time.Second)
		require.NoError(t, second.got(t).Release())
	})
}

func TestSemaphoreParticipantsAfterAResize(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		s := farsync.NewSemaphore(one, "/a", 4)
		list, err := one.Participants(t.Context(), "/a")
		require.NoError(t, err)
		require.Empty(t, list)
		var leases []*farsync.Lease
		for range 3 {
			leases = append(leases, must(t)(s.Acquire(t.Context(), 1)))
		}
		require.NoError(t, s.Resize(t.Context(), 2))
		list, err = one.Participants(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, []bool{true, true, false}, []bool{list[0].Held, list[1].Held, list[2].Held}, "as documented")
		for _, lease := range leases {
			require.NoError(t, lease.Release())
		}
	})
}

// TestResizeDoesNotCompareWhatItsSemaphoreDeclares: at a rollout processes that declare 20 stand beside processes that declare 10, and either
// sets the size that counts. What the users declare stays.
func TestResizeDoesNotCompareWhatItsSemaphoreDeclares(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		before, after := farsync.NewSemaphore(one, "/a", 10), farsync.NewSemaphore(two, "/a", 20)
		held, err := before.Acquire(t.Context(), 10)
		require.NoError(t, err)
		waits := make(chan *farsync.Lease)
		go func() { // it is woken by the other's Resize
			lease, err := before.Acquire(t.Context(), 5)
			assert.NoError(t, err)
			waits <- lease
		}()
		synctest.Wait()
		require.NoError(t, after.Resize(t.Context(), 15))
		lease := <-waits
		size, err := after.Size(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 15, size)
		_, err = after.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, farsync.ErrSize)
		service.ResetCount()
		require.NoError(t, after.Resize(t.Context(), 15)) // the size that counts: nothing is written
		require.Zero(t, service.Count(farsynctest.SetRegister))
		require.NoError(t, after.Resize(t.Context(), 10))
		require.NoError(t, lease.Release())
		require.NoError(t, held.Release())
		require.NoError(t, after.Resize(t.Context(), 30)) // nobody uses it: it is declared anew
		lease, err = after.Acquire(t.Context(), 30)
		require.NoError(t, err)
		require.NoError(t, lease.Release())
	})
}
