//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

func TestLockersExcludeInAndAcrossProcesses(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
		a := farsync.NewMutex(one, "/a").Locker(t.Context(), nil)
		b := farsync.NewMutex(two, "/a").Locker(t.Context(), nil)
		inside, most, runs := 0, 0, 0
		done := make(chan struct{})
		for _, l := range []interface {
			Lock()
			Unlock()
		}{a, a, b, b} {
			go func() {
				defer func() { done <- struct{}{} }()
				for range 20 {
					l.Lock()
					inside++
					runs++
					most = max(most, inside)
					time.Sleep(time.Millisecond)
					inside--
					l.Unlock()
				}
			}()
		}
		for range 4 {
			<-done
		}
		require.Equal(t, 1, most)
		require.Equal(t, 80, runs)
	})
}

func TestLockerTriesThroughErrors(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		failures := 5
		service.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Create && failures > 0 {
				failures--
				return farsynctest.Refuse(errWork)
			}
			return farsynctest.None
		})
		var told []error
		l := farsync.NewMutex(one, "/a").Locker(t.Context(), func(err error) { told = append(told, err) })
		l.Lock()
		l.Unlock()
		require.Len(t, told, 5)
		require.ErrorIs(t, told[0], errWork)
	})
}

func TestLockerIsNotSilentAboutWhatDoesNotPass(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		panics := func(want error, l interface{ Lock() }) {
			t.Helper()
			defer func() {
				err, _ := recover().(error)
				require.ErrorIs(t, err, want)
			}()
			l.Lock()
		}
		var told []error
		tell := func(err error) { told = append(told, err) }
		service.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Create {
				return farsynctest.Refuse(errWork)
			}
			return farsynctest.None
		})
		refused := farsync.NewMutex(one, "/a").Locker(t.Context(), nil)
		panics(errWork, refused)
		service.SetFault(nil)
		refused.Lock() // usable afterwards
		refused.Unlock()

		lease := lock(t, farsync.NewMutex(one, "/a"))
		ctx, cancel := lease.Context(t.Context())
		defer cancel()
		panics(farsync.ErrDeadlock, farsync.NewMutex(one, "/a").Locker(ctx, tell))
		require.NoError(t, lease.Release())
		reader := must(t)(farsync.NewRWMutex(one, "/a").RLock(t.Context()))
		ctx, cancel = reader.Context(t.Context())
		defer cancel()
		panics(farsync.ErrUpgrade, farsync.NewRWMutex(one, "/a").Locker(ctx, tell))
		panics(farsync.ErrPath, farsync.NewMutex(one, "a").Locker(t.Context(), tell))
		require.Len(t, told, 3, "each is told before the panic")
		told = nil

		// Another family may leave: that passes.
		began := time.Now()
		time.AfterFunc(time.Minute, func() { _ = reader.Release() })
		l := farsync.NewMutex(one, "/a").Locker(t.Context(), tell)
		l.Lock()
		l.Unlock()
		require.Less(t, time.Since(began), 2*time.Minute)
		require.ErrorIs(t, told[0], farsync.ErrKind)
	})
}

// An onError that panics, as a t.Fatal does, leaves it unlocked, and of two that Unlock at once one panics.
func TestLockerIsUsableAfterAPanic(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		service.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Create {
				return farsynctest.Refuse(errWork)
			}
			return farsynctest.None
		})
		l := farsync.NewMutex(one, "/a").Locker(t.Context(), func(err error) { panic(err) })
		require.Panics(t, l.Lock)
		service.SetFault(nil)
		for range 100 {
			l.Lock()
			panicked := make(chan any)
			for range 2 {
				go func() {
					defer func() { panicked <- recover() }()
					l.Unlock()
				}()
			}
			one, other := <-panicked, <-panicked
			require.NotEqual(t, one == nil, other == nil)
		}
	})
}

