package locktest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
)

// storeRows are what a Store promises to all primitives alike.
var storeRows = []row{
	{"StoreKeepsQueuesApart", "a lock on /a that blocks /a/b, or is blocked by it, is another lock than it was asked for", func(s *scene) {
		one, two := s.client(), s.client()
		var held []*farsync.Lease
		for _, path := range []string{s.path + "/b", s.path, s.path + "b", s.path + "/b/exclusive-1"} {
			held = append(held, s.take(farsync.NewMutex(one, path).TryLock))
			_, err := farsync.NewMutex(two, path).TryLock(s.ctx())
			require.ErrorIs(s, err, farsync.ErrLocked, path)
			require.Equal(s, held[len(held)-1].Token().Revision(), s.untilAt(two, path, 1)[0].Revision)
		}
		for _, lease := range held {
			s.release(lease)
		}
	}},
	{"StoreRevisionsIncrease", "a resource that checks tokens refuses a holder whose token went back", func(s *scene) {
		one, two := s.client(), s.client()
		var last farsync.Token
		for i := range 6 { // the queue is empty in between, and must not begin to count anew
			lease := s.lock(s.mutex([]*farsync.Store{one, two}[i%2]))
			require.Greater(s, lease.Token().Revision(), last.Revision())
			last = lease.Token()
			s.release(lease)
			s.until(one, 0)
		}
	}},
	{"StoreRemovesOnlyItsOwn", "to remove another's entry is to hand out the lock twice", func(s *scene) {
		one := s.client()
		sem := s.semaphore(one, 3)
		leases := []*farsync.Lease{s.take(units(sem, 1)), s.take(units(sem, 1)), s.take(units(sem, 1))}
		s.release(leases[1])
		list := s.until(one, 2)
		require.Equal(s, leases[0].Token().Revision(), list[0].Revision)
		require.Equal(s, leases[2].Token().Revision(), list[1].Revision)
		s.release(leases[2])
		s.release(leases[0])
	}},
	{"StoreLeavesNothingOfCancelledCalls", "an entry that no client knows of blocks all of them for as long as the session lives",
		func(s *scene) {
			one, two := s.client(), s.client()
			cause := errors.New("enough")
			for range 20 {
				ctx, cancel := context.WithCancelCause(s.ctx())
				done := make(chan error, 1)
				mu := s.mutex(one)
				go func() {
					lease, err := mu.Lock(ctx)
					if err == nil {
						err = giveBack(lease)
					}
					done <- err
				}()
				cancel(cause)
				if err := <-done; err != nil {
					require.ErrorIs(s, err, context.Canceled)
					require.ErrorIs(s, err, cause)
				}
			}
			s.until(two, 0)
			s.release(s.lock(s.mutex(one))) // a request of a call above may come as late as now, and its entry is removed then
		}},
	{"StoreRefusesAnEndedContext", "a caller that has given up gets its goroutine back, and has asked for nothing", func(s *scene) {
		one, two := s.client(), s.client()
		holder := s.lock(s.mutex(two))
		for name, call := range s.calls(one) {
			require.ErrorIs(s, call(canceled()), context.Canceled, name)
		}
		require.Len(s, s.until(two, 1), 1)
		s.release(holder)
		s.until(two, 0)
	}},
	{"StoreWaitersAreOnTheirOwn", "a waiter that gives up takes no other's wake-up along, and one event is for all waiters", func(s *scene) {
		one, two := s.client(), s.client()
		writer := s.take(s.rw(two).Lock)
		var readers []*locking
		for i := range 20 { // each with a place of its own
			readers = append(readers, s.locking(apart(s.rw(one).RLock)))
			s.until(two, 2+i)
		}
		readers[7].cancel()
		<-readers[7].done
		require.ErrorIs(s, readers[7].err, context.Canceled)
		for i, r := range readers {
			if i != 7 {
				r.waits()
			}
		}
		s.release(writer)
		for i, r := range readers {
			if i != 7 {
				s.release(r.got())
			}
		}
		s.until(two, 0)
	}},
	{"StoreRenews", "a holder that is well keeps its lock", func(s *scene) {
		one, two := s.client(), s.client()
		lease := s.lock(s.mutex(one))
		first := lease.Deadline()
		require.True(s, first.After(time.Now()))
		timer := time.NewTimer(time.Until(first) + time.Until(first)/2)
		defer timer.Stop()
		select {
		case <-lease.Done():
		case <-timer.C:
		}
		require.NoError(s, lease.Err())
		require.True(s, lease.Deadline().After(first))
		connected(s, one)
		require.Equal(s, lease.Token().Revision(), s.until(two, 1)[0].Revision)
		s.release(lease)
	}},
	{"StoreReplacesALostSession", "a holder is told that it holds no more, and its Store goes on", func(s *scene) {
		one, two := s.client(), s.client()
		lease := s.lock(s.mutex(one))
		s.Expire(s.T, one)
		<-lease.Done()
		require.ErrorIs(s, lease.Err(), farsync.ErrLost)
		require.NotErrorIs(s, lease.Err(), farsync.ErrClosed)
		s.until(two, 0)
		again := s.lock(s.mutex(one))
		connected(s, one)
		require.Greater(s, again.Token().Revision(), lease.Token().Revision())
		require.ErrorIs(s, lease.Release(), farsync.ErrLost)
		require.NoError(s, again.Err())
		require.Equal(s, again.Token().Revision(), s.until(two, 1)[0].Revision)
		s.release(again)
	}},
	{"StoreJoinsInTheNextSession", "it may not know that the session is over: nothing may be held under the dead one", func(s *scene) {
		one, two := s.client(), s.client()
		old := farsync.NewMutex(one, s.path+"-old")
		lease := s.lock(old)
		s.Expire(s.T, one)
		next := s.lock(s.mutex(one))
		<-lease.Done()
		require.NoError(s, next.Err())
		require.Equal(s, next.Token().Revision(), s.until(two, 1)[0].Revision)
		s.untilAt(two, s.path+"-old", 0)
		require.ErrorIs(s, lease.Release(), farsync.ErrLost)
		s.release(next)
	}},
	{"StoreLosesItsOwnSessionOnly", "the loss of one client's session is nothing to the others", func(s *scene) {
		one, two := s.client(), s.client()
		first := s.lock(s.mutex(one))
		other := s.lock(farsync.NewMutex(two, s.path+"-other"))
		behind := s.locking(s.mutex(two).Lock)
		s.until(two, 2)
		s.Expire(s.T, one)
		<-first.Done()
		s.release(behind.got())
		require.NoError(s, other.Err())
		s.release(other)
		require.ErrorIs(s, first.Release(), farsync.ErrLost)
	}},
	{"StoreReleasesAnExpiredLease", "a release after the loss of the session must not wait for another client", func(s *scene) {
		one, two := s.client(), s.client()
		first, second := s.lock(s.mutex(one)), s.lock(farsync.NewMutex(one, s.path+"-other"))
		s.Expire(s.T, one)
		s.until(two, 0)
		// The Store may know, or see that the entry is gone; or a connection may break on it, and it cannot tell.
		if err := first.Release(); err != nil {
			require.ErrorIs(s, err, farsync.ErrLost)
		}
		<-second.Done()
		require.ErrorIs(s, second.Release(), farsync.ErrLost)
	}},
	{"StoreCloseEndsCalls", "a Close that waits for the waiters of a lock never returns", func(s *scene) {
		one, two := s.client(), s.client()
		holder := s.lock(s.mutex(two))
		waiting := s.locking(s.mutex(one).Lock)
		list := s.until(two, 2)
		require.Equal(s, driver.Exclusive, list[1].Kind)
		lease := s.lock(farsync.NewMutex(one, s.path+"-held"))
		lease.Asked()
		var calls errgroup.Group
		for name, call := range s.calls(one) {
			calls.Go(func() error {
				for {
					if err := call(s.ctx()); err != nil && !errors.Is(err, farsync.ErrLocked) {
						if !errors.Is(err, farsync.ErrClosed) || errors.Is(err, farsync.ErrLost) {
							return errors.Join(errors.New(name), err)
						}
						return nil
					}
				}
			})
		}
		require.NoError(s, one.Close())
		<-waiting.done
		require.ErrorIs(s, waiting.err, farsync.ErrClosed)
		require.NoError(s, calls.Wait())
		require.ErrorIs(s, lease.Err(), farsync.ErrClosed)
		require.NotErrorIs(s, lease.Err(), farsync.ErrLost)
		s.release(holder)
		s.until(two, 0)
	}},
	{"StoreClosedRefuses", "the caller can tell a Store that was closed from a service that is down", func(s *scene) {
		one := s.client()
		lease := s.lock(s.mutex(one))
		require.NoError(s, one.Close())
		require.NoError(s, one.Close())
		for name, call := range s.calls(one) {
			require.ErrorIs(s, call(s.ctx()), farsync.ErrClosed, name)
		}
		require.ErrorIs(s, lease.Release(), farsync.ErrClosed)
	}},
	{"StoreKeepsValues", "what an entry says has to come out as it went in, in other processes", func(s *scene) {
		one, two := s.client(), s.client()
		e := s.election(one)
		long := strings.Repeat("x", 64<<10)
		for _, value := range []string{"it \x00 é /\n=", long} {
			lease := s.take(func(ctx context.Context) (*farsync.Lease, error) { return e.Campaign(ctx, value) })
			list := s.until(two, 1)
			require.Equal(s, driver.Candidate, list[0].Kind)
			require.Zero(s, strings.Compare(value, string(list[0].Value)))
			if !list[0].Since.IsZero() { // etcd keeps the value of a candidate and nothing else
				require.WithinDuration(s, time.Now(), list[0].Since, time.Hour)
			}
			_, err := e.Campaign(s.ctx(), long+"x")
			require.Error(s, err, "one byte too many")
			require.NotErrorIs(s, err, context.DeadlineExceeded)
			require.Error(s, e.Proclaim(s.ctx(), lease, long+"x"))
			require.NoError(s, lease.Err())
			require.Zero(s, strings.Compare(value, string(s.until(two, 1)[0].Value)))
			s.release(lease)
		}
	}},
	{"StoreChangesNothingOfALostSession", "a leader whose session is over must not speak as one", func(s *scene) {
		one, two := s.client(), s.client()
		e := s.election(one)
		lease := s.take(campaign(e, "one"))
		s.Expire(s.T, one)
		s.until(two, 0)
		// The Store may know, or see that the entry is gone; or a connection may break on it, and it cannot tell.
		if err := e.Proclaim(s.ctx(), lease, "two"); !errors.Is(err, farsync.ErrUncertain) {
			require.ErrorIs(s, err, farsync.ErrLost)
		}
		s.until(two, 0)
		<-lease.Done()
		require.ErrorIs(s, e.Proclaim(s.ctx(), lease, "three"), farsync.ErrLost)
		s.until(two, 0)
		require.ErrorIs(s, lease.Release(), farsync.ErrLost)
	}},
}

