//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"context"
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
		require.Empty(t, told)

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
		var told error
		lose(farsync.NewMutex(one, "/a").Locker(t.Context(), func(err error) { told = err }))
		require.ErrorIs(t, told, farsync.ErrLost)
		silent := farsync.NewMutex(one, "/a").Locker(t.Context(), nil)
		require.Panics(t, func() { lose(silent) })
		silent.Lock() // usable afterwards
		silent.Unlock()
	})
}

func TestLockerPanicsWhenItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
		lease := lock(t, farsync.NewMutex(two, "/a"))
		ctx, cancel := context.WithCancel(t.Context())
		l := farsync.NewMutex(one, "/a").Locker(ctx, nil)
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
		}
		require.NoError(t, lease.Release())
	})
}
