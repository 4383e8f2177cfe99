package locktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/farsync/farsync"
)

// The ways to get a lease.
var (
	mutexLock     = func(s *frozenScene, c *farsync.Store) lockFunc { return s.mutex(c).Lock }
	mutexTry      = func(s *frozenScene, c *farsync.Store) lockFunc { return s.mutex(c).TryLock }
	reentrantLock = func(s *frozenScene, c *farsync.Store) lockFunc { return s.reentrant(c).Lock }
	reentrantTry  = func(s *frozenScene, c *farsync.Store) lockFunc { return s.reentrant(c).TryLock }
	rwLock        = func(s *frozenScene, c *farsync.Store) lockFunc { return s.rw(c).Lock }
	rwTry         = func(s *frozenScene, c *farsync.Store) lockFunc { return s.rw(c).TryLock }
	rwRead        = func(s *frozenScene, c *farsync.Store) lockFunc { return s.rw(c).RLock }
	rwTryRead     = func(s *frozenScene, c *farsync.Store) lockFunc { return s.rw(c).TryRLock }
	acquireAll    = func(s *frozenScene, c *farsync.Store) lockFunc { return units(s.semaphore(c, 2), 2) }
	stand         = func(s *frozenScene, c *farsync.Store) lockFunc { return campaign(s.election(c), "frozen") }
	tryAcquireAll = func(s *frozenScene, c *farsync.Store) lockFunc {
		return func(ctx context.Context) (*farsync.Lease, error) { return s.semaphore(c, 2).TryAcquire(ctx, 2) }
	}
)

// by has the holders hold by get, and calls what looks at it.
func by(
	get func(*frozenScene, *farsync.Store) lockFunc, call func(ctx context.Context, s *frozenScene) error,
) func(*frozenScene) func(context.Context) error {
	return held(
		func(s *frozenScene) *farsync.Lease { return s.take(get(s, s.holders)) },
		func(ctx context.Context, s *frozenScene, _ *farsync.Lease) error { return call(ctx, s) },
	)
}

// shortLease is a lease for a call that no ctx governs.
func shortLease(s *frozenScene) *farsync.Lease { return s.take(mutexLock(s, s.short())) }

// release is Release of such a lease, which ends at once although nothing answers.
func release(_ context.Context, s *frozenScene, lease *farsync.Lease) error {
	err := lease.Release()
	if ended := lease.Err(); !errors.Is(ended, farsync.ErrReleased) && !errors.Is(ended, farsync.ErrLost) {
		s.Errorf("a lease that is released says %v", ended)
	}
	return err
}

var late = context.DeadlineExceeded