// calls returns calls that ask the service, on several queues. An Exclusive elsewhere holds the queue of the scene, or no
// client does. No call leaves anything, and no call waits long for another.
func (s *scene) calls(store *farsync.Store) map[string]func(context.Context) error {
	released := func(get func(context.Context) (*farsync.Lease, error)) func(context.Context) error {
		return func(ctx context.Context) error {
			lease, err := get(ctx)
			if err != nil {
				return err
			}
			return giveBack(lease)
		}
	}
	free := func(kind string) string { return s.path + "-" + kind }
	sem, e := farsync.NewSemaphore(store, free("permit"), 3), farsync.NewElection(store, free("candidate"))
	return map[string]func(context.Context) error{
		"Lock":                        released(farsync.NewMutex(store, free("exclusive")).Lock),
		"TryLock":                     released(s.mutex(store).TryLock),
		"RLock":                       released(farsync.NewRWMutex(store, free("read")).RLock),
		"Acquire":                     released(units(sem, 2)),
		"TryAcquire":                  released(func(ctx context.Context) (*farsync.Lease, error) { return sem.TryAcquire(ctx, 1) }),
		"Resize":                      func(ctx context.Context) error { return sem.Resize(ctx, 3) },
		"Campaign":                    released(campaign(e, "value")),
		"Leader":                      func(ctx context.Context) error { _, err := e.Leader(ctx); return known(err) },
		"Participants":                func(ctx context.Context) error { _, err := store.Participants(ctx, s.path); return err },
		"Participants of a semaphore": func(ctx context.Context) error { _, err := store.Participants(ctx, free("permit")); return err },
		"Ask":                         func(ctx context.Context) error { return store.Ask(ctx, s.path) },
		"Observe": func(ctx context.Context) (last error) {
			for _, err := range e.Observe(ctx) {
				return err
			}
			return nil
		},
	}
}

// connected waits until the Store is: it is not for a moment where a renewal has to be sent again.
func connected(s *scene, store *farsync.Store) {
	s.Helper()
	require.Eventually(s, func() bool { return store.State() == farsync.StateConnected }, soon, 10*time.Millisecond)
}

// known is nil for the answer that there is no leader.
func known(err error) error {
	if errors.Is(err, farsync.ErrNoLeader) {
		return nil
	}
	return err
}
