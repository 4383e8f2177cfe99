//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

func TestErrorSaysOperationAndPathOnce(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		lease := lock(t, farsync.NewMutex(one, "/a"))
		_, err := farsync.NewMutex(two, "/a").TryLock(t.Context())
		list := must2(two.Participants(t.Context(), "/a"))(t)
		require.EqualError(t, err, fmt.Sprintf("farsync: try lock /a: locked: held by %q", list[0].Holder))
		var of *farsync.Error
		require.ErrorAs(t, err, &of)
		require.Equal(t, farsync.Error{Op: "try lock", Path: "/a", Err: of.Err, Holder: list[0].Holder}, *of)
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.NoError(t, lease.Release())
		require.EqualError(t, lease.Release(), "farsync: release /a: released")
		require.EqualError(t, lease.Err(), "released")
		_, err = farsync.NewMutex(one, "a\x00b").Lock(t.Context())
		require.EqualError(t, err, `farsync: lock: bad path "a\x00b": no leading slash`)
	})
}

// Whom a call finds in its way is a field of its error, and no request is made for that.
func TestErrorHasTheHolder(t *testing.T) {
	const none = ""
	shortly := func(acquire func(context.Context) (*farsync.Lease, error)) func(context.Context) (*farsync.Lease, error) {
		return func(ctx context.Context) (*farsync.Lease, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return acquire(ctx)
		}
	}
	mutex := func(s *farsync.Store) lockFunc { return farsync.NewMutex(s, "/a").Lock }
	campaign := func(s *farsync.Store) lockFunc {
		return func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewElection(s, "/a").Campaign(ctx, "at "+s.Name())
		}
	}
	units := func(n int64, try bool) func(s *farsync.Store) lockFunc {
		return func(s *farsync.Store) lockFunc {
			return func(ctx context.Context) (*farsync.Lease, error) {
				if sem := farsync.NewSemaphore(s, "/a", 2); try {
					return sem.TryAcquire(ctx, n)
				} else {
					return sem.Acquire(ctx, n)
				}
			}
		}
	}
	for _, row := range []struct {
		name   string
		held   func(*farsync.Store) lockFunc // by the Store web-3
		asked  func(*farsync.Store) lockFunc // by the Store web-4
		is     error
		holder string
	}{
		{"Mutex.TryLock", mutex, func(s *farsync.Store) lockFunc { return farsync.NewMutex(s, "/a").TryLock }, farsync.ErrLocked, "web-3"},
		{"ReentrantMutex.TryLock", mutex, func(s *farsync.Store) lockFunc { return farsync.NewReentrantMutex(s, "/a").TryLock }, farsync.ErrLocked, "web-3"},
		{
			"RWMutex.TryLock", func(s *farsync.Store) lockFunc { return farsync.NewRWMutex(s, "/a").RLock },
			func(s *farsync.Store) lockFunc { return farsync.NewRWMutex(s, "/a").TryLock }, farsync.ErrLocked, "web-3",
		},
		{
			"RWMutex.TryRLock", func(s *farsync.Store) lockFunc { return farsync.NewRWMutex(s, "/a").Lock },
			func(s *farsync.Store) lockFunc { return farsync.NewRWMutex(s, "/a").TryRLock }, farsync.ErrLocked, "web-3",
		},
		{"Semaphore.TryAcquire", units(1, false), units(2, true), farsync.ErrLocked, "web-3"},
		{"Mutex.Lock", mutex, func(s *farsync.Store) lockFunc { return shortly(mutex(s)) }, context.DeadlineExceeded, "web-3"},
		{"Semaphore.Acquire", units(1, false), func(s *farsync.Store) lockFunc { return shortly(units(2, false)(s)) }, context.DeadlineExceeded, "web-3"},
		{"Election.Campaign", campaign, func(s *farsync.Store) lockFunc { return shortly(campaign(s)) }, context.DeadlineExceeded, "at zone-a"},
		{"another primitive", mutex, campaign, farsync.ErrKind, "web-3"},
		{"too many units", units(1, false), units(3, true), farsync.ErrTooLarge, none},
		{"a bad path", mutex, func(s *farsync.Store) lockFunc { return farsync.NewMutex(s, "a").TryLock }, farsync.ErrPath, none},
		{
			"a ctx that is done", mutex, func(s *farsync.Store) lockFunc {
				return func(ctx context.Context) (*farsync.Lease, error) {
					ctx, cancel := context.WithCancelCause(ctx)
					_, another := farsync.NewMutex(s, "/a").TryLock(ctx)
					cancel(another) // the error of another call, which has a holder
					return farsync.NewMutex(s, "/b").Lock(ctx)
				}
			}, context.Canceled, none,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, service *farsynctest.Mem, _, _ *farsync.Store) {
				three := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: "web-3", Name: "zone-a"}})
				four := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: "web-4", Name: "zone-b"}})
				defer three.Close()
				defer four.Close()
				lease := must(t)(row.held(three)(t.Context()))
				service.ResetCount()
				_, err := row.asked(four)(t.Context())
				require.ErrorIs(t, err, row.is)
				var of *farsync.Error
				require.ErrorAs(t, err, &of)
				require.Equal(t, row.holder, of.Holder)
				if row.is == farsync.ErrLocked { //nolint:errorlint // that of the row
					require.Equal(t, 1, service.Count(), "one look, and nothing for the name")
				}
				require.NoError(t, lease.Release())
				require.NoError(t, three.Close())
				require.NoError(t, four.Close())
			})
		})
	}
}