// frozenRows are the calls of a user. A row's name begins with type and method, and every method that may block has one.
var frozenRows = []frozenRow{
	// More at once than a client library has room for.
	{name: "Mutex.Lock", prepare: free(mutexLock), want: late, times: 40},
	{name: "Mutex.Lock, taken", prepare: taken(mutexLock), want: late},
	{name: "Mutex.Lock, waiting", prepare: waiting(mutexLock), want: context.Canceled},
	{name: "Mutex.TryLock", prepare: free(mutexTry), want: late},
	{name: "Mutex.TryLock, taken", prepare: taken(mutexLock), want: late},
	{name: "Mutex.Do", bound: withRelease, prepare: running(
		func(ctx context.Context, s *frozenScene, c *farsync.Store, fn func(context.Context) error) error {
			return s.mutex(c).Do(ctx, func(ctx context.Context, _ *farsync.Lease) error { return fn(ctx) })
		})},
	{name: "Mutex.Do, taken", want: late, prepare: by(mutexLock, func(ctx context.Context, s *frozenScene) error {
		return s.mutex(s.callers).Do(ctx, func(context.Context, *farsync.Lease) error { return nil })
	})},
	{name: "Mutex.TryDo", bound: withRelease, prepare: running(
		func(ctx context.Context, s *frozenScene, c *farsync.Store, fn func(context.Context) error) error {
			_, err := s.mutex(c).TryDo(ctx, time.Millisecond, func(ctx context.Context, _ *farsync.Lease) error { return fn(ctx) })
			return err
		})},
	{name: "Mutex.Locker", want: late, prepare: by(mutexLock, func(ctx context.Context, s *frozenScene) error {
		return lockOf(func(ctx context.Context) sync.Locker { return s.mutex(s.callers).Locker(ctx, nil) })(ctx)
	})},
	{name: "Mutex.Locker, Unlock", bound: ofRelease, prepare: func(s *frozenScene) func(context.Context) error {
		var err error
		l := s.mutex(s.short()).Locker(context.Background(), func(told error) { err = told })
		l.Lock()
		return func(context.Context) error {
			l.Unlock()
			return err
		}
	}},

	{name: "ReentrantMutex.Lock", prepare: free(reentrantLock), want: late},
	{name: "ReentrantMutex.Lock, waiting", prepare: waiting(reentrantLock), want: context.Canceled},
	{name: "ReentrantMutex.TryLock", prepare: free(reentrantTry), want: late},

	{name: "RWMutex.Lock", prepare: free(rwLock), want: late},
	{name: "RWMutex.Lock, waiting", prepare: waiting(rwLock), want: context.Canceled},
	{name: "RWMutex.TryLock", prepare: free(rwTry), want: late},
	{name: "RWMutex.RLock", prepare: free(rwRead), want: late},
	{name: "RWMutex.RLock, shared", prepare: taken(rwRead), want: late},
	{name: "RWMutex.TryRLock", prepare: free(rwTryRead), want: late},
	{name: "RWMutex.Downgrade", want: late, prepare: held(
		func(s *frozenScene) *farsync.Lease { return s.take(rwLock(s, s.holders)) },
		func(ctx context.Context, s *frozenScene, lease *farsync.Lease) error {
			return s.rw(s.holders).Downgrade(ctx, lease)
		})},
	{name: "RWMutex.Locker", want: late, prepare: by(rwLock, func(ctx context.Context, s *frozenScene) error {
		return lockOf(func(ctx context.Context) sync.Locker { return s.rw(s.callers).Locker(ctx, nil) })(ctx)
	})},
	{name: "RWMutex.RLocker", want: late, prepare: by(rwLock, func(ctx context.Context, s *frozenScene) error {
		return lockOf(func(ctx context.Context) sync.Locker { return s.rw(s.callers).RLocker(ctx, nil) })(ctx)
	})},

	{name: "Semaphore.Acquire", prepare: free(acquireAll), want: late},
	{name: "Semaphore.Acquire, waiting", prepare: waiting(acquireAll), want: context.Canceled},
	{name: "Semaphore.TryAcquire", prepare: free(tryAcquireAll), want: late},
	{name: "Semaphore.Resize", want: late, prepare: by(acquireAll, func(ctx context.Context, s *frozenScene) error {
		return s.semaphore(s.callers, 2).Resize(ctx, 3)
	})},
	{name: "Semaphore.Size", want: late, prepare: by(acquireAll, func(ctx context.Context, s *frozenScene) error {
		_, err := s.semaphore(s.callers, 2).Size(ctx)
		return err
	})},

	{name: "Pool.Go", want: late, prepare: by(acquireAll, func(ctx context.Context, s *frozenScene) error {
		pool := farsync.NewPool(ctx, s.semaphore(s.callers, 2))
		pool.Go(func(context.Context) error { return nil })
		return pool.Wait()
	})},
	{name: "Pool.TryGo", want: late, prepare: by(acquireAll, func(ctx context.Context, s *frozenScene) error {
		pool := farsync.NewPool(ctx, s.semaphore(s.callers, 2))
		pool.TryGo(func(context.Context) error { return nil })
		return pool.Wait()
	})},
	{name: "Pool.Wait", bound: withRelease, prepare: running(
		func(ctx context.Context, s *frozenScene, c *farsync.Store, fn func(context.Context) error) error {
			pool := farsync.NewPool(ctx, s.semaphore(c, 2))
			pool.Go(fn)
			return pool.Wait()
		})},

	{name: "Election.Campaign", prepare: free(stand), want: late},
	{name: "Election.Campaign, waiting", prepare: waiting(stand), want: context.Canceled},
	{name: "Election.Proclaim", want: late, prepare: held(
		func(s *frozenScene) *farsync.Lease { return s.take(stand(s, s.holders)) },
		func(ctx context.Context, s *frozenScene, lease *farsync.Lease) error {
			return s.election(s.holders).Proclaim(ctx, lease, "later")
		})},
	{name: "Election.Lead", bound: withRelease, prepare: running(
		func(ctx context.Context, s *frozenScene, c *farsync.Store, fn func(context.Context) error) error {
			return s.election(c).Lead(ctx, "", func(ctx context.Context, _ *farsync.Lease) error { return fn(ctx) })
		})},
	{name: "Election.Leader", want: late, prepare: by(stand, func(ctx context.Context, s *frozenScene) error {
		_, err := s.election(s.callers).Leader(ctx)
		return err
	})},
	{name: "Election.Observe", want: late, prepare: by(stand, func(ctx context.Context, s *frozenScene) (err error) {
		for _, err = range s.election(s.callers).Observe(ctx) {
		}
		return err
	})},
	{name: "Election.Observe, waiting", want: context.Canceled, prepare: func(s *frozenScene) func(context.Context) error {
		s.take(stand(s, s.holders))
		seen := make(chan struct{})
		saw := sync.OnceFunc(func() { close(seen) })
		call := s.underWay(func(ctx context.Context) (err error) {
			for _, err = range s.election(s.callers).Observe(ctx) {
				saw()
			}
			return err
		})
		s.happens(seen)
		return call
	}},

	{name: "Lease.Do", bound: withRelease, prepare: running(
		func(ctx context.Context, s *frozenScene, c *farsync.Store, fn func(context.Context) error) error {
			lease, err := mutexLock(s, c)(ctx)
			if err != nil {
				return err
			}
			return lease.Do(ctx, func(ctx context.Context, _ *farsync.Lease) error { return fn(ctx) })
		})},
	// Most services have nothing to answer it.
	{name: "Lease.Outlast", bound: func(Frozen) time.Duration { return frozenFor }, prepare: held(
		func(s *frozenScene) *farsync.Lease { return s.take(mutexLock(s, s.holders)) },
		func(ctx context.Context, _ *frozenScene, lease *farsync.Lease) error { return lease.Outlast(ctx) },
	)},
	{name: "Lease.Release", bound: ofRelease, prepare: held(shortLease, release)},
	{name: "Lease.Release, asked", bound: ofRelease, prepare: held(func(s *frozenScene) *farsync.Lease {
		lease := shortLease(s)
		s.notAsked(lease) // it listens
		return lease
	}, release)},
	{name: "Lease.Release, late", bound: ofTTL, prepare: held(shortLease,
		func(ctx context.Context, s *frozenScene, lease *farsync.Lease) error {
			// The deadline stays where it is, for nothing is renewed any more.
			until := lease.Deadline()
			<-time.After(time.Until(until) - 300*time.Millisecond)
			err := lease.Release()
			if over := time.Since(until); over > s.service.Late {
				s.Errorf("a late Release returned %v after its lease had ended", over)
			}
			return err
		})},
}

