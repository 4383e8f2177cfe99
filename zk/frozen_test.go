package zk_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/zk"
)

// prompt is how late a call may be back after its time is up: three times what is promised.
const prompt = 3 * 100 * time.Millisecond

func TestWallTimeOfWhatNobodyAnswers(t *testing.T) {
	noLeaks(t)
	var all sync.WaitGroup
	all.Go(func() { t.Run("calls return when the server is frozen", callsReturn) })
	all.Go(func() { t.Run("open says why", openSaysWhy) })
	all.Wait()
}

// callsReturn is C13 and Z8: the server takes connections and requests, and answers nothing. Every call is back when its
// ctx ends, or its own bound is met; and when the server goes on, nothing is left of any.
func callsReturn(t *testing.T) {
	server := embedtest.ZooKeeper(t)
	conn := newConn(t, server.Endpoint())
	const ttl = 3 * time.Second
	long := lock(t, newStore(t, server.Endpoint(), &zk.Options{TTL: 20 * time.Second}), "/long") // held throughout
	released := lock(t, newStore(t, server.Endpoint(), &zk.Options{TTL: ttl}), "/released")
	late := lock(t, newStore(t, server.Endpoint(), &zk.Options{TTL: ttl}), "/late")
	closed := newStore(t, server.Endpoint(), &zk.Options{TTL: ttl})
	underClosed := lock(t, closed, "/closed")
	callers := newStore(t, server.Endpoint(), nil)
	waiting, giveUp := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := farsync.NewMutex(callers, "/long").Lock(waiting)
		waited <- err
	}()
	awaitNodes(t, conn, "/long", 2)
	persistent(t, conn, "/free")

	server.Pause()
	var all sync.WaitGroup
	// try expects a call to be back when its time is up, and an error.
	try := func(name string, bound time.Duration, call func(context.Context) error, want error) {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			begun := time.Now()
			err := call(ctx)
			over := time.Since(begun) - bound
			t.Logf("%s: %v over its time: %v", name, over.Round(time.Millisecond), err)
			if over > prompt {
				t.Errorf("%s: %v late", name, over)
			}
			if want != nil {
				require.ErrorIs(t, err, want, name)
			}
		})
	}
	locked := func(lease *farsync.Lease, err error) error {
		if err == nil {
			_ = lease.Release()
		}
		return err
	}
	for range 40 { // more than the client library has slots for
		try("Lock", time.Second, func(ctx context.Context) error {
			return locked(farsync.NewMutex(callers, "/free").Lock(ctx))
		}, context.DeadlineExceeded)
	}
	try("TryLock", time.Second, func(ctx context.Context) error {
		return locked(farsync.NewMutex(callers, "/free").TryLock(ctx))
	}, context.DeadlineExceeded)
	try("Participants", time.Second, func(ctx context.Context) error {
		_, err := farsync.NewMutex(callers, "/long").Participants(ctx)
		return err
	}, context.DeadlineExceeded)
	try("waiting Lock", time.Second, func(ctx context.Context) error {
		<-ctx.Done()
		giveUp()
		return <-waited
	}, context.Canceled)
	try("Release", ttl/3, func(context.Context) error { return released.Release() }, context.DeadlineExceeded)
	left := 300 * time.Millisecond
	try("late Release", time.Until(late.Deadline()), func(context.Context) error {
		<-time.After(time.Until(late.Deadline()) - left)
		return late.Release()
	}, nil)
	try("Open", time.Second, func(ctx context.Context) error {
		_, err := zk.Open(ctx, []string{server.Endpoint()}, nil)
		return err
	}, context.DeadlineExceeded)
	var unconfirmed error
	try("Close", 3*time.Second, func(context.Context) error { unconfirmed = closed.Close(); return nil }, nil)
	all.Wait()
	require.ErrorContains(t, unconfirmed, "did not confirm")
	require.ErrorIs(t, underClosed.Err(), farsync.ErrClosed)
	require.ErrorIs(t, underClosed.Release(), farsync.ErrClosed)
	require.ErrorIs(t, released.Err(), farsync.ErrReleased)

	server.Resume()
	for _, path := range []string{"/free", "/released", "/late", "/closed"} {
		awaitNodes(t, conn, path, 0)
	}
	awaitNodes(t, conn, "/long", 1)
	require.NoError(t, long.Err())
	require.NoError(t, long.Release())
	awaitNodes(t, conn, "/long", 0)
}
