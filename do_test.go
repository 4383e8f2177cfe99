package farsync_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

var errStop = errors.New("stop")

// A doer runs a function under a lease on /a that is there already.
type doer struct {
	do   func(context.Context, func(context.Context) error) error
	end  func() error // releases the lease, from outside
	done <-chan struct{}
}

var doers = map[string]func(t *testing.T, store *farsync.Store) doer{
	"Mutex":  leaseOf(func(s *farsync.Store) lockFunc { return farsync.NewMutex(s, "/a").Lock }),
	"writer": leaseOf(func(s *farsync.Store) lockFunc { return farsync.NewRWMutex(s, "/a").Lock }),
	"reader": leaseOf(func(s *farsync.Store) lockFunc { return farsync.NewRWMutex(s, "/a").RLock }),
	"unit": leaseOf(func(s *farsync.Store) lockFunc {
		return func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewSemaphore(s, "/a", 1).Acquire(ctx, 1)
		}
	}),
	"ReentrantMutex": leaseOf(func(s *farsync.Store) lockFunc { return farsync.NewReentrantMutex(s, "/a").Lock }),
	"leader": leaseOf(func(s *farsync.Store) lockFunc {
		return func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewElection(s, "/a").Campaign(ctx, "")
		}
	}),
	"MultiMutex": multiLeaseOf(func(s *farsync.Store) multiLockFunc {
		return farsync.NewMultiMutex(farsync.NewMutex(s, "/a"), farsync.NewMutex(s, "/b")).Lock
	}),
	"QuorumMutex": multiLeaseOf(func(s *farsync.Store) multiLockFunc { return farsync.NewQuorumMutex(farsync.NewMutex(s, "/a")).Lock }),
}

type (
	lockFunc      = func(context.Context) (*farsync.Lease, error)
	multiLockFunc = func(context.Context) (*farsync.MultiLease, error)
)

func leaseOf(lock func(*farsync.Store) lockFunc) func(*testing.T, *farsync.Store) doer {
	return func(t *testing.T, store *farsync.Store) doer {
		lease, err := lock(store)(t.Context())
		require.NoError(t, err)
		do := func(ctx context.Context, fn func(context.Context) error) error {
			return lease.Do(ctx, func(ctx context.Context, same *farsync.Lease) error {
				assert.Same(t, lease, same)
				return fn(ctx)
			})
		}
		return doer{do, lease.Release, lease.Done()}
	}
}

func multiLeaseOf(lock func(*farsync.Store) multiLockFunc) func(*testing.T, *farsync.Store) doer {
	return func(t *testing.T, store *farsync.Store) doer {
		lease, err := lock(store)(t.Context())
		require.NoError(t, err)
		do := func(ctx context.Context, fn func(context.Context) error) error {
			return lease.Do(ctx, func(ctx context.Context, same *farsync.MultiLease) error {
				assert.Same(t, lease, same)
				return fn(ctx)
			})
		}
		return doer{do, lease.Release, lease.Done()}
	}
}