// Within a process the holder is the Store itself, and nothing is asked. A context of its own lease waits for no other holder.
func TestErrorHasTheHolderOfTheSameStore(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, _, two *farsync.Store) {
		store := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: "web-3"}})
		defer store.Close()
		holderOf := func(_ *farsync.Lease, err error) string {
			of, ok := errors.AsType[*farsync.Error](err)
			require.True(t, ok, "%v", err)
			return of.Holder
		}
		mu, rw := farsync.NewMutex(store, "/a"), farsync.NewRWMutex(store, "/b")
		lease := lock(t, mu)
		service.ResetCount()
		require.Equal(t, "web-3", holderOf(mu.TryLock(t.Context())))
		require.Zero(t, service.Count())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, "web-3", holderOf(mu.Lock(ctx)))
		under, cancel := lease.Context(t.Context())
		defer cancel()
		_, err := mu.TryLock(under)
		require.ErrorIs(t, err, farsync.ErrDeadlock)
		require.Empty(t, holderOf(nil, err), "the caller itself")
		require.NoError(t, lease.Release())

		reader := must(t)(rw.RLock(t.Context()))
		time.Sleep(shareFor)
		writer := begin(farsync.NewRWMutex(two, "/b").Lock)
		require.True(t, writer.waiting())
		under, cancel = reader.Context(t.Context())
		defer cancel()
		_, err = rw.RLock(under)
		require.ErrorIs(t, err, farsync.ErrDeadlock)
		require.Equal(t, must2(store.Participants(t.Context(), "/b"))(t)[1].Holder, holderOf(nil, err), "the writer that waits for the caller")
		require.NoError(t, reader.Release())
		require.NoError(t, writer.got(t).Release())
		require.NoError(t, store.Close())
	})
}

// TestGuardOfAnEndedLeaseSaysWhy: with the path of the lock, and as Err of the lease does.
func TestGuardOfAnEndedLeaseSaysWhy(t *testing.T) {
	for _, row := range []struct {
		why string
		end func(t *testing.T, service *farsynctest.Mem, store *farsync.Store, release func() error)
		is  error
	}{
		{"released", func(t *testing.T, _ *farsynctest.Mem, _ *farsync.Store, release func() error) {
			require.NoError(t, release())
		}, farsync.ErrReleased},
		{"lost", func(_ *testing.T, service *farsynctest.Mem, store *farsync.Store, _ func() error) {
			service.Expire(store)
		}, farsync.ErrLost},
		{"closed", func(t *testing.T, _ *farsynctest.Mem, store *farsync.Store, _ func() error) {
			require.NoError(t, store.Close())
		}, farsync.ErrClosed},
	} {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
			single := lock(t, farsync.NewMutex(one, "/a"))
			several, err := farsync.NewMultiMutex(farsync.NewMutex(one, "/b"), farsync.NewMutex(one, "/c")).Lock(t.Context())
			require.NoError(t, err)
			for _, lease := range []interface {
				farsync.Guarded
				Done() <-chan struct{}
				Err() error
				Release() error
			}{single, several} {
				if lease.Err() == nil {
					entries, err := lease.GuardEntries()
					require.NoError(t, err)
					require.NotEmpty(t, entries)
					row.end(t, service, one, lease.Release)
					<-lease.Done()
				}
				entries, err := lease.GuardEntries()
				require.Empty(t, entries, row.why)
				of, ok := errors.AsType[*farsync.Error](err)
				require.True(t, ok, row.why)
				path := map[bool]string{true: "/a", false: "/b"}[lease == single]
				require.Equal(t, farsync.Error{Op: "guard", Path: path, Err: lease.Err()}, *of, row.why)
				require.ErrorIs(t, err, row.is)
				_ = lease.Release()
			}
		})
	}
}