func TestLossUnderALockerIsNeverSilent(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		lose := func(l interface {
			Lock()
			Unlock()
		}) {
			l.Lock()
			service.Expire(one)
			time.Sleep(10 * time.Second) // the client learns of it when it renews
			l.Unlock()
		}
		var told []error
		lose(farsync.NewMutex(one, "/a").Locker(t.Context(), func(err error) { told = append(told, err) }))
		require.Len(t, told, 1)
		require.ErrorIs(t, told[0], farsync.ErrLost)
		silent := farsync.NewMutex(one, "/a").Locker(t.Context(), nil)
		require.Panics(t, func() { lose(silent) })
		silent.Lock() // usable afterwards
		silent.Unlock()
	})
}

// The loss is told in the moment in which it comes, before another can hold, and once. The end of the Store is told in
// the moment in which the lease ends, and once.
func TestLockerTellsOfALossWhenItComes(t *testing.T) {
	for _, closed := range []bool{false, true} {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
			want := farsync.ErrLost
			type telling struct {
				err  error
				at   time.Time
				free bool
			}
			told := make(chan telling, 8)
			next := farsync.NewMutex(two, "/a")
			l := farsync.NewMutex(one, "/a").Locker(t.Context(), func(err error) {
				lease, tried := next.TryLock(t.Context())
				if lease != nil {
					_ = lease.Release()
				}
				told <- telling{err, time.Now(), tried == nil}
			})
			require.Nil(t, l.Lease())
			l.Lock()
			lease := l.Lease()
			require.NoError(t, lease.Err())
			if closed {
				want = farsync.ErrClosed
				require.NoError(t, one.Close())
			} else {
				service.Partition(one, true)
			}
			<-lease.Done()
			ended := time.Now()
			got := <-told
			require.ErrorIs(t, got.err, want)
			require.ErrorContains(t, got.err, "farsync: hold /a: ")
			require.Equal(t, ended, got.at)
			if !closed { // Close removes the entry beside the goroutine that tells
				require.False(t, got.free, "it is told before another can hold")
			}
			time.Sleep(time.Minute)
			l.Unlock()
			require.Nil(t, l.Lease())
			require.Empty(t, told, "once")
			service.Partition(one, false)
			time.Sleep(time.Minute)
		})
	}
}

// A loss beside an Unlock is told by one of the two, and a lease that its user has released is none.
func TestLockerTellsOfALossOnce(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		var told atomic.Int64
		l := farsync.NewMutex(one, "/a").Locker(t.Context(), func(err error) {
			if errors.Is(err, farsync.ErrLost) {
				told.Add(1)
			}
		})
		for i := range 20 {
			l.Lock()
			service.Partition(one, true)
			time.Sleep(time.Until(l.Lease().Deadline()) - 10*time.Nanosecond + time.Duration(i))
			ended := l.Lease().Err() != nil
			before := told.Load()
			l.Unlock()
			synctest.Wait()
			if ended {
				require.LessOrEqual(t, told.Load(), before+1)
				require.EqualValues(t, 1, told.Load())
			}
			told.Store(0)
			service.Partition(one, false)
			time.Sleep(time.Minute)
		}
		l.Lock()
		require.NoError(t, l.Lease().Release())
		synctest.Wait()
		l.Unlock()
		require.Zero(t, told.Load())
	})
}

func TestLockerPanicsWhenItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
		lease := lock(t, farsync.NewMutex(two, "/a"))
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan error, 2)
		l := farsync.NewMutex(one, "/a").Locker(ctx, func(err error) { told <- err })
		panicked := make(chan any)
		for range 2 { // one waits for the lock, one for the other
			go func() {
				defer func() { panicked <- recover() }()
				l.Lock()
			}()
		}
		synctest.Wait()
		cancel()
		for range 2 {
			err, ok := (<-panicked).(error)
			require.True(t, ok)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, <-told, context.Canceled, "it is told before the panic")
		}
		require.NoError(t, lease.Release())
	})
}
