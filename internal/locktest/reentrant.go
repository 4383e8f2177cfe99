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
	{"ReentrantForOneGoroutineOnly", "another goroutine of the process is outside, unless it has the context of a lease", func(s *scene) {
		one := s.client()
		mu := s.reentrant(one)
		first := s.take(mu.Lock)
		second := s.take(mu.Lock)
		try := s.locking(mu.TryLock)
		<-try.done
		require.ErrorIs(s, try.err, farsync.ErrLocked)
		behind := s.locking(mu.Lock)
		s.release(second)
		behind.waits()
		s.release(first)
		lease := behind.got()
		require.Greater(s, lease.Token(), first.Token())
		s.release(lease)
	}},
	{"ReentrantExcludes", "a goroutine that enters again shares the lock with itself, and with no other", func(s *scene) {
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
	{"ReentrantByTheContextOfALease", "work under a lock spreads over goroutines, and they call what locks", func(s *scene) {
		one, two := s.client(), s.client()
		mu := s.reentrant(one)
		outer := s.take(mu.Lock)
		under, cancel := outer.Context(s.ctx())
		defer cancel()
		const goroutines = 8
		leases := make([]*farsync.Lease, goroutines)
		var all sync.WaitGroup
		for i := range leases {
			all.Go(func() { leases[i], _ = s.reentrant(one).Lock(under) }) // a value for each call will do
		}
		all.Wait()
		for _, lease := range leases {
			require.NotNil(s, lease)
			require.Equal(s, outer.Token(), lease.Token())
		}
		s.until(two, 1)
		_, err := s.reentrant(two).TryLock(under)
		require.ErrorIs(s, err, farsync.ErrLocked, "the context stands for a lease on the other Store")
		_, err = s.mutex(one).Lock(under)
		require.ErrorIs(s, err, farsync.ErrDeadlock, "a Mutex is not entered again")
		behind := s.locking(mu.Lock)
		for _, lease := range leases[1:] {
			all.Go(func() { s.release(lease) })
		}
		all.Wait()
		s.release(outer)
		require.NoError(s, leases[0].Err())
		behind.waits()
		_, err = mu.Lock(under)
		require.ErrorIs(s, err, farsync.ErrReleased, "its lease is over, though others hold the lock")
		s.release(leases[0])
		next := behind.got()
		require.Greater(s, next.Token(), outer.Token())
		s.release(next)
		s.until(one, 0)
	}},
	{"ReentrantUnderAnotherLock", "who holds another lock waits with an entry of its own, which is entered again as any other",
		func(s *scene) {
			one, two := s.client(), s.client()
			outer := s.take(farsync.NewMutex(one, s.path+"/outer").Lock)
			under, cancel := outer.Context(s.ctx())
			defer cancel()
			mu := s.reentrant(one)
			first, err := mu.Lock(under)
			require.NoError(s, err)
			within, done := first.Context(under)
			defer done()
			second, err := mu.Lock(under)
			require.NoError(s, err)
			third := s.locking(func(context.Context) (*farsync.Lease, error) { return mu.Lock(within) }).got()
			require.Equal(s, first.Token(), third.Token())
			s.until(two, 1)
			s.release(first)
			s.release(third)
			_, err = s.mutex(two).TryLock(s.ctx())
			require.ErrorIs(s, err, farsync.ErrLocked)
			s.release(second)
			s.until(two, 0)
			s.release(outer)
		}},
	{"ReentrantReleasedByAnotherGoroutine", "a lease may be given to the goroutine that ends the work", func(s *scene) {
		one := s.client()
		mu := s.reentrant(one)
		first, second := s.take(mu.Lock), s.take(mu.Lock)
		done := make(chan error)
		go func() { done <- giveBack(first) }()
		require.NoError(s, <-done)
		require.NoError(s, second.Err(), "it counts for the goroutine that got it")
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
		under, cancel := second.Context(s.ctx())
		defer cancel()
		s.Expire(s.T, one)
		<-second.Done()
		for _, lock := range []func(context.Context) (*farsync.Lease, error){mu.Lock, mu.TryLock} {
			for _, ctx := range []context.Context{s.ctx(), under, context.WithoutCancel(under)} {
				_, err := lock(ctx)
				require.ErrorIs(s, err, farsync.ErrLost)
			}
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