// A call is one exported call that asks the service, prepared while that answers.
type call struct {
	name    string
	holds   bool // a lease of one
	prepare func(t *testing.T, one, two *farsync.Store) func(ctx context.Context) error
}

// calls are those that take a context.
func calls() []call {
	taken := func(t *testing.T, two *farsync.Store) { _ = lock(t, farsync.NewMutex(two, "/a")) }
	return []call{
		{"Mutex.Lock", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) error { _, err := farsync.NewMutex(one, "/a").Lock(ctx); return err }
		}},
		{"Mutex.Lock, taken", false, func(t *testing.T, one, two *farsync.Store) func(context.Context) error {
			taken(t, two)
			return func(ctx context.Context) error { _, err := farsync.NewMutex(one, "/a").Lock(ctx); return err }
		}},
		{"Mutex.TryLock", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) error { _, err := farsync.NewMutex(one, "/a").TryLock(ctx); return err }
		}},
		{"Mutex.Do", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) error {
				return farsync.NewMutex(one, "/a").Do(ctx, func(context.Context, *farsync.Lease) error { return errWork })
			}
		}},
		{"Store.Participants", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := one.Participants(ctx, "/a")
				return err
			}
		}},
		{"Store.Ask", false, func(t *testing.T, one, two *farsync.Store) func(context.Context) error {
			taken(t, two)
			return func(ctx context.Context) error { return one.Ask(ctx, "/a") }
		}},
		{"ReentrantMutex.Lock", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := farsync.NewReentrantMutex(one, "/a").Lock(ctx)
				return err
			}
		}},
		{"RWMutex.RLock", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) error { _, err := farsync.NewRWMutex(one, "/a").RLock(ctx); return err }
		}},
		{"RWMutex.Downgrade", true, func(t *testing.T, one, _ *farsync.Store) func(context.Context) error {
			rw := farsync.NewRWMutex(one, "/a")
			lease := must(t)(rw.Lock(t.Context()))
			return func(ctx context.Context) error { return rw.Downgrade(ctx, lease) }
		}},
		{"Semaphore.Acquire", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := farsync.NewSemaphore(one, "/a", 2).Acquire(ctx, 1)
				return err
			}
		}},
		{"Semaphore.Acquire, another size", false, func(t *testing.T, one, two *farsync.Store) func(context.Context) error {
			must(t)(farsync.NewSemaphore(two, "/a", 3).Acquire(t.Context(), 1))
			return func(ctx context.Context) error {
				_, err := farsync.NewSemaphore(one, "/a", 2).Acquire(ctx, 1)
				return err
			}
		}},
		{"Semaphore.TryAcquire", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := farsync.NewSemaphore(one, "/a", 2).TryAcquire(ctx, 1)
				return err
			}
		}},
		{"Semaphore.Resize", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) error { return farsync.NewSemaphore(one, "/a", 2).Resize(ctx, 3) }
		}},
		{"MultiMutex.Lock", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			multi := farsync.NewMultiMutex(farsync.NewMutex(one, "/a"), farsync.NewMutex(one, "/b"))
			return func(ctx context.Context) error { _, err := multi.Lock(ctx); return err }
		}},
		{"Election.Campaign", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := farsync.NewElection(one, "/a").Campaign(ctx, "")
				return err
			}
		}},
		{"Election.Leader", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) error { _, err := farsync.NewElection(one, "/a").Leader(ctx); return err }
		}},
		{"Election.Proclaim", true, func(t *testing.T, one, _ *farsync.Store) func(context.Context) error {
			e := farsync.NewElection(one, "/a")
			lease := must(t)(e.Campaign(t.Context(), ""))
			return func(ctx context.Context) error { return e.Proclaim(ctx, lease, "x") }
		}},
		{"Election.Observe", false, func(t *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) (last error) {
				for _, err := range farsync.NewElection(one, "/a").Observe(ctx) {
					last = err
				}
				return last
			}
		}},
		{"Pool.Go", false, func(_ *testing.T, one, _ *farsync.Store) func(context.Context) error {
			return func(ctx context.Context) error {
				pool := farsync.NewPool(ctx, farsync.NewSemaphore(one, "/a", 2))
				pool.Go(func(context.Context) error { return errWork })
				return pool.Wait()
			}
		}},
	}
}

