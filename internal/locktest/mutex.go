package locktest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
)

var errStop = errors.New("stopped")

var mutexRows = []row{
	{"MutexExcludes", "two clients that both hold are what all of this is to prevent", func(s *scene) {
		one, two := s.client(), s.client()
		first := s.lock(s.mutex(one))
		_, err := s.mutex(two).TryLock(s.ctx())
		require.ErrorIs(s, err, farsync.ErrLocked)
		behind := s.locking(s.mutex(two).Lock)
		s.until(one, 2)
		behind.waits()
		s.release(first)
		second := behind.got()
		require.Greater(s, second.Token(), first.Token())
		require.ErrorIs(s, first.Err(), farsync.ErrReleased)
		s.release(second)
		s.until(one, 0)
	}},
	{"MutexOfOneStoreExcludes", "two values on one path in one process are two contenders, not one that enters twice", func(s *scene) {
		one := s.client()
		first := s.lock(s.mutex(one))
		behind := s.locking(s.mutex(one).Lock)
		s.until(one, 2)
		behind.waits()
		s.release(first)
		s.release(behind.got())
	}},
	{"MutexLosesNoAdd", "many goroutines on shared values and several clients at once is how it is used", func(s *scene) {
		var number atomic.Int64
		var last atomic.Int64
		var all sync.WaitGroup
		section := NewSection(s, 1)
		const clients, goroutines, adds = 3, 4, 6
		for range clients {
			mu := s.mutex(s.client())
			for range goroutines {
				all.Go(func() {
					for range adds {
						lease, err := mu.Lock(s.ctx())
						if err != nil {
							s.Error(err)
							return
						}
						// Read, add, write: a second holder in between would be lost. The token is checked in the same way.
						n, token := number.Load(), last.Load()
						if int64(lease.Token()) <= token {
							s.Errorf("token %d after %d", lease.Token(), token)
						}
						section.Visit(s.Context(), lease, 1)
						last.Store(int64(lease.Token()))
						number.Store(n + 1)
						if err := giveBack(lease); err != nil {
							s.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		require.EqualValues(s, clients*goroutines*adds, number.Load())
	}},
	{"MutexIsFair", "the first to come is the first to be served, and every client can see the order", func(s *scene) {
		looker := s.client()
		holder := s.lock(s.mutex(looker))
		var waiting []*locking
		for i := range 4 {
			waiting = append(waiting, s.locking(s.mutex(s.client()).Lock))
			s.until(looker, i+2)
		}
		list, err := looker.Participants(s.ctx(), s.path)
		require.NoError(s, err)
		require.Len(s, list, 5)
		for i, p := range list {
			require.Equal(s, i == 0, p.Held)
			require.NotEmpty(s, p.Holder)
			require.NotZero(s, p.Since)
		}
		require.Equal(s, holder.Token(), list[0].Token)
		s.release(holder)
		for i, w := range waiting {
			lease := w.got()
			require.Equal(s, list[i+1].Token, lease.Token())
			for _, later := range waiting[i+1:] {
				later.waits()
			}
			s.release(lease)
		}
	}},
	{"MutexSkipsWhoGaveUp", "a waiter that was cancelled must neither block those behind it nor let them in early", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		holder := s.lock(s.mutex(one))
		second := s.locking(s.mutex(two).Lock)
		s.until(one, 2)
		third := s.locking(s.mutex(three).Lock)
		s.until(one, 3)
		second.cancel()
		<-second.done
		require.ErrorIs(s, second.err, context.Canceled)
		s.until(one, 2)
		third.waits()
		s.release(holder)
		s.release(third.got())
		s.until(one, 0)
	}},
	{"MutexIsFreedWithItsSession", "a holder that died must not hold for ever, and one that did not must know", func(s *scene) {
		one, two := s.client(), s.client()
		mu := s.mutex(one)
		first := s.lock(mu)
		under, cancel := first.Context(s.ctx())
		defer cancel()
		behind := s.locking(s.mutex(two).Lock)
		s.until(two, 2)
		s.Expire(s.T, one)
		second := behind.got()
		require.Greater(s, second.Token(), first.Token())
		<-under.Done()
		require.ErrorIs(s, context.Cause(under), farsync.ErrLost)
		require.ErrorIs(s, first.Err(), farsync.ErrLost)
		require.ErrorIs(s, first.Release(), farsync.ErrLost)
		again := s.locking(mu.Lock)
		s.until(two, 2)
		s.release(second)
		third := again.got()
		require.Greater(s, third.Token(), second.Token(), "the store goes on in a new session")
		s.release(third)
	}},
	{"MutexWaiterNeverHoldsOnALostSession", "an entry of a dead session belongs to no client (CURATOR-604)", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		holder := s.lock(s.mutex(one))
		behind := s.locking(s.mutex(two).Lock)
		before := s.until(one, 2)
		s.Expire(s.T, two)
		last := s.locking(s.mutex(three).Lock)
		s.release(holder)
		// Both are served, in whatever order, and hold on entries that are there.
		for range 2 {
			var lease *farsync.Lease
			select {
			case <-behind.done:
				lease = behind.got()
				behind.done = nil
			case <-last.done:
				lease = last.got()
				last.done = nil
			}
			require.NoError(s, lease.Err())
			require.Greater(s, lease.Token().Revision(), before[1].Revision)
			list, err := three.Participants(s.ctx(), s.path)
			require.NoError(s, err)
			require.Equal(s, lease.Token(), list[0].Token, "the holder is at the head of the queue")
			s.release(lease)
		}
		behind.done, last.done = closed, closed
	}},
	{"MutexWaiterJoinsAgain", "an operator cleans up by hand, and a waiter must not wait for ever without a place", func(s *scene) {
		one, two := s.client(), s.client()
		holder := s.lock(s.mutex(one))
		behind := s.locking(s.mutex(two).Lock)
		list := s.until(one, 2)
		s.Delete(s.T, list[1])
		s.release(holder)
		lease := behind.got()
		require.Greater(s, lease.Token().Revision(), list[1].Revision)
		s.release(lease)
	}},
	{"MutexReleaseTellsOfARemovedEntry", "what was done under it may have been done beside another holder", func(s *scene) {
		one := s.client()
		mu := s.mutex(one)
		lease := s.lock(mu)
		s.Delete(s.T, s.until(one, 1)[0])
		require.ErrorIs(s, lease.Release(), farsync.ErrLost)
		s.release(s.lock(mu))
	}},
	{"MutexHolderIsToldOfARemovedEntry", "a holder that goes on until it releases does so beside the next", func(s *scene) {
		one, two := s.client(), s.client()
		other := s.lock(farsync.NewMutex(one, s.path+"-other"))
		lease := s.lock(s.mutex(one))
		behind := s.locking(s.mutex(two).Lock)
		s.Delete(s.T, s.until(two, 2)[0])
		next := behind.got()
		<-lease.Done()
		require.ErrorIs(s, lease.Err(), farsync.ErrLost)
		require.ErrorIs(s, lease.Release(), farsync.ErrLost)
		require.NoError(s, other.Err(), "the session is well")
		require.NoError(s, next.Err())
		s.release(next)
		s.release(other)
	}},
	{"MutexIsFreedByClose", "a program that ends in good order does not make others wait for the TTL", func(s *scene) {
		one, two := s.client(), s.client()
		lease := s.lock(s.mutex(one))
		waits := s.locking(s.mutex(one).Lock)
		behind := s.locking(s.mutex(two).Lock)
		s.until(two, 3)
		require.NoError(s, one.Close())
		require.ErrorIs(s, lease.Err(), farsync.ErrClosed)
		<-waits.done
		require.ErrorIs(s, waits.err, farsync.ErrClosed)
		s.release(behind.got())
		s.until(two, 0)
	}},
	{"MutexWaitsForStrangers", "other programs in the queue are entitled to their turn", func(s *scene) {
		one := s.client()
		foreign := s.Foreign(s.T, s.path)
		mu := s.mutex(one)
		_, err := mu.TryLock(s.ctx())
		require.ErrorIs(s, err, farsync.ErrLocked)
		behind := s.locking(mu.Lock)
		s.until(one, 2)
		behind.waits()
		s.Delete(s.T, foreign)
		s.release(behind.got())
	}},
	{"MutexNamesWhatBlocksForEver", "an entry that no session will end needs a person, and a person needs its name", func(s *scene) {
		one := s.client()
		stray := s.Stray(s.T, s.path)
		_, err := s.mutex(one).Lock(s.ctx())
		require.ErrorContains(s, err, stray.ID)
		require.NotErrorIs(s, err, context.DeadlineExceeded)
		s.Delete(s.T, stray)
		s.until(one, 0)
		s.release(s.lock(s.mutex(one)))
	}},
	{"MutexShowsWhatBlocksForEver", "who is called at night needs the holder, and beside it what keeps all others out", func(s *scene) {
		one, two := s.client(), s.client()
		lease := s.lock(s.mutex(one))
		stray := s.Stray(s.T, s.path)
		list, err := two.Participants(s.ctx(), s.path)
		for len(list) < 2 { // a look may be answered by a server that is behind
			require.NoError(s, err)
			require.NoError(s, pause.For(s.ctx(), 5*time.Millisecond))
			list, err = two.Participants(s.ctx(), s.path)
		}
		if err != nil {
			require.ErrorContains(s, err, stray.ID)
		}
		require.Len(s, list, 2)
		require.True(s, list[0].Held)
		require.Equal(s, lease.Token(), list[0].Token)
		require.Equal(s, stray.ID, list[1].ID)
		require.Empty(s, list[1].Session)
		require.False(s, list[1].Held)
		for lock, odd := range two.Survey(s.ctx(), s.path) {
			require.NoError(s, odd)
			require.Equal(s, list, lock.Participants, "a look at all queues shows what a look at one does")
			if err == nil {
				require.NoError(s, lock.Err)
			} else {
				require.ErrorContains(s, err, lock.Err.Error())
			}
		}
		_, err = s.mutex(two).Lock(s.ctx())
		require.ErrorContains(s, err, stray.ID, "at once, and not when the holder releases")
		require.NotErrorIs(s, err, context.DeadlineExceeded)
		try := func() {
			if _, err = s.mutex(two).TryLock(s.ctx()); errors.Is(err, farsync.ErrLocked) {
				require.ErrorContains(s, err, "held by", "a driver may show a Try the entry ahead alone")
			} else {
				require.ErrorContains(s, err, stray.ID)
			}
		}
		try()
		s.release(lease)
		try()
		_, err = s.mutex(two).Lock(s.ctx())
		require.ErrorContains(s, err, stray.ID)
		s.Delete(s.T, stray)
		s.until(two, 0)
		s.release(s.lock(s.mutex(two)))
	}},
	{"MutexDoReportsALoss", "a success under a lost lock is none", func(s *scene) {
		one := s.client()
		err := s.mutex(one).Do(s.ctx(), func(ctx context.Context, _ *farsync.Lease) error {
			s.Expire(s.T, one)
			<-ctx.Done()
			return errStop
		})
		require.ErrorIs(s, err, farsync.ErrLost)
		require.ErrorIs(s, err, errStop)
	}},
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
