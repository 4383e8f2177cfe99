package farsync_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// A stateError is an error of a fn's own, of a type that cannot be compared.
type stateError struct{ unsaved []string }

func (e stateError) Error() string { return fmt.Sprint("not saved: ", e.unsaved) }

// TestLeadEndsInOneWay: when ctx is done, leader and waiter alike return nil, whatever fn says of the end of its context. What else
// fn says is returned, and nothing else is dropped.
func TestLeadEndsInOneWay(t *testing.T) {
	unsaved := stateError{[]string{"offset"}}
	for name, row := range map[string]struct {
		says func(ctx context.Context) error
		want []error // nil: nothing
	}{
		"nothing":                {says: func(context.Context) error { return nil }},
		"the error of its ctx":   {says: context.Context.Err},
		"the cause":              {says: context.Cause},
		"both":                   {says: func(ctx context.Context) error { return errors.Join(ctx.Err(), context.Cause(ctx)) }},
		"more words":             {says: func(ctx context.Context) error { return fmt.Errorf("read: %w", ctx.Err()) }},
		"its own":                {says: func(context.Context) error { return errWork }, want: []error{errWork}},
		"its own, in more words": {says: func(context.Context) error { return fmt.Errorf("write: %w", errWork) }, want: []error{errWork}},
		"its own beside the end": {says: func(ctx context.Context) error { return errors.Join(ctx.Err(), errWork) }, want: []error{errWork}},
		"its own behind the end": {
			says: func(ctx context.Context) error { return fmt.Errorf("%w, and %w", context.Cause(ctx), errWork) },
			want: []error{errWork},
		},
		"what cannot be compared": {says: func(context.Context) error { return unsaved }, want: []error{}},
		"the deadline of another ctx": {
			says: func(context.Context) error { return context.DeadlineExceeded },
			want: []error{context.DeadlineExceeded},
		},
	} {
		for _, cause := range []error{nil, errStop} {
			t.Run(fmt.Sprintf("%s, of an end for %v", name, cause), func(t *testing.T) {
				bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
					ctx, shutDown := context.WithCancelCause(t.Context())
					leader, waiter := make(chan error, 1), make(chan error, 1)
					go func() {
						leader <- farsync.NewElection(one, "/e").Lead(ctx, "", func(ctx context.Context, _ *farsync.Lease) error {
							<-ctx.Done()
							return row.says(ctx)
						})
					}()
					synctest.Wait()
					go func() {
						waiter <- farsync.NewElection(two, "/e").Lead(ctx, "", func(context.Context, *farsync.Lease) error {
							t.Error("it leads")
							return nil
						})
					}()
					synctest.Wait()
					shutDown(cause)
					require.NoError(t, <-waiter)
					err := <-leader
					if row.want == nil {
						require.NoError(t, err)
						return
					}
					require.Error(t, err)
					for _, want := range row.want {
						require.ErrorIs(t, err, want)
					}
				})
			})
		}
	}
}

// TestLeadDropsNoErrorBesideALoss: an error of fn's own, such as "do not start me again", ends Lead although the leadership was
// lost. What only says so does not: the candidate stands again.
func TestLeadDropsNoErrorBesideALoss(t *testing.T) {
	for name, row := range map[string]struct {
		says func(e *farsync.Election, ctx context.Context, lease *farsync.Lease) error
		ends bool
	}{
		"nothing": {says: func(*farsync.Election, context.Context, *farsync.Lease) error { return nil }},
		"the error of its ctx": {says: func(_ *farsync.Election, ctx context.Context, _ *farsync.Lease) error {
			return fmt.Errorf("work: %w", ctx.Err())
		}},
		"the cause":       {says: func(_ *farsync.Election, ctx context.Context, _ *farsync.Lease) error { return context.Cause(ctx) }},
		"that of a lease": {says: func(_ *farsync.Election, _ context.Context, lease *farsync.Lease) error { return lease.Err() }},
		"that of Release": {says: func(_ *farsync.Election, _ context.Context, lease *farsync.Lease) error { return lease.Release() }},
		"that of Proclaim": {says: func(e *farsync.Election, ctx context.Context, lease *farsync.Lease) error {
			return e.Proclaim(ctx, lease, "late")
		}},
		"its own": {says: func(*farsync.Election, context.Context, *farsync.Lease) error { return errWork }, ends: true},
		"its own beside the loss": {says: func(_ *farsync.Election, ctx context.Context, _ *farsync.Lease) error {
			return errors.Join(context.Cause(ctx), errWork)
		}, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
				const losses = 4
				e, terms := farsync.NewElection(one, "/e"), 0
				err := e.Lead(t.Context(), "", func(ctx context.Context, lease *farsync.Lease) error {
					if terms++; terms > losses {
						return nil
					}
					service.Expire(one)
					<-ctx.Done()
					return row.says(e, ctx, lease)
				})
				if !row.ends {
					require.NoError(t, err)
					require.Equal(t, losses+1, terms)
					return
				}
				require.ErrorIs(t, err, errWork)
				require.ErrorIs(t, err, farsync.ErrLost)
				require.Equal(t, 1, terms, "it was told not to start again")
			})
		})
	}
}

