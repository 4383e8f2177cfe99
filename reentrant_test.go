//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// apart calls in a goroutine of its own, which has got no lease.
func apart(
	ctx context.Context, lock func(context.Context) (*farsync.Lease, error),
) (lease *farsync.Lease, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		lease, err = lock(ctx)
	}()
	<-done
	return lease, err
}

func TestReentrantMutexEntersAgainWithoutARequest(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		mu := farsync.NewReentrantMutex(one, "/a")
		first := must(t)(mu.Lock(t.Context()))
		ctx, cancel := first.Context(t.Context())
		defer cancel()
		service.ResetCount()
		second, third := must(t)(mu.Lock(t.Context())), must(t)(mu.TryLock(t.Context()))
		fourth, fifth := must(t)(apart(ctx, mu.Lock)), must(t)(apart(ctx, mu.TryLock))
		for _, lease := range []*farsync.Lease{first, third, fifth, fourth} {
			require.Equal(t, second.Token(), lease.Token())
			require.NoError(t, lease.Release())
		}
		require.Zero(t, service.Count())
		require.NoError(t, second.Release())
		require.Equal(t, 1, service.Count(farsynctest.Delete))
		require.Equal(t, 1, service.Count())
	})
}

// With a ctx that has ended it does not enter again.
func TestReentrantMutexGivesUpAsAMutex(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		mu := farsync.NewReentrantMutex(one, "/a")
		lease := must(t)(mu.Lock(t.Context()))
		under, cancel := lease.Context(t.Context())
		defer cancel()
		for _, ctx := range []context.Context{t.Context(), under} {
			over, cancel := context.WithCancelCause(ctx)
			cancel(errWork)
			for _, lock := range []func(context.Context) (*farsync.Lease, error){mu.Lock, mu.TryLock} {
				_, err := lock(over)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, errWork)
				require.NotErrorIs(t, err, farsync.ErrLocked)
			}
		}
		require.NoError(t, lease.Release())
	})
}

// Two goroutines with the context of one lease enter under it, and the lock is free when the last of the three has
// released, in whatever order they do.
func TestReentrantMutexIsFreeWhenTheLastHasReleased(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
			mu := farsync.NewReentrantMutex(one, "/a")
			outer := must(t)(mu.Lock(t.Context()))
			ctx, cancel := outer.Context(t.Context())
			defer cancel()
			leases := []*farsync.Lease{outer, must(t)(apart(ctx, mu.Lock)), must(t)(apart(ctx, mu.Lock))}
			beside, behind := begin(mu.Lock), begin(farsync.NewMutex(two, "/a").Lock)
			for _, i := range order {
				require.True(t, beside.waiting())
				require.True(t, behind.waiting())
				require.NoError(t, leases[i].Err())
				require.NoError(t, leases[i].Release())
			}
			next := beside.got(t)
			require.Greater(t, next.Token(), outer.Token())
			require.NoError(t, next.Release())
			require.NoError(t, behind.got(t).Release())
		})
	}
}

// A function may make a ReentrantMutex for each call: the context knows the lease, whichever value it was got from.
// Without the context a goroutine is known to its own value alone. What has entered by a context is known by its
// goroutine, too.
func TestReentrantMutexEntersThroughAnotherValueByTheContext(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
		mu, other := farsync.NewReentrantMutex(one, "/a"), farsync.NewReentrantMutex(one, "/a")
		outer := must(t)(mu.Lock(t.Context()))
		ctx, cancel := outer.Context(t.Context())
		defer cancel()
		_, err := other.TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrLocked, "the goroutine is known to its value alone")
		inner := must(t)(other.Lock(ctx))
		again := must(t)(other.TryLock(t.Context()))
		require.Equal(t, outer.Token(), again.Token())
		require.NoError(t, outer.Release())
		require.NoError(t, inner.Release())
		_, err = mu.TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrLocked, "the goroutine has released what it had got from this value")
		require.NoError(t, again.Err())
		require.NoError(t, again.Release())

		// The same path of another Store is another process, and a Mutex is not entered again.
		mutex := lock(t, farsync.NewMutex(two, "/a"))
		ctx, cancel = mutex.Context(t.Context())
		defer cancel()
		_, err = farsync.NewReentrantMutex(two, "/a").Lock(ctx)
		require.ErrorIs(t, err, farsync.ErrDeadlock)
		require.ErrorContains(t, err, "would wait for itself")
		behind := begin(func(own context.Context) (*farsync.Lease, error) {
			return farsync.NewReentrantMutex(one, "/a").Lock(context.WithoutCancel(ctx))
		})
		require.True(t, behind.waiting())
		require.NoError(t, mutex.Release())
		require.NoError(t, behind.got(t).Release())
	})
}

// A goroutine that has released all that it had got is outside, also while others are inside: it would begin a new
// piece of work beside theirs.
func TestReentrantMutexKeepsOutWhoHasReleased(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, _ *farsync.Store) {
		mu := farsync.NewReentrantMutex(one, "/a")
		outer := must(t)(mu.Lock(t.Context()))
		ctx, cancel := outer.Context(t.Context())
		defer cancel()
		inner := must(t)(apart(ctx, mu.Lock))
		require.NoError(t, outer.Release())
		_, err := mu.TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrLocked)
		time.AfterFunc(time.Second, func() { _ = inner.Release() })
		next := must(t)(mu.Lock(t.Context()))
		require.ErrorIs(t, inner.Err(), farsync.ErrReleased)
		require.Greater(t, next.Token(), outer.Token())
		require.NoError(t, next.Release())
	})
}