// TestDoOfALease: whatever ends it, fn has run under the lease or has not run, the error says which, and nothing is held
// afterwards.
func TestDoOfALease(t *testing.T) {
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	type scene struct {
		*testing.T
		doer

		service *farsynctest.Mem
		store   *farsync.Store
	}
	for name, row := range map[string]struct {
		before func(s *scene)
		ctx    context.Context
		fn     func(s *scene, ctx context.Context) error // nil: it must not run
		want   []error                                   // nil: no error
		not    []error
	}{
		"nothing": {fn: func(s *scene, ctx context.Context) error { return ctx.Err() }},
		"fn": {
			fn:   func(*scene, context.Context) error { return errWork },
			want: []error{errWork}, not: []error{farsync.ErrLost, farsync.ErrReleased},
		},
		"a Release in fn": {fn: func(s *scene, ctx context.Context) error {
			require.NoError(s, s.end())
			<-ctx.Done()
			require.ErrorIs(s, context.Cause(ctx), farsync.ErrReleased)
			return nil
		}},
		"a loss": {
			fn: func(s *scene, ctx context.Context) error {
				s.service.Expire(s.store)
				<-ctx.Done()
				return nil
			},
			want: []error{farsync.ErrLost},
		},
		"a loss, beside an error of fn": {
			fn: func(s *scene, ctx context.Context) error {
				s.service.Expire(s.store)
				<-ctx.Done()
				return errWork
			},
			want: []error{farsync.ErrLost, errWork},
		},
		"a loss, of which only the Release in fn has heard": {
			fn: func(s *scene, ctx context.Context) error {
				s.service.Expire(s.store)
				<-ctx.Done()
				_ = s.end()
				return nil
			},
			want: []error{farsync.ErrLost},
		},
		"Close of the Store": {
			fn:   func(s *scene, _ context.Context) error { return s.store.Close() },
			want: []error{farsync.ErrClosed},
		},
		"a loss before": {
			before: func(s *scene) { s.service.Expire(s.store); <-s.done },
			want:   []error{farsync.ErrLost}, not: []error{farsync.ErrReleased},
		},
		"a Release before": {
			before: func(s *scene) { require.NoError(s, s.end()) },
			want:   []error{farsync.ErrReleased}, not: []error{farsync.ErrLost},
		},
		"Close of the Store before": {
			before: func(s *scene) { require.NoError(s, s.store.Close()) },
			want:   []error{farsync.ErrClosed},
		},
		"ctx, done before": {
			ctx:  canceled,
			want: []error{context.Canceled, errStop}, not: []error{farsync.ErrLost, farsync.ErrReleased},
		},
	} {
		for kind, open := range doers {
			t.Run(name+" ends it, "+kind, func(t *testing.T) {
				bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
					s := &scene{t, open(t, one), service, one}
					if row.before != nil {
						row.before(s)
					}
					ctx := row.ctx
					if ctx == nil {
						ctx = t.Context()
					}
					ran := false
					err := s.do(ctx, func(ctx context.Context) error { ran = true; return row.fn(s, ctx) })
					require.Equal(t, row.fn != nil, ran)
					if row.want == nil {
						require.NoError(t, err)
					}
					for _, want := range row.want {
						require.ErrorIs(t, err, want)
					}
					if _, told := errors.AsType[*farsync.Error](err); err != nil && !errors.Is(err, errWork) {
						require.True(t, told, "%v has operation and path", err)
					}
					for _, not := range row.not {
						require.NotErrorIs(t, err, not)
					}
					require.ErrorIs(t, s.end(), farsync.ErrReleased, "nothing is left to release")
					require.Empty(t, service.Entries("/a"))
				})
			})
		}
	}
}

// TestDoSaysACauseOnce: fn may say why its context ended, and the loss is not said a second time.
func TestDoSaysACauseOnce(t *testing.T) {
	const cause = "lost: the service has ended the session: the service knows no such session"
	for name, row := range map[string]struct {
		fn   func(ctx context.Context, end func()) error
		want string
		is   error
	}{
		"fn succeeds": {func(_ context.Context, end func()) error { end(); return nil }, "farsync: hold /a: " + cause, farsync.ErrLost},
		"fn returns the cause": {
			func(ctx context.Context, end func()) error { end(); return context.Cause(ctx) },
			"farsync: hold /a: " + cause, farsync.ErrLost,
		},
		"fn says what it was at": {
			func(ctx context.Context, end func()) error {
				end()
				return fmt.Errorf("charge: %w", context.Cause(ctx))
			},
			"charge: " + cause, farsync.ErrLost,
		},
		"fn fails for a reason of its own": {
			func(_ context.Context, end func()) error { end(); return errWork },
			errWork.Error() + "\nfarsync: hold /a: " + cause, farsync.ErrLost,
		},
		"fn returns the error of its context": {
			func(ctx context.Context, end func()) error { end(); return ctx.Err() },
			"context canceled\nfarsync: hold /a: " + cause, farsync.ErrLost,
		},
	} {
		for kind, open := range doers {
			if kind == "QuorumMutex" { // its cause names the members
				continue
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
					err := open(t, one).do(t.Context(), func(ctx context.Context) error {
						return row.fn(ctx, func() { service.Expire(one); <-ctx.Done() })
					})
					require.EqualError(t, err, row.want)
					require.ErrorIs(t, err, row.is)
				})
			})
		}
	}
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		mu := farsync.NewMutex(one, "/a")
		ran, err := mu.TryDo(t.Context(), time.Minute, func(ctx context.Context, _ *farsync.Lease) error {
			service.Expire(one)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.True(t, ran)
		require.EqualError(t, err, "farsync: hold /a: "+cause)
		err = mu.Do(t.Context(), func(ctx context.Context, lease *farsync.Lease) error {
			service.Expire(one)
			<-ctx.Done()
			_, err := lease.GuardEntries()
			return err
		})
		require.EqualError(t, err, "farsync: guard /a: "+cause)
		err = mu.Do(t.Context(), func(ctx context.Context, _ *farsync.Lease) error {
			require.NoError(t, one.Close())
			return context.Cause(ctx)
		})
		require.EqualError(t, err, "farsync: hold /a: store closed")
	})
}