// TestLeadReturnsWhatIsNotItsEnd: a Store that is closed and a path that is not valid are no end that was asked for.
func TestLeadReturnsWhatIsNotItsEnd(t *testing.T) {
	never := func(context.Context, *farsync.Lease) error { return errors.New("it has led") }
	until := func(ctx context.Context, _ *farsync.Lease) error { <-ctx.Done(); return ctx.Err() }
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
		require.ErrorIs(t, farsync.NewElection(one, "no/slash").Lead(t.Context(), "", never), farsync.ErrPath)
		lease := lock(t, farsync.NewMutex(two, "/e"))
		require.ErrorIs(t, farsync.NewElection(one, "/e").Lead(t.Context(), "", never), farsync.ErrKind)
		require.NoError(t, lease.Release())

		// A ctx of fn's own that has ended is no end of Lead.
		require.ErrorIs(t, farsync.NewElection(one, "/e").Lead(t.Context(), "", func(context.Context, *farsync.Lease) error {
			return context.Canceled
		}), context.Canceled)

		// fn may resign by itself.
		require.NoError(t, farsync.NewElection(one, "/e").Lead(t.Context(), "", func(ctx context.Context, lease *farsync.Lease) error {
			require.NoError(t, lease.Release())
			<-ctx.Done()
			return context.Cause(ctx)
		}))

		done := make(chan error, 2)
		go func() { done <- farsync.NewElection(one, "/e").Lead(t.Context(), "", until) }()
		synctest.Wait()
		go func() { done <- farsync.NewElection(one, "/e").Lead(t.Context(), "", never) }()
		synctest.Wait()
		require.NoError(t, one.Close())
		require.ErrorIs(t, <-done, farsync.ErrClosed)
		require.ErrorIs(t, <-done, farsync.ErrClosed)
	})
}

// TestLeadOfAServiceThatIsSilent: the end of ctx is what was asked for, also where nobody could lead before.
func TestLeadOfAServiceThatIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		service.Partition(one, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var terms atomic.Int64
		require.NoError(t, farsync.NewElection(one, "/e").Lead(ctx, "", func(context.Context, *farsync.Lease) error {
			terms.Add(1)
			return nil
		}))
		require.Zero(t, terms.Load())
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		service.Partition(one, false)
	})
}

// TestLeadPassesOverACallThatWasGivenUp at its end: that the service did not answer either, or has not said whether a value was
// changed, is no error of fn's own.
func TestLeadPassesOverACallThatWasGivenUp(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, store *farsync.Store, e *farsync.Election, lease *farsync.Lease) error{
		"Lock": func(ctx context.Context, store *farsync.Store, _ *farsync.Election, _ *farsync.Lease) error {
			_, err := farsync.NewMutex(store, "/a").Lock(ctx)
			return err
		},
		"Proclaim": func(ctx context.Context, _ *farsync.Store, e *farsync.Election, lease *farsync.Lease) error {
			return e.Proclaim(ctx, lease, "late")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
				ctx, shutDown := context.WithCancel(t.Context())
				e := farsync.NewElection(one, "/e")
				require.NoError(t, e.Lead(ctx, "", func(ctx context.Context, lease *farsync.Lease) error {
					service.Partition(one, true)
					time.AfterFunc(5*time.Second, shutDown)
					err := call(ctx, one, e, lease)
					require.ErrorIs(t, err, context.Canceled)
					beside := map[string]error{"Lock": farsync.ErrUnavailable, "Proclaim": farsync.ErrUncertain}[name]
					require.ErrorIs(t, err, beside)
					return fmt.Errorf("work: %w", err)
				}))
				service.Partition(one, false)
			})
		})
	}
}