// Each call is made while no request and no event passes, and given up after each of these times: before the state is
// StateSuspended, before the session is lost, and after that.
var gaveUpAfter = []time.Duration{
	0, time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 6 * time.Second, 9500 * time.Millisecond, 9501 * time.Millisecond, 9510 * time.Millisecond, 14 * time.Second,
	time.Minute,
}

func TestAChainHasOnlyWhatHappenedToTheCaller(t *testing.T) {
	for _, c := range calls() {
		for _, after := range gaveUpAfter {
			bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
				f := c.prepare(t, one, two)
				service.Partition(one, true)
				defer func() {
					service.Partition(one, false)
					time.Sleep(time.Minute) // a session that was lost here ends there
				}()
				began := time.Now()
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(after, func() { cancel(errWork) })
				err := f(ctx)
				require.NotErrorIs(t, err, context.DeadlineExceeded, "%s after %v: the deadline of an attempt is none of the caller's", c.name, after)
				if c.holds && (time.Since(began) < after || errors.Is(err, farsync.ErrLost)) {
					require.ErrorIs(t, err, farsync.ErrLost, "%s after %v", c.name, after)
					return
				}
				require.ErrorIs(t, err, context.Canceled, "%s after %v", c.name, after)
				require.ErrorIs(t, err, errWork, "the cause: %s after %v", c.name, after)
				require.NotErrorIs(t, err, farsync.ErrLost, "%s after %v: it held nothing", c.name, after)
				require.Equal(t, after, time.Since(began), "%s after %v", c.name, after)
			})
		}
	}
}