// A context ends with its lease, and so does a Lock with it. One that outlives a lease that was released stands for
// nothing: its Lock is like any other.
func TestReentrantMutexByTheContextOfAReleasedLease(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, _ *farsync.Store) {
		mu := farsync.NewReentrantMutex(one, "/a")
		outer := must(t)(mu.Lock(t.Context()))
		ctx, cancel := outer.Context(t.Context())
		defer cancel()
		derived, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		inner := must(t)(apart(ctx, mu.Lock))
		require.NoError(t, outer.Release())
		<-derived.Done()
		for _, over := range []context.Context{ctx, derived} {
			_, err := mu.Lock(over)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, farsync.ErrReleased)
		}

		outlives := context.WithoutCancel(ctx)
		_, err := apart(outlives, mu.TryLock)
		require.ErrorIs(t, err, farsync.ErrLocked, "another holds, and this lease is over")
		waits := begin(func(context.Context) (*farsync.Lease, error) { return mu.Lock(outlives) })
		require.True(t, waits.waiting())
		require.NoError(t, inner.Release())
		fresh := waits.got(t)
		require.Greater(t, fresh.Token(), outer.Token())
		require.NoError(t, fresh.Release())
	})
}

// A lease that was lost is not entered again, by whatever context, until it was released: the work under it may go
// on, and what is below it must not go on under another holder's nose with a new lease.
func TestReentrantMutexByTheContextOfALostLease(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		mu := farsync.NewReentrantMutex(one, "/a")
		outer := must(t)(mu.Lock(t.Context()))
		ctx, cancel := outer.Context(t.Context())
		defer cancel()
		inner := must(t)(apart(ctx, mu.Lock))
		service.Expire(one)
		<-outer.Done()
		outlives := context.WithoutCancel(ctx)
		theirs := lock(t, farsync.NewMutex(two, "/a"))
		for _, lock := range []func(context.Context) (*farsync.Lease, error){mu.Lock, mu.TryLock} {
			_, err := apart(ctx, lock)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, farsync.ErrLost)
			_, err = apart(outlives, lock)
			require.ErrorIs(t, err, farsync.ErrLost)
			require.NotErrorIs(t, err, context.Canceled)
			_, err = lock(t.Context())
			require.ErrorIs(t, err, farsync.ErrLost, "the goroutine has got it")
		}
		require.NoError(t, theirs.Release())
		_, err := apart(outlives, mu.Lock)
		require.ErrorIs(t, err, farsync.ErrLost)
		require.ErrorIs(t, outer.Release(), farsync.ErrLost)
		next := must(t)(apart(outlives, mu.Lock))
		require.ErrorIs(t, inner.Err(), farsync.ErrLost)
		require.Greater(t, next.Token(), theirs.Token())
		require.NoError(t, next.Release())
		require.ErrorIs(t, inner.Release(), farsync.ErrLost)
	})
}

// Who holds another lock has an entry of its own, which is entered again as any other.
func TestReentrantMutexUnderAnotherLock(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		outer := lock(t, farsync.NewMutex(one, "/a"))
		ctx, cancel := outer.Context(t.Context())
		defer cancel()
		mu := farsync.NewReentrantMutex(one, "/b")
		first := must(t)(mu.Lock(ctx))
		under, cancel := first.Context(ctx)
		defer cancel()
		second, third := must(t)(mu.Lock(ctx)), must(t)(apart(under, mu.Lock))
		require.NoError(t, first.Release())
		require.NoError(t, third.Release())
		require.Len(t, service.Entries("/b"), 1)
		require.NoError(t, second.Release())
		require.Empty(t, service.Entries("/b"))
		require.NoError(t, outer.Release())
	})
}

// TestReentrantMutexEntersWhileItIsReleased has goroutines enter by a context that outlives the lease, while that is
// released: each enters its turn, or begins another after it. Goroutines of different turns never meet.
func TestReentrantMutexEntersWhileItIsReleased(t *testing.T) {
	const goroutines, rounds = 4, 50
	for _, nested := range []bool{false, true} { // with a line, and with an entry of its own
		bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, _ *farsync.Store) {
			ctx := t.Context()
			if nested {
				outer := lock(t, farsync.NewMutex(one, "/outer"))
				defer outer.Release()
				under, cancel := outer.Context(ctx)
				defer cancel()
				ctx = under
			}
			mu := farsync.NewReentrantMutex(one, "/a")
			var inside, turns atomic.Int64
			var mine sync.Map // the tokens that are inside, for a look at all of them
			visit := func(lease *farsync.Lease) {
				inside.Add(1)
				mine.Store(lease, lease.Token())
				mine.Range(func(_, other any) bool {
					if other != lease.Token() {
						t.Errorf("turns %v and %v at once", other, lease.Token())
					}
					return true
				})
				time.Sleep(time.Duration(rand.N(3)) * time.Millisecond)
				mine.Delete(lease)
				if err := lease.Release(); err != nil {
					t.Error(err)
				}
			}
			for range rounds {
				first := must(t)(mu.Lock(ctx))
				under, cancel := first.Context(ctx)
				outlives := context.WithoutCancel(under)
				var all sync.WaitGroup
				for range goroutines {
					all.Go(func() {
						lease, err := mu.Lock(outlives)
						if err != nil {
							t.Error(err)
							return
						}
						if lease.Token() != first.Token() {
							turns.Add(1)
						}
						visit(lease)
					})
				}
				visit(first)
				all.Wait()
				cancel()
			}
			require.EqualValues(t, rounds*(goroutines+1), inside.Load())
			t.Logf("nested %v: %d of %d began another turn", nested, turns.Load(), rounds*goroutines)
		})
	}
}