// TestShutdownOfALeaderIsNil, and the shutdown of a candidate who waits, in whichever order ctx and the Store end.
func TestShutdownOfALeaderIsNil(t *testing.T) {
	for _, closedFirst := range []bool{false, true} {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// A Campaign that ends because the Store is closed finds that ctx has ended, too.
			two := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Trace: &farsync.Trace{
				Acquire: func(ctx context.Context, _ farsync.TraceCall) (context.Context, func(farsync.TraceResult)) {
					return ctx, func(farsync.TraceResult) { cancel() }
				},
			}}})
			defer two.Close()
			leader, waiter := make(chan error, 1), make(chan struct{})
			go func() {
				leader <- farsync.NewElection(one, "/e").Lead(ctx, "", func(ctx context.Context, _ *farsync.Lease) error {
					<-ctx.Done()
					<-waiter
					return context.Cause(ctx)
				})
			}()
			synctest.Wait()
			go func() {
				err := farsync.NewElection(two, "/e").Lead(ctx, "", func(context.Context, *farsync.Lease) error { return nil })
				if err != nil {
					t.Error(err)
				}
				close(waiter)
			}()
			synctest.Wait()
			if closedFirst {
				require.NoError(t, one.Close())
				require.NoError(t, two.Close())
			} else {
				cancel()
			}
			require.NoError(t, <-leader)
		})
	}
}

// observed runs a loop of Observe until it is left, and returns what was yielded.
func observed(ctx context.Context, e *farsync.Election, more func(farsync.Leader) bool) (list []farsync.Leader, last error) {
	for leader, err := range e.Observe(ctx) {
		if last != nil {
			panic("yielded behind an error")
		}
		if last = err; err != nil {
			if leader != (farsync.Leader{}) {
				panic("a leader beside an error")
			}
			continue
		}
		if list = append(list, leader); !more(leader) {
			return list, nil
		}
	}
	return list, last
}

// TestObserveIsALoopThatEndsWithItsFirstError, as every Seq2 with an error: a vacancy is none, neither is a Store that has lost
// its session, or its connection for a while.
func TestObserveIsALoopThatEndsWithItsFirstError(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		e := farsync.NewElection(two, "/e")
		var list []farsync.Leader
		over := make(chan error, 1)
		go func() {
			over <- func() error {
				for leader, err := range farsync.NewElection(one, "/e").Observe(ctx) {
					if err != nil {
						return err
					}
					list = append(list, leader)
				}
				return errors.New("no error at the end")
			}()
		}()
		await := func(want ...farsync.Leader) {
			t.Helper()
			time.Sleep(time.Minute) //nolint:forbidigo // in a bubble
			synctest.Wait()
			require.Equal(t, want, list)
		}
		nobody := farsync.Leader{}
		await(nobody)
		lease, err := e.Campaign(t.Context(), "a")
		require.NoError(t, err)
		a := farsync.Leader{Value: "a", Token: lease.Token()}
		await(nobody, a)
		service.Expire(one)
		await(nobody, a)
		require.NoError(t, e.Proclaim(t.Context(), lease, "a"))
		await(nobody, a) // the same value
		service.Partition(one, true)
		require.NoError(t, e.Proclaim(t.Context(), lease, "b"))
		await(nobody, a)
		service.Partition(one, false)
		b := farsync.Leader{Value: "b", Token: lease.Token()}
		await(nobody, a, b)
		require.NoError(t, lease.Release())
		await(nobody, a, b, nobody)
		cancel()
		require.ErrorIs(t, <-over, context.Canceled)
	})
}