// A fn that never returns has run all the same, and releases.
func TestDoOfALeaseReleasesWhateverFnDoes(t *testing.T) {
	for name, leave := range map[string]func(){"panics": func() { panic("a test") }, "exits": runtime.Goexit} {
		for kind, open := range doers {
			t.Run(kind+" "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
					d := open(t, one)
					done := make(chan any)
					go func() {
						defer func() { done <- recover() }()
						_ = d.do(t.Context(), func(context.Context) error { leave(); return nil })
					}()
					panicked := <-done
					require.Equal(t, name == "panics", panicked != nil, "a panic goes on")
					require.ErrorIs(t, d.end(), farsync.ErrReleased)
					require.Empty(t, service.Entries("/a"))
				})
			})
		}
	}
}

// TestTryDoTellsAJobThatFailedOnATryLock of its own from a job that another replica runs: it ran, and failed half-way.
func TestTryDoTellsAJobThatFailedOnATryLock(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
		ledger := lock(t, farsync.NewMutex(two, "/ledger"))
		half := false
		ran, err := farsync.NewMutex(one, "/cron").TryDo(t.Context(), time.Second, func(ctx context.Context, _ *farsync.Lease) error {
			half = true
			lease, err := farsync.NewMutex(one, "/ledger").TryLock(ctx)
			if err != nil {
				return err
			}
			return lease.Release()
		})
		require.True(t, half)
		require.True(t, ran)
		require.ErrorIs(t, err, farsync.ErrLocked, "the error is the job's")
		require.NoError(t, ledger.Release())
	})
}

// A job whose ctx stands for the mutex already would be left out on every run, by every replica.
func TestTryDoUnderItsOwnMutexIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
		mu := farsync.NewMutex(one, "/cron")
		require.NoError(t, mu.Do(t.Context(), func(ctx context.Context, _ *farsync.Lease) error {
			ran, err := mu.TryDo(ctx, time.Second, func(context.Context, *farsync.Lease) error { return nil })
			require.False(t, ran)
			require.ErrorIs(t, err, farsync.ErrDeadlock)
			require.NotErrorIs(t, err, farsync.ErrLocked)
			ran, err = farsync.NewMutex(two, "/cron").TryDo(ctx, time.Second, func(context.Context, *farsync.Lease) error { return nil })
			require.False(t, ran)
			require.NoError(t, err, "another Store's")
			return nil
		}))
	})
}

// ctx ends in the moment in which the mutex is held: the job does not run, and the mutex is not kept for the rest of the time, so
// that another replica can run it.
func TestTryDoWhoseCtxEndsAsItHolds(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, _, two *farsync.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		one := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Trace: &farsync.Trace{
			Acquire: func(ctx context.Context, _ farsync.TraceCall) (context.Context, func(farsync.TraceResult)) {
				return ctx, func(farsync.TraceResult) { cancel() }
			},
		}}})
		defer one.Close()
		ran, err := farsync.NewMutex(one, "/cron").TryDo(ctx, time.Hour, func(context.Context, *farsync.Lease) error {
			t.Error("it ran")
			return nil
		})
		require.False(t, ran)
		require.ErrorIs(t, err, context.Canceled)
		ran, err = farsync.NewMutex(two, "/cron").TryDo(t.Context(), 0, func(context.Context, *farsync.Lease) error { return nil })
		require.True(t, ran)
		require.NoError(t, err)
	})
}

// A job that releases gives up what is left of the time; nothing is wrong with it.
func TestTryDoWhoseJobReleases(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, _ *farsync.Store) {
		begun := time.Now()
		ran, err := farsync.NewMutex(one, "/cron").TryDo(t.Context(), time.Hour, func(_ context.Context, lease *farsync.Lease) error {
			return lease.Release()
		})
		require.True(t, ran)
		require.NoError(t, err)
		require.Less(t, time.Since(begun), time.Minute)
	})
}