// What an error says beside that of ctx: whether the service or the holder kept the caller waiting.
func TestErrUnavailableIsAboutTheService(t *testing.T) {
	const ttl = 2 * time.Second // a third of it is less than a second
	lockFree := func(ctx context.Context, one *farsync.Store) error {
		_, err := farsync.NewMutex(one, "/free").Lock(ctx)
		return err
	}
	lockTaken := func(ctx context.Context, one *farsync.Store) error {
		_, err := farsync.NewMutex(one, "/taken").Lock(ctx)
		return err
	}
	locked := func(ctx context.Context, one *farsync.Store) error {
		_, err := farsync.NewMutex(one, "/taken").TryLock(ctx)
		return err
	}
	silent := func(kinds ...farsynctest.OpKind) func(*farsynctest.Mem, *farsync.Store) {
		return func(service *farsynctest.Mem, one *farsync.Store) {
			service.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				if op.Client == service.Client(one) && slices.Contains(kinds, op.Kind) {
					return farsynctest.Silence(false)
				}
				return farsynctest.None
			})
		}
	}
	broken := func(service *farsynctest.Mem, one *farsync.Store) {
		service.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Client == service.Client(one) && op.Kind == farsynctest.Create {
				return farsynctest.LoseRequest
			}
			return farsynctest.None
		})
	}
	for _, row := range []struct {
		why   string
		ttl   time.Duration
		befel func(service *farsynctest.Mem, one *farsync.Store)
		call  func(context.Context, *farsync.Store) error
		after time.Duration
		want  bool
	}{
		{"the holder keeps it", 10 * time.Second, silent(), lockTaken, time.Hour, false},
		{"a request is unanswered, but not for long", 10 * time.Second, silent(farsynctest.Create), lockFree, 900 * time.Millisecond, false},
		{"a request is unanswered for a second", 10 * time.Second, silent(farsynctest.Create), lockFree, time.Second, true},
		{"not yet a third of the TTL", ttl, silent(farsynctest.Create), lockFree, 600 * time.Millisecond, false},
		{"a third of the TTL", ttl, silent(farsynctest.Create), lockFree, 700 * time.Millisecond, true},
		{"attempt after attempt", 10 * time.Second, silent(farsynctest.Create), lockFree, time.Minute, true},
		{"the connection breaks, again and again", 10 * time.Second, broken, lockFree, 5 * time.Second, true},
		{"a look that is not answered", 10 * time.Second, silent(farsynctest.Ahead), locked, 2 * time.Second, true},
		{"a wait that does not begin", 10 * time.Second, silent(farsynctest.Watch), lockTaken, 2 * time.Second, true},
		{"cut off, but not known yet: a wait is no request without an answer", 10 * time.Second, cutLater, lockTaken, 2 * time.Second, false},
		{"suspended", 10 * time.Second, cutLater, lockTaken, 5 * time.Second, true},
		{"no session", 10 * time.Second, cutOff, lockTaken, time.Minute, true},
		{"no session", 10 * time.Second, cutOff, lockFree, time.Minute, true},
		{"only renewals are not answered: suspended", 10 * time.Second, silent(farsynctest.Renew), lockTaken, 5 * time.Second, true},
	} {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, _, two *farsync.Store) {
			lease := lock(t, farsync.NewMutex(two, "/taken"))
			one := service.Open(&farsynctest.MemOptions{Options: farsync.Options{TTL: row.ttl}})
			row.befel(service, one)
			ctx, cancel := context.WithTimeout(t.Context(), row.after)
			defer cancel()
			began := time.Now()
			err := row.call(ctx, one)
			require.Equal(t, row.after, time.Since(began), row.why)
			require.ErrorIs(t, err, context.DeadlineExceeded, row.why)
			require.Equal(t, row.want, errors.Is(err, farsync.ErrUnavailable), "%s: %v", row.why, err)
			service.SetFault(nil)
			service.Partition(one, false)
			require.NoError(t, lease.Release())
			time.Sleep(time.Minute)
			require.Empty(t, service.Entries("/free"))
			require.Empty(t, service.Entries("/taken"))
			require.NoError(t, one.Close())
		})
	}
}

// cutLater has the call wait in the queue by then.
func cutLater(service *farsynctest.Mem, one *farsync.Store) {
	time.AfterFunc(500*time.Millisecond, func() { service.Partition(one, true) })
}

func cutOff(service *farsynctest.Mem, one *farsync.Store) { service.Partition(one, true) }

func TestErrUnavailableIsAloneFromOpenAndRelease(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		service.PartitionClient("cut-off", true)
		began := time.Now()
		_, err := farsync.Open(t.Context(), service.Service("cut-off"), nil)
		require.ErrorIs(t, err, farsync.ErrUnavailable)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = farsync.Open(ctx, service.Service("cut-off"), nil)
		require.ErrorIs(t, err, farsync.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded, "that of the caller")
		service.PartitionClient("cut-off", false)

		lease := lock(t, farsync.NewMutex(one, "/a"))
		service.Partition(one, true)
		began = time.Now()
		err = lease.Release()
		require.ErrorIs(t, err, farsync.ErrUnavailable)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, farsync.ErrLost)
		require.EqualError(t, err, "farsync: release /a: the service does not answer: not released within 3.333s")
		require.Equal(t, 10*time.Second/3, time.Since(began))
		service.Partition(one, false)
		time.Sleep(time.Second)
		require.Empty(t, service.Entries("/a"), "removed in the background")

		three := service.Open(nil)
		service.Partition(three, true)
		err = three.Close()
		require.ErrorIs(t, err, farsync.ErrUnavailable)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		service.Partition(three, false)
		time.Sleep(time.Minute)
	})
}