// TestObserveEndsWith what no waiting helps against, once.
func TestObserveEndsWith(t *testing.T) {
	nobody := []farsync.Leader{{}}
	for name, row := range map[string]struct {
		before func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) (after func())
		path   string
		want   []error
		sees   []farsync.Leader
		within time.Duration
	}{
		"a path that is not valid": {path: "no/slash", want: []error{farsync.ErrPath}},
		"a Store that is closed": {
			before: func(t *testing.T, _ *farsynctest.Mem, one, _ *farsync.Store) func() {
				time.AfterFunc(time.Second, func() { _ = one.Close() })
				return func() {}
			},
			want: []error{farsync.ErrClosed}, sees: nobody, within: time.Second,
		},
		"what the service refuses": {
			before: func(t *testing.T, service *farsynctest.Mem, _, _ *farsync.Store) func() {
				service.SetFault(func(op farsynctest.Op) farsynctest.Fault {
					if op.Kind == farsynctest.List {
						return farsynctest.Refuse(errForbidden)
					}
					return farsynctest.None
				})
				return func() { service.SetFault(nil) }
			},
			want: []error{errForbidden},
		},
		"another family that stays": {
			before: func(t *testing.T, _ *farsynctest.Mem, _, two *farsync.Store) func() {
				lease := lock(t, farsync.NewMutex(two, "/e"))
				return func() { require.NoError(t, lease.Release()) }
			},
			want: []error{farsync.ErrKind}, within: 1200 * time.Millisecond,
		},
		"another family that leaves": {
			before: func(t *testing.T, _ *farsynctest.Mem, _, two *farsync.Store) func() {
				lease := lock(t, farsync.NewMutex(two, "/e"))
				time.AfterFunc(700*time.Millisecond, func() { _ = lease.Release() })
				return func() {}
			},
			want: []error{context.DeadlineExceeded}, sees: nobody, within: time.Minute,
		},
		"ctx, while the service grants nothing": {
			before: func(t *testing.T, service *farsynctest.Mem, _, _ *farsync.Store) func() {
				service.Restart(time.Hour)
				return func() {}
			},
			want: []error{context.DeadlineExceeded, farsync.ErrUnavailable}, within: time.Minute,
		},
		"ctx, while the service does not answer": {
			before: func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) func() {
				service.Partition(one, true)
				return func() { service.Partition(one, false) }
			},
			want: []error{context.DeadlineExceeded, farsync.ErrUnavailable}, within: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
				after := func() {}
				if row.before != nil {
					after = row.before(t, service, one, two)
				}
				path := row.path
				if path == "" {
					path = "/e"
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				begun := time.Now()
				list, err := observed(ctx, farsync.NewElection(one, path), func(farsync.Leader) bool { return true })
				require.Equal(t, row.sees, list)
				for _, want := range row.want {
					require.ErrorIs(t, err, want)
				}
				_, told := errors.AsType[*farsync.Error](err)
				require.True(t, told)
				require.LessOrEqual(t, time.Since(begun), row.within)
				after()
			})
		})
	}
}

// TestEmptyValueIsTheHolder, whether it is campaigned with, led with or proclaimed.
func TestEmptyValueIsTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, _, two *farsync.Store) {
		one := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: "web-3"}})
		defer one.Close()
		e, seen := farsync.NewElection(one, "/e"), farsync.NewElection(two, "/e")
		value := func() string {
			leader, err := seen.Leader(t.Context())
			require.NoError(t, err)
			return leader.Value
		}
		require.NoError(t, e.Lead(t.Context(), "", func(ctx context.Context, lease *farsync.Lease) error {
			require.Equal(t, "web-3", value())
			require.NoError(t, e.Proclaim(ctx, lease, "busy"))
			require.Equal(t, "busy", value())
			require.NoError(t, e.Proclaim(ctx, lease, ""))
			require.Equal(t, "web-3", value())
			return nil
		}))
		lease, err := e.Campaign(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, "web-3", value())
		require.NoError(t, lease.Release())
	})
}
