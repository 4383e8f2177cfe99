//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/recipe"
)

var errWork = errors.New("work failed")

// bubble runs f in a bubble with a service and two of its clients.
func bubble(t *testing.T, f func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store)) {
	synctest.Test(t, func(t *testing.T) {
		service := farsynctest.NewMem()
		one, two := service.Open(nil), service.Open(nil)
		defer one.Close() // for when f fails: a bubble waits for all of its goroutines
		defer two.Close()
		f(t, service, one, two)
		require.NoError(t, one.Close())
		require.NoError(t, two.Close())
		entries, sessions, watches := service.Left()
		require.Zero(t, entries+sessions+watches, "left at the service")
	})
}

// open opens a Store over a driver, which is closed with the test.
func open(t *testing.T, service driver.Service) *farsync.Store {
	t.Helper()
	store, err := farsync.Open(t.Context(), service, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func lock(t *testing.T, mu *farsync.Mutex) *farsync.Lease {
	t.Helper()
	lease, err := mu.Lock(t.Context())
	require.NoError(t, err)
	return lease
}

// locking locks in a goroutine, and sends the lease.
func locking(t *testing.T, mu *farsync.Mutex) <-chan *farsync.Lease {
	got := make(chan *farsync.Lease, 1)
	go func() {
		lease, err := mu.Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	return got
}

func TestBadNamesAreRefusedBeforeAnyRequest(t *testing.T) {
	for _, row := range []struct{ path, why string }{
		{"a", "no leading slash"},
		{"a//b", "no leading slash"},
		{"/", "an empty segment"},
		{"//", "two empty segments"},
		{"//a", "an empty segment"},
		{"/a//b", "an empty segment"},
		{"/a/", "a trailing slash is an empty segment"},
		{"/a/../b", "what it names depends on its reader"},
		{"..", "what it names depends on its reader"},
		{"/.", "go-zookeeper lets it pass and the server does not"},
		{"/a\x00b", "ends the name for programs in C"},
		{"/..", "what it names depends on its reader"},
		{"/a\nb", "would end a line"},
		{"/\xff", "not UTF-8"},
		{"/a b", "not in the grammar"},
		{"/a\u202eb", "shows as something else than it is"},
		{"/é", "two encodings look alike"},
		{"/" + strings.Repeat("x", 129), "segments are 128 bytes at most"},
		{strings.Repeat("/abcdefg", 256), "2 KiB; a path is 1 KiB at most"},
		{"/zookeeper", "ZooKeeper's own tree"},
		{"/zookeeper/locks", "ZooKeeper's own tree"},
		{"/_c_b", "Curator looks for its nodes by this prefix"},
		{"/a/_c_b", "Curator looks for its nodes by this prefix"},
	} {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
			service.ResetCount()
			mu := farsync.NewMutex(one, row.path)
			_, err := mu.Lock(t.Context())
			require.ErrorIs(t, err, farsync.ErrPath, row.why)
			_, err = mu.TryLock(t.Context())
			require.ErrorIs(t, err, farsync.ErrPath, row.why)
			_, err = one.Participants(t.Context(), row.path)
			require.ErrorIs(t, err, farsync.ErrPath, row.why)
			require.Less(t, len(err.Error()), 300)
			require.ErrorIs(t, mu.Do(t.Context(), nil), farsync.ErrPath, row.why)
			require.Zero(t, service.Count())
		})
	}
	for _, path := range []string{
		"/locks/billing.2026-11_A", "/" + strings.Repeat("x", 128), strings.Repeat("/abcdefg", 128), "/zookeeperx",
		"/a/zookeeper", "/_c", "/a_c_b", "/...", "/-",
	} {
		require.NoError(t, recipe.CheckPath(path))
	}
}

func TestMistakesInTheProgramPanic(t *testing.T) {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	require.PanicsWithValue(t, "farsync: NewMutex: nil store", func() { farsync.NewMutex(nil, "/a") })
	locker := farsync.NewMutex(store, "/a").Locker(t.Context(), nil)
	require.PanicsWithValue(t, "farsync: Unlock of unlocked Locker", locker.Unlock)
}

func TestReleaseTwiceTellsTheSecond(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, _ *farsync.Store) {
		lease := lock(t, farsync.NewMutex(one, "/a"))
		require.NoError(t, lease.Release())
		require.ErrorIs(t, lease.Release(), farsync.ErrReleased)
		require.ErrorIs(t, lease.Err(), farsync.ErrReleased)
		<-lease.Done()
	})
}

