package locktest

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
)

func (s *scene) semaphore(store *farsync.Store, size int64) *farsync.Semaphore {
	return farsync.NewSemaphore(store, s.path, size)
}

// units is Acquire of n units.
func units(sem *farsync.Semaphore, n int64) func(context.Context) (*farsync.Lease, error) {
	return func(ctx context.Context) (*farsync.Lease, error) { return sem.Acquire(ctx, n) }
}

var semaphoreRows = []row{
	{"SemaphoreNeverAboveItsSize", "one more than there are is what it is to prevent", func(s *scene) {
		const clients, goroutines, times, size = 3, 4, 6, 5
		section := NewSection(s, size)
		var all sync.WaitGroup
		ctx := s.ctx()
		for range clients {
			sem := s.semaphore(s.client(), size)
			for range goroutines {
				all.Go(func() {
					for range times {
						n := 1 + rand.Int64N(size)
						lease, err := sem.Acquire(ctx, n)
						if err != nil {
							s.Error(err)
							return
						}
						section.Visit(ctx, lease, n)
						if err := giveBack(lease); err != nil {
							s.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		_, most := section.Visits()
		s.Logf("%d units of %d were held at once", most, size)
		s.until(s.client(), 0)
	}},
	{"SemaphoreForgetsNoWaiter", "units that come free at the same time, in any order, let in all that they leave room for", func(s *scene) {
		const clients, times, size = 10, 20, 5
		var all errgroup.Group
		for n := range clients {
			sem := s.semaphore(s.client(), size)
			all.Go(func() error {
				for i := range times {
					lease, err := sem.Acquire(s.ctx(), 1+rand.Int64N(3)) // sooner than what was forgotten looks by itself
					if err == nil && n == 0 && i%3 == 0 {
						err = sem.Resize(s.ctx(), 3+rand.Int64N(4))
					}
					if err == nil {
						err = giveBack(lease)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(s, all.Wait())
	}},
	{"SemaphoreLeavesThePathAboveAlone", "a program that counts the jobs of a kind may lock all jobs, too", func(s *scene) {
		store := s.client()
		below := farsync.NewSemaphore(store, s.path+"/below", 2)
		held := s.take(units(below, 1))
		require.NoError(s, below.Resize(s.ctx(), 3))
		above := s.take(farsync.NewMutex(s.client(), s.path).Lock)
		list, err := store.Participants(s.ctx(), s.path)
		require.NoError(s, err)
		require.Len(s, list, 1)
		require.NoError(s, giveBack(held))
		require.NoError(s, giveBack(above))
		s.until(store, 0)
		again, err := farsync.NewMutex(store, s.path).TryLock(s.ctx())
		require.NoError(s, err, "and when it is idle")
		require.NoError(s, giveBack(again))
	}},
	{"SemaphoreDoesNotStarveLargeRequests", "small ones must not pass a large one for ever", func(s *scene) {
		looker := s.client()
		sem := s.semaphore(looker, 3)
		first := s.take(units(sem, 2))
		large := s.locking(units(s.semaphore(s.client(), 3), 3))
		s.until(looker, 2)
		small := s.locking(units(s.semaphore(s.client(), 3), 1))
		s.until(looker, 3)
		list, err := looker.Participants(s.ctx(), s.path)
		require.NoError(s, err)
		for i, n := range []int64{2, 3, 1} {
			require.Equal(s, n, list[i].Units)
			require.Equal(s, farsync.KindPermit, list[i].Kind)
			require.Equal(s, i == 0, list[i].Held)
			require.NotEmpty(s, list[i].Holder)
		}
		require.Equal(s, first.Token(), list[0].Token)
		_, err = sem.TryAcquire(s.ctx(), 1)
		require.ErrorIs(s, err, farsync.ErrLocked, "there is room, but others wait for it")
		s.until(looker, 3)
		large.waits()
		small.waits()
		s.release(first)
		lease := large.got()
		small.waits()
		s.release(lease)
		s.release(small.got())
		s.until(looker, 0)
	}},
	{"SemaphoreReleasedOutOfOrder", "Curator's rule watches one holder only, and strands a waiter when another leaves", func(s *scene) {
		looker := s.client()
		var held []*farsync.Lease
		for range 4 {
			held = append(held, s.take(units(s.semaphore(looker, 4), 1)))
		}
		var waiting []*locking
		for i := range 4 {
			waiting = append(waiting, s.locking(units(s.semaphore(s.client(), 4), 1)))
			s.until(looker, 5+i)
		}
		for i, last := range []int{2, 0, 3, 1} {
			for _, w := range waiting[i:] {
				w.waits()
			}
			s.release(held[last])
			held = append(held, waiting[i].got())
		}
		for _, lease := range held[4:] {
			s.release(lease)
		}
		s.until(looker, 0)
	}},
	{"SemaphoreAllOrNone", "two that have half each of what they need wait for ever (Curator's do)", func(s *scene) {
		for range 5 {
			var both sync.WaitGroup
			ctx := s.ctx()
			section := NewSection(s, 3)
			for range 2 {
				sem := s.semaphore(s.client(), 3)
				both.Go(func() {
					lease, err := sem.Acquire(ctx, 2)
					if err != nil {
						s.Error(err)
						return
					}
					section.Visit(ctx, lease, 2)
					if err := giveBack(lease); err != nil {
						s.Error(err)
					}
				})
			}
			both.Wait()
		}
	}},
	{"SemaphoreTries", "a call that does not wait leaves nothing behind", func(s *scene) {
		one, two := s.client(), s.client()
		first, err := s.semaphore(one, 3).TryAcquire(s.ctx(), 2)
		require.NoError(s, err)
		_, err = s.semaphore(two, 3).TryAcquire(s.ctx(), 2)
		require.ErrorIs(s, err, farsync.ErrLocked)
		s.until(one, 1)
		second, err := s.semaphore(two, 3).TryAcquire(s.ctx(), 1)
		require.NoError(s, err)
		s.release(first)
		s.release(second)
		s.until(one, 0)
	}},
	{"SemaphoreResize", "more units wake waiters, fewer take nothing from holders", func(s *scene) {
		one, two := s.client(), s.client()
		sem := s.semaphore(one, 2)
		first := s.take(units(sem, 2))
		second := s.locking(units(s.semaphore(two, 2), 1))
		s.until(one, 2)
		third := s.locking(units(s.semaphore(two, 2), 2))
		s.until(one, 3)
		require.NoError(s, sem.Resize(s.ctx(), 3))
		mid := second.got()
		third.waits()
		require.NoError(s, s.semaphore(two, 2).Resize(s.ctx(), 5))
		leases := []*farsync.Lease{mid, third.got()}

		require.NoError(s, sem.Resize(s.ctx(), 2))
		for _, lease := range append(leases, first) {
			require.NoError(s, lease.Err())
		}
		last := s.locking(units(sem, 1))
		s.until(one, 4)
		s.release(first)
		s.release(leases[0])
		last.waits()
		s.release(leases[1])
		s.release(last.got())
		s.until(one, 0)
	}},
	{"SemaphoreResizeBelowWhatIsWaitedFor", "a waiter that could wait for ever fails, and those behind it go on", func(s *scene) {
		one, two := s.client(), s.client()
		sem := s.semaphore(one, 4)
		first := s.take(units(sem, 4))
		large := s.locking(units(s.semaphore(two, 4), 3))
		s.until(one, 2)
		small := s.locking(units(s.semaphore(two, 4), 1))
		s.until(one, 3)
		require.NoError(s, sem.Resize(s.ctx(), 2))
		<-large.done
		require.ErrorIs(s, large.err, farsync.ErrTooLarge)
		s.until(one, 2)
		small.waits()
		require.NoError(s, first.Err())
		s.release(first)
		s.release(small.got())
		s.until(one, 0)
	}},
	{"SemaphoreSkipsWhoGaveUp", "a waiter that was cancelled must neither block those behind it nor take units along", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		first := s.take(units(s.semaphore(one, 2), 1))
		second := s.locking(units(s.semaphore(two, 2), 2))
		s.until(one, 2)
		third := s.locking(units(s.semaphore(three, 2), 1))
		s.until(one, 3)
		third.waits()
		second.cancel()
		<-second.done
		require.ErrorIs(s, second.err, context.Canceled)
		s.release(third.got()) // without a release
		s.release(first)
		s.until(one, 0)
	}},
	{"SemaphoreUnitsComeBackFromTheDead", "the units of a holder that died must not be lost", func(s *scene) {
		one, two := s.client(), s.client()
		first := s.take(units(s.semaphore(one, 3), 2))
		behind := s.locking(units(s.semaphore(two, 3), 3))
		s.until(two, 2)
		s.Expire(s.T, one)
		lease := behind.got()
		<-first.Done()
		require.ErrorIs(s, first.Release(), farsync.ErrLost)
		s.release(lease)
	}},
	{"SemaphoreWaiterNeverHoldsOnALostSession", "what a dead session's entry was granted belongs to no client", func(s *scene) {
		one, two := s.client(), s.client()
		first := s.take(units(s.semaphore(one, 2), 2))
		behind := s.locking(units(s.semaphore(two, 2), 1))
		before := s.until(one, 2)
		s.Expire(s.T, two)
		s.release(first)
		lease := behind.got()
		require.NoError(s, lease.Err())
		require.Greater(s, lease.Token().Revision(), before[1].Revision)
		s.release(lease)
	}},
	{"SemaphoreRefuses", "what can never be is said at once, with the numbers", func(s *scene) {
		one, two := s.client(), s.client()
		sem := s.semaphore(one, 3)
		first := s.take(units(sem, 1))
		for _, n := range []int64{4, math.MaxInt64} {
			_, err := sem.Acquire(s.ctx(), n)
			require.ErrorIs(s, err, farsync.ErrTooLarge)
			_, err = sem.TryAcquire(s.ctx(), n)
			require.ErrorIs(s, err, farsync.ErrTooLarge)
		}
		other := s.semaphore(two, 8)
		_, err := other.Acquire(s.ctx(), 1)
		require.ErrorIs(s, err, farsync.ErrSize)
		require.ErrorContains(s, err, "3")
		require.ErrorContains(s, err, "8")
		_, err = other.TryAcquire(s.ctx(), 1)
		require.ErrorIs(s, err, farsync.ErrSize)
		s.until(one, 1)
		require.NoError(s, first.Err())
		s.release(first)
		s.until(two, 0)
		s.release(s.take(units(other, 8)))
	}},
}
