package locktest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
)

// sizeRows are about the size of a semaphore, which the service keeps.
var sizeRows = []row{
	{"SizeIsDeclaredByUse", "the size is kept where all its users see it", func(s *scene) {
		one, two := s.client(), s.client()
		_, err := s.semaphore(one, 5).Acquire(s.ctx(), 6)
		require.ErrorIs(s, err, farsync.ErrTooLarge, "also by the first")
		s.until(two, 0)
		lease := s.take(units(s.semaphore(one, 5), 2))
		s.sizeIs(two, 5, 5)
		_, err = s.semaphore(two, 7).Acquire(s.ctx(), 1)
		require.ErrorIs(s, err, farsync.ErrSize)
		s.sizeIs(two, 5, 5)
		s.until(two, 1)
		require.ErrorContains(s, err, "declared as 5 by its present users, as 7 here; in a rolling deployment go on declaring 5, "+
			"and Resize, or farsync resize --limit 5, to 7")
		require.NoError(s, s.semaphore(two, 7).Resize(s.ctx(), 9), "what the users declare is not compared")
		s.sizeIs(two, 5, 9)
		s.release(s.take(units(s.semaphore(one, 5), 7)))
		s.release(lease)
		s.sizeStays(two, 5, 9)
		lease = s.take(units(s.semaphore(two, 7), 7))
		s.sizeIs(one, 7, 7)
		s.release(lease)
	}},
	// A caller who has found another size waits a second or more for the others of the new size to leave its way. Whether that is long enough
	// is a matter of the machine, but in a bubble. Elsewhere one of them comes first, as in a deployment host by host; SizesAreNeverMixed has
	// all at once.
	{"SizeDeclaredAnewByAll", "after a deployment all come at once, and none of them uses the old size", func(s *scene) {
		one, two := s.client(), s.client()
		for _, size := range []int64{5, 7, 3} {
			ctx := s.ctx()
			var held atomic.Int64
			acquire := func(sem *farsync.Semaphore) (*farsync.Lease, error) {
				lease, err := sem.Acquire(ctx, 1)
				if err != nil {
					return nil, err
				}
				if now := held.Add(1); now > size {
					s.Errorf("%d units of %d are held", now, size)
				}
				return lease, nil
			}
			release := func(lease *farsync.Lease) error {
				held.Add(-1)
				return giveBack(lease)
			}
			var first *farsync.Lease
			if !s.Bubble {
				var err error
				first, err = acquire(s.semaphore(one, size))
				require.NoError(s, err)
			}
			var g errgroup.Group
			for i := range 8 {
				sem := s.semaphore([]*farsync.Store{one, two}[i%2], size)
				g.Go(func() error {
					lease, err := acquire(sem)
					if err != nil {
						return err
					}
					_ = pause.For(ctx, time.Millisecond)
					return release(lease)
				})
			}
			require.NoError(s, g.Wait())
			if first != nil {
				require.NoError(s, release(first))
			}
			s.sizeIs(one, size, size)
			s.until(one, 0)
			s.until(two, 0)
		}
	}},
	{"SizesAreNeverMixed", "in the middle of a deployment some declare the old size and some the new", func(s *scene) {
		one, two, ctx := s.client(), s.client(), s.ctx()
		var mu sync.Mutex
		held := map[int64]int64{} // by the size that was declared
		var g errgroup.Group
		for i := range 4 {
			size := int64(2 + i%2)
			sem := s.semaphore([]*farsync.Store{one, two}[i/2], size)
			add := func(units int64) {
				mu.Lock()
				defer mu.Unlock()
				if held[size] += units; held[size] > size || held[5-size] > 0 && units > 0 {
					s.Errorf("by the size of 2 %d are held, and by that of 3 %d", held[2], held[3])
				}
			}
			g.Go(func() error {
				for range 6 {
					n := 1 + rand.Int64N(2)
					lease, err := sem.Acquire(ctx, n)
					if errors.Is(err, farsync.ErrSize) {
						continue
					}
					if err != nil {
						return err
					}
					add(n)
					_ = pause.For(ctx, time.Millisecond)
					add(-n)
					if err := giveBack(lease); err != nil {
						return err
					}
					_ = pause.For(ctx, rand.N(5*time.Millisecond))
				}
				return nil
			})
		}
		require.NoError(s, g.Wait())
		s.until(one, 0)
	}},
	{"SizeIsSetBeforeUse", "an administrator may be there before its users", func(s *scene) {
		one, two := s.client(), s.client()
		require.NoError(s, s.semaphore(one, 5).Resize(s.ctx(), 8))
		s.sizeIsShown(two, 5, 8)
		lease := s.take(units(s.semaphore(two, 5), 8))
		s.sizeIs(one, 5, 8)
		s.release(lease)
		s.sizeStays(one, 5, 8)
	}},
	{"SizeIsSetAgain", "the same size once more is no change of what is declared", func(s *scene) {
		one := s.client()
		lease := s.take(units(s.semaphore(one, 5), 1))
		for _, size := range []int64{9, 9, 5, 1} {
			require.NoError(s, s.semaphore(one, 5).Resize(s.ctx(), size))
			s.sizeIs(one, 5, size)
		}
		s.release(lease)
	}},
	{"SizeLoweredCountsForThoseBehind", "holders go on, and newcomers wait until there is room", func(s *scene) {
		one, two := s.client(), s.client()
		first, second := s.take(units(s.semaphore(one, 5), 3)), s.take(units(s.semaphore(two, 5), 2))
		require.NoError(s, s.semaphore(two, 5).Resize(s.ctx(), 2))
		require.NoError(s, first.Err())
		third := s.locking(units(s.semaphore(one, 5), 1))
		s.until(two, 3)
		s.release(first)
		s.until(two, 2)
		third.waits()
		s.release(second)
		s.release(third.got())
		s.until(two, 0)
	}},
}

// sizeStays is sizeIs for a queue that has been used, and is empty. A service may forget the size of such a queue.
func (s *scene) sizeStays(store *farsync.Store, declared, current int64) {
	s.Helper()
	if !s.Forgets {
		s.sizeIs(store, declared, current)
	}
}

// sizeIsShown makes sure that a semaphore that is declared with that size says that it has so many units. No entry joins.
func (s *scene) sizeIsShown(store *farsync.Store, declared, current int64) {
	s.Helper()
	sem := s.semaphore(store, declared)
	size, err := sem.Size(s.ctx())
	require.NoError(s, err)
	require.Equal(s, current, size)
	_, err = sem.TryAcquire(s.ctx(), current+1)
	require.ErrorIs(s, err, farsync.ErrTooLarge)
}

// sizeIs makes sure that a semaphore that is declared with that size has so many units, and says so.
func (s *scene) sizeIs(store *farsync.Store, declared, current int64) {
	s.Helper()
	s.sizeIsShown(store, declared, current)
	sem := s.semaphore(store, declared)
	if lease, err := sem.TryAcquire(s.ctx(), current); err == nil {
		s.release(lease)
	} else {
		require.ErrorIs(s, err, farsync.ErrLocked)
	}
}
