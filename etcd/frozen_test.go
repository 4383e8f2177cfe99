package etcd_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
)

// prompt is how late a call may be back after its time is up: three times what is promised.
const prompt = 3 * 100 * time.Millisecond

// TestWallTimeCallsReturnWhenTheServerIsFrozen is C13: the server takes connections and requests, and answers nothing.
// Every call is back when its ctx ends, or its own bound is met; and when the server goes on, nothing is left of any.
func TestWallTimeCallsReturnWhenTheServerIsFrozen(t *testing.T) {
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	const ttl = 2 * time.Second
	holders := newStore(t, server.Endpoint(), &etcd.Options{TTL: ttl})
	lock := func(store *etcd.Store, path string) *farsync.Lease {
		lease, err := farsync.NewMutex(store, path).Lock(t.Context())
		require.NoError(t, err)
		return lease
	}
	long := lock(newStore(t, server.Endpoint(), nil), "/long") // held throughout
	released := lock(holders, "/released")
	late := lock(newStore(t, server.Endpoint(), &etcd.Options{TTL: ttl}), "/late")
	closed := newStore(t, server.Endpoint(), &etcd.Options{TTL: ttl})
	underClosed := lock(closed, "/closed")
	callers := newStore(t, server.Endpoint(), nil)
	waiting, giveUp := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := farsync.NewMutex(callers, "/long").Lock(waiting)
		waited <- err
	}()
	awaitKeys(t, admin, "/long", 2)

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
			if want == nil {
				want = context.DeadlineExceeded
			}
			require.ErrorIs(t, err, want, name)
		})
	}
	locked := func(lease *farsync.Lease, err error) error {
		if err == nil {
			_ = lease.Release()
		}
		return err
	}
	try("Lock", time.Second, func(ctx context.Context) error {
		return locked(farsync.NewMutex(callers, "/free").Lock(ctx))
	}, nil)
	try("Lock of a held one", time.Second, func(ctx context.Context) error {
		return locked(farsync.NewMutex(callers, "/long").Lock(ctx))
	}, nil)
	try("TryLock", time.Second, func(ctx context.Context) error {
		return locked(farsync.NewMutex(callers, "/free").TryLock(ctx))
	}, nil)
	try("Participants", time.Second, func(ctx context.Context) error {
		_, err := farsync.NewMutex(callers, "/long").Participants(ctx)
		return err
	}, nil)
	try("waiting Lock", time.Second, func(ctx context.Context) error {
		<-ctx.Done()
		giveUp()
		return <-waited
	}, context.Canceled)
	try("Release", ttl/3, func(context.Context) error { return released.Release() }, nil)
	left := 300 * time.Millisecond
	try("late Release", time.Until(late.Deadline()), func(context.Context) error {
		<-time.After(time.Until(late.Deadline()) - left)
		return late.Release()
	}, nil)
	try("Close", ttl/3, func(context.Context) error { return closed.Close() }, nil)
	all.Wait()
	require.ErrorIs(t, underClosed.Release(), farsync.ErrClosed)
	require.ErrorIs(t, released.Err(), farsync.ErrReleased)

	server.Resume()
	for _, path := range []string{"/free", "/released", "/late", "/closed"} {
		awaitKeys(t, admin, path, 0)
	}
	awaitKeys(t, admin, "/long", 1)
	require.NoError(t, long.Release())
	awaitKeys(t, admin, "/long", 0)
}

// TestWallTimeOpenReturnsWhenTheServerIsFrozen is C13 for the first call of all.
func TestWallTimeOpenReturnsWhenTheServerIsFrozen(t *testing.T) {
	noLeaks(t)
	server := embedtest.Etcd(t)
	client := newClient(t, server.Endpoint())
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begun := time.Now()
	_, err := etcd.Open(ctx, client, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(begun), time.Second+prompt)
}

// TestWallTimeWaitersReturnBehindAFullWatchStream is C13 for those who wait on a stream that takes no more requests, as
// that of a frozen server does some 10,000 requests later: the client of etcd then keeps to itself that a watch is over.
func TestWallTimeWaitersReturnBehindAFullWatchStream(t *testing.T) {
	noLeaks(t)
	server := embedtest.Etcd(t)
	var sent counter
	store := newStore(t, server.Endpoint(), nil, append(sent.dial(), grpc.WithChainStreamInterceptor(fullOfCancels))...)
	_, err := farsync.NewMutex(store, "/full").Lock(t.Context())
	require.NoError(t, err)
	holder, err := store.Entries(t.Context(), "/full")
	require.NoError(t, err)
	const waiters = 10
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	done := make(chan error, waiters)
	sent.since()
	for range waiters {
		go func() { done <- store.Wait(ctx, holder...) }()
	}
	sent.sinceWhen(t, "KV/Range", waiters) // the read that follows when the watch is on
	begun := time.Now()
	giveUp()
	for range waiters {
		select {
		case err := <-done:
			require.ErrorIs(t, err, context.Canceled)
		case <-time.After(time.Until(begun.Add(prompt))):
			require.FailNow(t, "a waiter is not back")
		}
	}
}

// fullOfCancels makes streams that are full when a watch is to be cancelled.
func fullOfCancels(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, options...)
	return fullStream{stream}, err
}

type fullStream struct{ grpc.ClientStream }

func (s fullStream) SendMsg(m any) error {
	if r, ok := m.(*pb.WatchRequest); ok && r.GetCancelRequest() != nil {
		<-s.Context().Done()
	}
	return s.ClientStream.SendMsg(m)
}