// A lost lease that was not released is in no other caller's way.
func TestALostLeaseDoesNotMakeTriesFail(t *testing.T) {
	for _, known := range []bool{true, false} { // whether the client has been told
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
			mu, rw, re := farsync.NewMutex(one, "/a"), farsync.NewRWMutex(one, "/b"), farsync.NewReentrantMutex(one, "/c")
			// Another goroutine's: this one would enter again.
			held := []*farsync.Lease{lock(t, mu), must(t)(rw.Lock(t.Context())), begin(re.Lock).got(t)}
			service.Expire(one)
			if known {
				for _, lease := range held {
					<-lease.Done()
				}
			}
			for range 2 {
				for _, try := range []func(context.Context) (*farsync.Lease, error){mu.TryLock, rw.TryLock, rw.TryRLock, re.TryLock} {
					if !known {
						// The lease may still be held, for all that is known here.
						if lease, err := try(t.Context()); err == nil {
							require.NoError(t, lease.Release())
						} else {
							require.ErrorIs(t, err, farsync.ErrLocked)
						}
						continue
					}
					require.NoError(t, must(t)(try(t.Context())).Release())
				}
				for _, lease := range held {
					<-lease.Done()
				}
				known = true
				time.Sleep(time.Second)
			}
			for _, lease := range held {
				require.ErrorIs(t, lease.Release(), farsync.ErrLost)
			}
		})
	}
}

func TestProclaimIsForCandidatesOnly(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		for _, lock := range []func(context.Context) (*farsync.Lease, error){
			farsync.NewMutex(one, "/a").Lock, farsync.NewRWMutex(one, "/a").Lock, farsync.NewRWMutex(one, "/a").RLock,
		} {
			lease := must(t)(lock(t.Context()))
			before := service.Entries("/a")
			service.ResetCount()
			require.ErrorContains(t, farsync.NewElection(one, "/a").Proclaim(t.Context(), lease, "x"), "farsync: proclaim /a: ")
			require.Zero(t, service.Count())
			require.Equal(t, before, service.Entries("/a"))
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Release())
		}
	})
}

// A call that waits holds nothing, so nothing is lost when the session is over in which it waits.
func TestAWaiterLosesNothing(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context, one *farsync.Store) error{
		"lock": func(ctx context.Context, one *farsync.Store) error {
			_, err := farsync.NewMutex(one, "/a").Lock(ctx)
			return err
		},
		"do": func(ctx context.Context, one *farsync.Store) error {
			return farsync.NewMutex(one, "/a").Do(ctx, func(context.Context, *farsync.Lease) error { return nil })
		},
		"read": func(ctx context.Context, one *farsync.Store) error {
			_, err := farsync.NewRWMutex(one, "/a").RLock(ctx)
			return err
		},
		"multi": func(ctx context.Context, one *farsync.Store) error {
			_, err := farsync.NewMultiMutex(farsync.NewMutex(one, "/a"), farsync.NewMutex(one, "/b")).Lock(ctx)
			return err
		},
		"campaign": func(ctx context.Context, one *farsync.Store) error {
			_, err := farsync.NewElection(one, "/a").Campaign(ctx, "")
			return err
		},
	} {
		for _, expire := range []bool{true, false} {
			for _, after := range gaveUpAfter {
				bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
					hold := farsync.NewMutex(two, "/a").Lock
					switch name {
					case "read":
						hold = farsync.NewRWMutex(two, "/a").Lock
					case "campaign":
						hold = func(ctx context.Context) (*farsync.Lease, error) {
							return farsync.NewElection(two, "/a").Campaign(ctx, "")
						}
					}
					lease := must(t)(hold(t.Context()))
					ctx, cancel := context.WithCancelCause(t.Context())
					done := make(chan error)
					go func() { done <- wait(ctx, one) }()
					synctest.Wait()
					require.Len(t, service.Entries("/a"), 2)
					if expire {
						service.Expire(one)
					} else {
						service.Partition(one, true)
					}
					time.Sleep(after)
					cancel(errWork)
					err := <-done
					require.ErrorIs(t, err, errWork, "%s after %v", name, after)
					require.ErrorIs(t, err, context.Canceled, "%s after %v", name, after)
					require.NotErrorIs(t, err, farsync.ErrLost, "%s after %v", name, after)
					require.NotErrorIs(t, err, context.DeadlineExceeded, "%s after %v", name, after)
					service.Partition(one, false)
					time.Sleep(time.Minute)
					require.Len(t, service.Entries("/a"), 1)
					require.NoError(t, lease.Release())
				})
			}
		}
	}
}