func TestTokensRiseOverHandOversTurnsAndSessions(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		a, b := farsync.NewMutex(one, "/a"), farsync.NewMutex(two, "/a")
		last := farsync.Token(0)
		next := func(lease *farsync.Lease) {
			require.Greater(t, lease.Token(), last)
			last = lease.Token()
		}
		first := lock(t, a)
		next(first)
		turn := locking(t, a)
		synctest.Wait()
		require.NoError(t, first.Release())
		second := <-turn
		next(second)
		require.Equal(t, first.Token().Revision(), second.Token().Revision(), "a turn of the same grant")
		require.NoError(t, second.Release())
		third := lock(t, b)
		next(third)
		service.Expire(two)
		next(lock(t, a))
	})
}

func TestLeaseContextTellsWhoEndedIt(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		mu := farsync.NewMutex(one, "/a")
		lease := lock(t, mu)
		parent, cancelParent := context.WithCancelCause(t.Context())
		byParent, cancel1 := lease.Context(parent)
		defer cancel1()
		byCancel, cancel2 := lease.Context(t.Context())
		byRelease, cancel3 := lease.Context(t.Context())
		defer cancel3()

		cancelParent(errWork)
		<-byParent.Done()
		require.ErrorIs(t, context.Cause(byParent), errWork)
		require.NoError(t, byCancel.Err())
		cancel2()
		require.ErrorIs(t, byCancel.Err(), context.Canceled)
		require.NoError(t, byRelease.Err())
		require.NoError(t, lease.Release())
		require.ErrorIs(t, byRelease.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(byRelease), farsync.ErrReleased)

		lost := lock(t, mu)
		byLoss, cancel4 := lost.Context(t.Context())
		defer cancel4()
		service.Expire(one)
		<-byLoss.Done()
		require.ErrorIs(t, context.Cause(byLoss), farsync.ErrLost)
	})
}

func TestLeaseEndsAtItsDeadlineToTheInstant(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		lease := lock(t, farsync.NewMutex(one, "/a"))
		service.Partition(one, true)
		deadline := lease.Deadline()
		next := make(chan time.Time)
		second := locking(t, farsync.NewMutex(two, "/a"))
		go func() {
			<-second
			next <- time.Now()
		}()
		<-lease.Done()
		require.Equal(t, deadline, time.Now())
		require.ErrorIs(t, lease.Err(), farsync.ErrLost)
		require.GreaterOrEqual(t, (<-next).Sub(deadline), 500*time.Millisecond, "the margin of a TTL of 10 s")
		service.Partition(one, false)
	})
}

func TestDoReturnsWhatFnReturned(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		mu := farsync.NewMutex(one, "/a")
		var token farsync.Token
		require.ErrorIs(t, mu.Do(t.Context(), func(ctx context.Context, lease *farsync.Lease) error {
			token = lease.Token()
			require.NoError(t, ctx.Err())
			return errWork
		}), errWork)
		require.NotZero(t, token)
		lease, err := mu.TryLock(t.Context())
		require.NoError(t, err, "released")
		require.NoError(t, lease.Release())
	})
}

func TestDoReleasesWhenFnPanics(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		mu := farsync.NewMutex(one, "/a")
		require.Panics(t, func() {
			_ = mu.Do(t.Context(), func(context.Context, *farsync.Lease) error { panic("in fn") })
		})
		lease, err := mu.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release())
	})
}

func TestSuccessUnderALostLeaseIsErrLost(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		mu := farsync.NewMutex(one, "/a")
		work := func(result error) error {
			return mu.Do(t.Context(), func(ctx context.Context, _ *farsync.Lease) error {
				service.Expire(one)
				<-ctx.Done()
				return result
			})
		}
		require.ErrorIs(t, work(nil), farsync.ErrLost)
		err := work(errWork)
		require.ErrorIs(t, err, farsync.ErrLost)
		require.ErrorIs(t, err, errWork)
	})
}

