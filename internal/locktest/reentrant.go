package locktest

import (
	"context"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

func (s *scene) reentrant(store *farsync.Store) *farsync.ReentrantMutex {
	return farsync.NewReentrantMutex(store, s.path)
}

// take gets a lease, which must succeed.
func (s *scene) take(get func(context.Context) (*farsync.Lease, error)) *farsync.Lease {
	s.Helper()
	lease, err := get(s.ctx())
	require.NoError(s, err)
	return lease
}

var reentrantRows = []row{
	{"ReentrantCounts", "code that locks is called from code that has locked; the first to leave is not always the last that came",
		func(s *scene) {
			one, two := s.client(), s.client()
			mu, other := s.reentrant(one), s.reentrant(two)
			leases := []*farsync.Lease{s.take(mu.Lock), s.take(mu.TryLock), s.take(mu.Lock)}
			behind := s.locking(other.Lock)
			s.until(one, 2)
			for i, lease := range leases {
				require.NoError(s, lease.Err())
				require.Equal(s, leases[0].Token(), lease.Token())
				_, err := other.TryLock(s.ctx())
				require.ErrorIs(s, err, farsync.ErrLocked)
				behind.waits()
				s.release(lease)
				require.ErrorIs(s, lease.Err(), farsync.ErrReleased)
				require.ErrorIs(s, lease.Release(), farsync.ErrReleased, "a second release counts nothing down")
				if i < len(leases)-1 {
					require.NoError(s, leases[i+1].Err())
				}
			}
			next := behind.got()
			require.Greater(s, next.Token(), leases[0].Token())
			s.release(next)
			again := s.take(mu.Lock)
			require.Greater(s, again.Token(), next.Token(), "it begins anew")
			s.release(again)
			s.until(one, 0)
		}},
	{"ReentrantCostsNothing", "to enter again must not be a reason to avoid it", func(s *scene) {
		one, two := s.client(), s.client()
		mu := s.reentrant(one)
		first := s.take(mu.Lock)
		before := s.until(two, 1)
		second, third := s.take(mu.Lock), s.take(mu.TryLock)
		require.Equal(s, before, s.until(two, 1))
		s.release(first)
		s.release(third)
		require.Equal(s, before, s.until(two, 1))
		s.release(second)
		s.until(two, 0)
	}},
	{"ReentrantForOneGoroutineOnly", "another goroutine of the process is another owner", func(s *scene) {
		one := s.client()
		mu := s.reentrant(one)
		first := s.take(mu.Lock)
		second := s.take(mu.Lock)
		under, cancel := first.Context(s.ctx())
		defer cancel()
		try := s.locking(func(context.Context) (*farsync.Lease, error) { return mu.TryLock(under) })
		<-try.done
		require.ErrorIs(s, try.err, farsync.ErrDeadlock, "ownership does not travel in a lease's context")
		behind := s.locking(mu.Lock)
		s.release(second)
		behind.waits()
		s.release(first)
		lease := behind.got()
		require.Greater(s, lease.Token(), first.Token())
		s.release(lease)
	}},
	{"ReentrantExcludes", "an owner that enters again shares the lock with itself, and with no other owner", func(s *scene) {
		const clients, goroutines, times = 3, 2, 4
		section := NewSection(s, 1)
		var all sync.WaitGroup
		ctx := s.ctx()
		for range clients {
			mu := s.reentrant(s.client())
			for range goroutines {
				all.Go(func() {
					for range times {
						outer, err := mu.Lock(ctx)
						if err != nil {
							s.Error(err)
							return
						}
						inner, err := mu.Lock(ctx)
						if err != nil {
							s.Error(err)
							return
						}
						// The lock is held until both leases are released, in whatever order.
						if err := giveBack(outer); err != nil {
							s.Error(err)
						}
						section.Visit(ctx, inner, 1)
						if err := giveBack(inner); err != nil {
							s.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		s.until(s.client(), 0)
	}},
	{"ReentrantStandsInOneQueueWithMutex", "it is the same lock, told by its path", func(s *scene) {
		one, two := s.client(), s.client()
		first := s.take(s.reentrant(one).Lock)
		behind := s.locking(s.mutex(two).Lock)
		s.until(one, 2)
		behind.waits()
		s.release(first)
		lease := behind.got()
		_, err := s.reentrant(one).TryLock(s.ctx())
		require.ErrorIs(s, err, farsync.ErrLocked)
		s.release(lease)
	}},
	{"ReentrantOwnerInManyGoroutines", "work that spreads is one owner, also when its goroutines all come first",
		func(s *scene) {
			one := s.client()
			mu := s.reentrant(one)
			ctx := farsync.WithOwner(s.ctx())
			const goroutines = 8
			leases := make([]*farsync.Lease, goroutines)
			var all sync.WaitGroup
			for i := range leases {
				all.Go(func() { leases[i], _ = mu.Lock(ctx) })
			}
			all.Wait()
			for _, lease := range leases {
				require.NotNil(s, lease)
				require.Equal(s, leases[0].Token(), lease.Token())
			}
			list := s.until(one, 1)
			require.Equal(s, list[0].Revision, leases[0].Token().Revision(), "one of them goes for all")
			_, err := mu.TryLock(s.ctx())
			require.ErrorIs(s, err, farsync.ErrLocked, "this goroutine is none of that owner without the context")
			_, err = mu.TryLock(farsync.WithOwner(ctx))
			require.ErrorIs(s, err, farsync.ErrLocked, "nor is another owner")
			for _, lease := range leases[1:] {
				all.Go(func() { s.release(lease) })
			}
			all.Wait()
			require.NoError(s, leases[0].Err())
			behind := s.locking(mu.Lock)
			again := s.take(func(context.Context) (*farsync.Lease, error) { return mu.TryLock(ctx) })
			s.release(leases[0])
			behind.waits()
			s.release(again)
			s.release(behind.got())
			s.until(one, 0)
		}},
	{"ReentrantOwnerWhoseFirstGivesUp", "the others of an owner must not wait for one that has gone", func(s *scene) {
		one, two := s.client(), s.client()
		holder := s.take(s.reentrant(two).Lock)
		mu := s.reentrant(one)
		owner := farsync.WithOwner(context.Background())
		first := s.locking(func(ctx context.Context) (*farsync.Lease, error) {
			mine, cancel := context.WithCancel(owner)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return mu.Lock(mine)
		})
		s.until(one, 2)
		_, err := mu.TryLock(owner)
		require.ErrorIs(s, err, farsync.ErrLocked, "the owner does not hold yet")
		second := s.locking(func(context.Context) (*farsync.Lease, error) { return mu.Lock(owner) })
		first.cancel()
		<-first.done
		require.ErrorIs(s, first.err, context.Canceled)
		s.release(holder)
		s.release(second.got())
		s.until(one, 0)
	}},
	{"ReentrantReleasedByAnotherGoroutine", "a lease may be given to the goroutine that ends the work", func(s *scene) {
		one := s.client()
		mu := s.reentrant(one)
		first, second := s.take(mu.Lock), s.take(mu.Lock)
		done := make(chan error)
		go func() { done <- giveBack(first) }()
		require.NoError(s, <-done)
		require.NoError(s, second.Err(), "it counts down for the owner that got it")
		go func() { done <- giveBack(second) }()
		require.NoError(s, <-done)
		s.until(one, 0)
		again := s.take(mu.Lock)
		require.Greater(s, again.Token(), first.Token())
		s.release(again)
	}},
	{"ReentrantNeverOnALostSession", "to enter again on a lock that is lost is to work beside its new holder", func(s *scene) {
		one, two := s.client(), s.client()
		mu := s.reentrant(one)
		first, second := s.take(mu.Lock), s.take(mu.Lock)
		s.Expire(s.T, one)
		<-second.Done()
		for _, lock := range []func(context.Context) (*farsync.Lease, error){mu.Lock, mu.TryLock} {
			_, err := lock(s.ctx())
			require.ErrorIs(s, err, farsync.ErrLost)
		}
		theirs := s.take(s.reentrant(two).Lock)
		require.ErrorIs(s, first.Release(), farsync.ErrLost)
		_, err := mu.Lock(s.ctx())
		require.ErrorIs(s, err, farsync.ErrLost, "one lease is still to be released")
		require.ErrorIs(s, second.Release(), farsync.ErrLost)
		s.release(theirs)
		again := s.take(mu.Lock)
		require.Greater(s, again.Token(), theirs.Token())
		s.release(again)
	}},
}