// frozenMembers are the names of the members of the MultiMutexes.
var frozenMembers = []string{"a", "b", "c"}

// frozenMultiRows are the calls that hold several locks. They give the members back all at once.
var frozenMultiRows = []frozenRow{
	{name: "MultiMutex.Lock", want: late, prepare: func(s *frozenScene) func(context.Context) error {
		multi := farsync.NewMultiMutex(s.members(s.callers, frozenMembers...)...)
		return func(ctx context.Context) error {
			_, err := multi.Lock(ctx)
			return err
		}
	}},
	{name: "MultiMutex.Lock, waiting for the last", want: context.Canceled,
		prepare: func(s *frozenScene) func(context.Context) error {
			last := frozenMembers[len(frozenMembers)-1]
			s.lock(s.members(s.holders, last)[0])
			multi := farsync.NewMultiMutex(s.members(s.callers, frozenMembers...)...)
			call := s.underWay(func(ctx context.Context) error {
				_, err := multi.Lock(ctx)
				return err
			})
			s.untilAt(s.holders, s.path+"/"+last, 2)
			return call
		}},
	{name: "MultiMutex.TryLock", want: late, prepare: func(s *frozenScene) func(context.Context) error {
		multi := farsync.NewMultiMutex(s.members(s.callers, frozenMembers...)...)
		return func(ctx context.Context) error {
			_, err := multi.TryLock(ctx)
			return err
		}
	}},
	{name: "QuorumMutex.Lock", want: late, prepare: func(s *frozenScene) func(context.Context) error {
		quorum := farsync.NewQuorumMutex(s.members(s.callers, "quorum")...)
		return func(ctx context.Context) error {
			_, err := quorum.Lock(ctx)
			return err
		}
	}},
	{name: "QuorumMutex.TryLock", want: late, prepare: func(s *frozenScene) func(context.Context) error {
		quorum := farsync.NewQuorumMutex(s.members(s.callers, "quorum")...)
		return func(ctx context.Context) error {
			_, err := quorum.TryLock(ctx)
			return err
		}
	}},
	{name: "MultiLease.Do", bound: withRelease, prepare: running(
		func(ctx context.Context, s *frozenScene, c *farsync.Store, fn func(context.Context) error) error {
			lease, err := farsync.NewMultiMutex(s.members(c, frozenMembers...)...).Lock(ctx)
			if err != nil {
				return err
			}
			return lease.Do(ctx, func(ctx context.Context, _ *farsync.MultiLease) error { return fn(ctx) })
		})},
	{name: "MultiLease.Release, of a quorum", bound: ofRelease, prepare: held(
		func(s *frozenScene) *farsync.MultiLease {
			lease, err := farsync.NewQuorumMutex(s.members(s.short(), "quorum")...).Lock(s.ctx())
			if err != nil {
				s.Fatal(err)
			}
			return lease
		},
		func(_ context.Context, _ *frozenScene, lease *farsync.MultiLease) error { return lease.Release() })},
	{name: "MultiLease.Release, asked", bound: ofRelease, prepare: held(
		func(s *frozenScene) *farsync.MultiLease {
			lease, err := farsync.NewMultiMutex(s.members(s.short(), frozenMembers...)...).Lock(s.ctx())
			if err != nil {
				s.Fatal(err)
			}
			lease.Asked() // it listens
			return lease
		},
		func(_ context.Context, _ *frozenScene, lease *farsync.MultiLease) error { return lease.Release() })},
	{name: "MultiLease.Release", bound: ofRelease, prepare: held(
		func(s *frozenScene) *farsync.MultiLease {
			lease, err := farsync.NewMultiMutex(s.members(s.short(), frozenMembers...)...).Lock(s.ctx())
			if err != nil {
				s.Fatal(err)
			}
			return lease
		},
		func(_ context.Context, _ *frozenScene, lease *farsync.MultiLease) error { return lease.Release() })},
}