// Replicas whose clocks are apart all start the same line, and one of them runs the job: whether the job is shorter or longer
// than the clocks are apart, and also if its ctx ends before the time is over.
func TestTryDoRunsOnceOnManyReplicas(t *testing.T) {
	for _, apart := range []time.Duration{0, 30 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond} {
		for _, job := range []time.Duration{0, time.Millisecond, 200 * time.Millisecond, 5 * time.Second} {
			for _, limit := range []time.Duration{100 * time.Millisecond, time.Minute} {
				bubble(t, func(t *testing.T, service *farsynctest.Mem, _, _ *farsync.Store) {
					const replicas, atLeast = 3, 2 * time.Second
					var ran, left atomic.Int64
					var all sync.WaitGroup
					begun := time.Now()
					for i := range replicas {
						store := service.Open(nil)
						all.Go(func() {
							time.Sleep(time.Duration(i) * apart / (replicas - 1))
							ctx, cancel := context.WithTimeout(t.Context(), limit)
							defer cancel()
							did, err := farsync.NewMutex(store, "/cron").TryDo(ctx, atLeast, func(ctx context.Context, _ *farsync.Lease) error {
								ran.Add(1)
								return pause.For(ctx, job)
							})
							switch {
							case !did && err == nil:
								left.Add(1)
							case job > limit && errors.Is(err, context.DeadlineExceeded): // cut short, and says so
							case err != nil || job > limit:
								t.Errorf("a job of %v, for at most %v: %v", job, limit, err)
							}
							if err := store.Close(); err != nil {
								t.Error(err)
							}
						})
					}
					all.Wait()
					require.EqualValues(t, 1, ran.Load(), "%v apart, a job of %v, for at most %v", apart, job, limit)
					require.EqualValues(t, replicas-1, left.Load())
					require.GreaterOrEqual(t, time.Since(begun), atLeast)
				})
			}
		}
	}
}

// A process that shuts down does not wait for the rest, and neither does one whose lease is lost.
func TestTryDoEndsEarly(t *testing.T) {
	for name, end := range map[string]func(service *farsynctest.Mem, store *farsync.Store, cancel func()){
		"cancelled": func(_ *farsynctest.Mem, _ *farsync.Store, cancel func()) { cancel() },
		"lost":      func(service *farsynctest.Mem, store *farsync.Store, _ func()) { service.Partition(store, true) },
		"closed":    func(_ *farsynctest.Mem, store *farsync.Store, _ func()) { _ = store.Close() },
	} {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun := time.Now()
			done := make(chan error, 1)
			go func() {
				ran, err := farsync.NewMutex(one, "/cron").TryDo(ctx, time.Hour,
					func(context.Context, *farsync.Lease) error { return nil })
				assert.True(t, ran)
				done <- err
			}()
			time.Sleep(time.Second)
			end(service, one, cancel)
			err := <-done
			require.Less(t, time.Since(begun), time.Minute, name)
			switch name {
			case "lost":
				require.ErrorIs(t, err, farsync.ErrLost)
			case "closed":
				require.ErrorIs(t, err, farsync.ErrClosed)
			default:
				require.NoError(t, err)
			}
			service.Partition(one, false)
			time.Sleep(time.Minute) // for the session that was lost
		})
	}
}

