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

// outlasting runs a test in a bubble with a Store whose requests to outlast its process fail as fault says, and with another. It counts them.
func outlasting(t *testing.T, fault func(n int) farsynctest.Fault, f func(t *testing.T, one, two *farsync.Store, asked func() int)) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		mem := farsynctest.NewMem()
		service := farsynctest.Inject(mem.Service("one"), farsynctest.InjectorFunc(func(_ context.Context, op farsynctest.Op) (none farsynctest.Fault) {
			if op.Kind != farsynctest.Outlast {
				return none
			}
			return fault(int(asked.Add(1)))
		}))
		one, err := farsync.Open(t.Context(), service, nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, one.Close()) }()
		two := mem.Open(nil)
		defer func() { require.NoError(t, two.Close()) }()
		f(t, one, two, func() int { return int(asked.Load()) })
	})
}

func never(int) (none farsynctest.Fault) { return none }

// TestJobRunsOnlyUnderAMutexThatOutlastsTheProcess: where the service refuses, fn is not run and nothing is held. The error is not that the mutex is locked.
func TestJobRunsOnlyUnderAMutexThatOutlastsTheProcess(t *testing.T) {
	refused := errors.New("a test refuses")
	outlasting(t, func(int) farsynctest.Fault { return farsynctest.Refuse(refused) }, func(t *testing.T, one, two *farsync.Store, _ func() int) {
		ran, err := farsync.NewMutex(one, "/cron").TryDo(t.Context(), time.Hour, func(context.Context, *farsync.Lease) error { panic("a test") })
		require.False(t, ran)
		require.ErrorIs(t, err, refused)
		require.NotErrorIs(t, err, farsync.ErrLocked)
		lease, err := farsync.NewMutex(two, "/cron").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release())
		// No time is to be kept, so nothing is asked.
		ran, err = farsync.NewMutex(one, "/cron").TryDo(t.Context(), 0, func(context.Context, *farsync.Lease) error { return nil })
		require.True(t, ran)
		require.NoError(t, err)
	})
}

// TestServiceIsAskedOnceASessionToOutlastTheProcess, after answers that were lost.
func TestServiceIsAskedOnceASessionToOutlastTheProcess(t *testing.T) {
	lost := func(n int) (none farsynctest.Fault) {
		if n < 3 {
			return farsynctest.LoseReply
		}
		return none
	}
	outlasting(t, lost, func(t *testing.T, one, _ *farsync.Store, asked func() int) {
		first, err := farsync.NewMutex(one, "/first").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, first.Outlast(t.Context()))
		require.Equal(t, 3, asked())
		second, err := farsync.NewMutex(one, "/second").Lock(t.Context())
		require.NoError(t, err)
		second.ReleaseAfter(time.Minute)
		require.NoError(t, second.Outlast(t.Context()))
		require.NoError(t, first.Release())
		require.ErrorIs(t, first.Outlast(t.Context()), farsync.ErrReleased)
		time.Sleep(2 * time.Minute) //nolint:forbidigo // in a bubble
		require.ErrorIs(t, second.Err(), farsync.ErrReleased)
		require.Equal(t, 3, asked())
	})
}

// TestReleaseAfterAsksToOutlastTheProcess, and asks no longer than the lease is held.
func TestReleaseAfterAsksToOutlastTheProcess(t *testing.T) {
	silent := func(int) farsynctest.Fault { return farsynctest.LoseRequest }
	outlasting(t, silent, func(t *testing.T, one, two *farsync.Store, asked func() int) {
		lease, err := farsync.NewMutex(one, "/cron").Lock(t.Context())
		require.NoError(t, err)
		begun := time.Now()
		lease.ReleaseAfter(5 * time.Second)
		after, err := farsync.NewMutex(two, "/cron").Lock(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 5, time.Since(begun).Seconds(), 0.1)
		require.Positive(t, asked())
		require.NoError(t, after.Release())
	})
	outlasting(t, never, func(t *testing.T, one, _ *farsync.Store, asked func() int) {
		lease, err := farsync.NewMutex(one, "/cron").Lock(t.Context())
		require.NoError(t, err)
		lease.ReleaseAfter(5 * time.Second)
		time.Sleep(time.Second) //nolint:forbidigo // in a bubble
		require.Equal(t, 1, asked())
	})
}

// TestLeaseThatHasEndedAsksForNothing: the Store's other locks are free at once when the process dies.
func TestLeaseThatHasEndedAsksForNothing(t *testing.T) {
	outlasting(t, never, func(t *testing.T, one, _ *farsync.Store, asked func() int) {
		lease, err := farsync.NewMutex(one, "/cron").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release())
		require.ErrorIs(t, lease.Outlast(t.Context()), farsync.ErrReleased)
		require.Zero(t, asked())
	})
}

// TestOutlastEndsWithItsContext, and the lease is held on.
func TestOutlastEndsWithItsContext(t *testing.T) {
	silent := func(int) farsynctest.Fault { return farsynctest.LoseRequest }
	outlasting(t, silent, func(t *testing.T, one, _ *farsync.Store, _ func() int) {
		lease, err := farsync.NewMutex(one, "/cron").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, lease.Outlast(ctx), context.DeadlineExceeded)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release())
	})
}