// A replica whose clock is late does not run the job again, also if the process that has run it no longer waits for the
// rest of the time: it shuts down, or the job has panicked. The mutex is free when the time is over, and when the Store
// is closed.
func TestTryDoKeepsTheMutexForItsTime(t *testing.T) {
	const atLeast = time.Hour
	for name, run := range map[string]func(t *testing.T, mu *farsync.Mutex){
		"cancelled in the job": func(t *testing.T, mu *farsync.Mutex) {
			ctx, cancel := context.WithCancel(t.Context())
			ran, err := mu.TryDo(ctx, atLeast, func(ctx context.Context, _ *farsync.Lease) error { cancel(); return ctx.Err() })
			require.True(t, ran)
			require.ErrorIs(t, err, context.Canceled)
		},
		"cancelled after the job": func(t *testing.T, mu *farsync.Mutex) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			ran, err := mu.TryDo(ctx, atLeast, func(context.Context, *farsync.Lease) error { return nil })
			require.True(t, ran)
			require.NoError(t, err)
		},
		"panicked": func(t *testing.T, mu *farsync.Mutex) {
			require.Panics(t, func() {
				_, _ = mu.TryDo(t.Context(), atLeast, func(context.Context, *farsync.Lease) error { panic("a test") })
			})
		},
	} {
		for _, closed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", closed ", closed), func(t *testing.T) {
				bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
					begun := time.Now()
					run(t, farsync.NewMutex(one, "/cron"))
					require.Less(t, time.Since(begun), time.Minute, "it does not wait for the rest")
					other := farsync.NewMutex(two, "/cron")
					_, err := other.TryLock(t.Context())
					require.ErrorIs(t, err, farsync.ErrLocked, "a replica whose clock is late")
					time.Sleep(atLeast - time.Since(begun) - time.Second)
					_, err = other.TryLock(t.Context())
					require.ErrorIs(t, err, farsync.ErrLocked)
					if closed {
						require.NoError(t, one.Close())
					} else {
						time.Sleep(2 * time.Second)
					}
					lease, err := other.TryLock(t.Context())
					require.NoError(t, err)
					require.NoError(t, lease.Release())
				})
			})
		}
	}
}

// A process that ends within the time, without Close, leaves the mutex to the service. With a TTL that is half as long
// again as the time, the service keeps the mutex for all of it, whenever the session was renewed last.
func TestTheTimeOfTryDoOutlivesItsProcess(t *testing.T) {
	const atLeast, ttl = time.Minute, 90 * time.Second
	for age := time.Duration(0); age < ttl/2; age += 2500 * time.Millisecond {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, _, two *farsync.Store) {
			one := service.Open(&farsynctest.MemOptions{Options: farsync.Options{TTL: ttl}})
			defer one.Close()
			time.Sleep(age)
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			ran, err := farsync.NewMutex(one, "/cron").TryDo(ctx, atLeast, func(context.Context, *farsync.Lease) error { cancel(); return nil })
			require.True(t, ran)
			require.NoError(t, err)
			service.Partition(one, true) // as if its process were gone
			other := farsync.NewMutex(two, "/cron")
			time.Sleep(atLeast - time.Since(begun) - time.Millisecond)
			_, err = other.TryLock(t.Context())
			require.ErrorIs(t, err, farsync.ErrLocked, "the session was %v old", age)
			time.Sleep(ttl)
			lease, err := other.TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Release())
			service.Partition(one, false)
		})
	}
}

// A lease that is kept is held until then, whatever asks for it, and ends before by Release, by a loss and by Close.
func TestReleaseAfter(t *testing.T) {
	const d = time.Minute
	for name, row := range map[string]struct {
		end    func(service *farsynctest.Mem, store *farsync.Store, lease *farsync.Lease) error // after half of the time
		want   error
		within time.Duration
	}{
		"in time":  {func(*farsynctest.Mem, *farsync.Store, *farsync.Lease) error { return nil }, farsync.ErrReleased, d},
		"released": {func(_ *farsynctest.Mem, _ *farsync.Store, lease *farsync.Lease) error { return lease.Release() }, farsync.ErrReleased, d / 2},
		"closed":   {func(_ *farsynctest.Mem, store *farsync.Store, _ *farsync.Lease) error { return store.Close() }, farsync.ErrClosed, d / 2},
		"lost": {func(service *farsynctest.Mem, store *farsync.Store, _ *farsync.Lease) error {
			service.Expire(store)
			return nil
		}, farsync.ErrLost, d/2 + 10*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
				begun := time.Now()
				lease := lock(t, farsync.NewMutex(one, "/x"))
				lease.ReleaseAfter(d)
				require.Zero(t, time.Since(begun), "it does not wait")
				time.Sleep(d / 2)
				require.NoError(t, lease.Err())
				require.NoError(t, row.end(service, one, lease))
				<-lease.Done()
				require.ErrorIs(t, lease.Err(), row.want)
				require.LessOrEqual(t, time.Since(begun), row.within)
				other := lock(t, farsync.NewMutex(two, "/x"))
				require.NoError(t, other.Release())
			})
		})
	}
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		lease := lock(t, farsync.NewMutex(one, "/x"))
		require.NoError(t, one.Close())
		lease.ReleaseAfter(d)
		require.ErrorIs(t, lease.Err(), farsync.ErrClosed)
		lease.ReleaseAfter(-d)
	})
}

func TestParticipantsAreListedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := farsynctest.NewMem()
		var leases []<-chan *farsync.Lease
		for i := range 3 {
			store := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: fmt.Sprint("worker ", i)}})
			defer store.Close()
			leases = append(leases, locking(t, farsync.NewMutex(store, "/a")))
			synctest.Wait()
			time.Sleep(time.Second)
		}
		looker := service.Open(nil)
		defer looker.Close()
		list, err := looker.Participants(t.Context(), "/a")
		require.NoError(t, err)
		require.Len(t, list, 3)
		for i, p := range list {
			require.Equal(t, fmt.Sprint("worker ", i), p.Holder)
			require.Equal(t, i == 0, p.Held)
			require.Equal(t, time.Duration(3-i)*time.Second, time.Since(p.Since))
		}
		for i := range 3 {
			lease := <-leases[i]
			require.Equal(t, list[i].Token, lease.Token())
			require.NoError(t, lease.Release())
		}
	})
}

func TestCloseEndsLeasesAndWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
		lease := lock(t, farsync.NewMutex(one, "/a"))
		waiting := make(chan error)
		go func() {
			_, err := farsync.NewMutex(two, "/a").Lock(t.Context())
			waiting <- err
		}()
		synctest.Wait()
		require.NoError(t, two.Close())
		require.ErrorIs(t, <-waiting, farsync.ErrClosed)
		require.NoError(t, one.Close())
		<-lease.Done()
		require.ErrorIs(t, lease.Err(), farsync.ErrClosed)
		require.ErrorIs(t, lease.Release(), farsync.ErrClosed)
		_, err := farsync.NewMutex(one, "/a").Lock(t.Context())
		require.ErrorIs(t, err, farsync.ErrClosed)
	})
}

// Callers of one Store share an entry, whichever values they have made of the path. Break and the tokens name one of them.
func TestCallersWithAValueEachShareAnEntry(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		next := func() <-chan *farsync.Lease {
			got := make(chan *farsync.Lease, 1)
			go func() { // received from below
				lease, err := farsync.NewMutex(one, "/orders/17").Lock(t.Context())
				assert.NoError(t, err)
				got <- lease
			}()
			synctest.Wait()
			return got
		}
		first := lock(t, farsync.NewMutex(one, "/orders/17"))
		waits := next()
		require.Len(t, service.Entries("/orders/17"), 1)
		_, err := farsync.NewMutex(one, "/orders/17").TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.NoError(t, first.Release())
		second := <-waits
		require.Equal(t, first.Token().Revision(), second.Token().Revision())
		require.Greater(t, second.Token(), first.Token())

		// The entry stands for the second now. To break the first breaks nothing.
		require.ErrorIs(t, two.Break(t.Context(), "/orders/17", first.Token(), nil), farsync.ErrReleased)
		require.NoError(t, second.Err())
		waits = next()
		require.NoError(t, two.Break(t.Context(), "/orders/17", second.Token(), nil))
		require.ErrorIs(t, second.Err(), farsync.ErrBroken)
		third := <-waits
		require.NoError(t, third.Err())
		require.Greater(t, third.Token(), second.Token())
		require.ErrorIs(t, second.Release(), farsync.ErrLost)

		// Whoever is asked for the lock gives it back to another process, although a caller of this one waits.
		waits = next()
		far := make(chan *farsync.Lease, 1)
		go func() { // received from below
			lease, err := farsync.NewMutex(two, "/orders/17").Lock(t.Context())
			assert.NoError(t, err)
			far <- lease
		}()
		synctest.Wait()
		require.NoError(t, two.Ask(t.Context(), "/orders/17"))
		<-third.Asked()
		require.NoError(t, third.Release())
		lease := <-far
		require.NoError(t, lease.Release())
		require.NoError(t, (<-waits).Release())
		require.Empty(t, service.Entries("/orders/17"))
	})
}
