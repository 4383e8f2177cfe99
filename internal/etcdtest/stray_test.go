package etcdtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// TestAnyTTLIsServed: the server has its own idea of the shortest.
func TestAnyTTLIsServed(t *testing.T) {
	_, client := begin(t)
	all := []time.Duration{10 * time.Second, 24 * time.Hour}
	if suite.More(t, suite.Etcd) { // else the machine has to be fast
		all = append(all, time.Second, 1500*time.Millisecond)
	}
	for _, d := range all {
		store := storeOn(t, client, ttl(d))
		lease := lock(t, store, "/ttl")
		granted, err := client.TimeToLive(t.Context(), clientv3.LeaseID(keysOf(t, client, "/ttl")[0].Lease))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Duration(granted.GrantedTTL)*time.Second, d)
		require.LessOrEqual(t, time.Until(lease.Deadline()), time.Duration(granted.GrantedTTL)*time.Second)
		require.Greater(t, time.Until(lease.Deadline()), time.Duration(0))
		require.NoError(t, lease.Release())
		require.NoError(t, store.Close())
	}
}

// TestClosedClientEndsItsStore: who closes the client first has closed the Store, too.
func TestClosedClientEndsItsStore(t *testing.T) {
	server, _ := begin(t)
	client := clientOf(t, clientv3.Config{Endpoints: []string{server.Endpoint()}})
	var log locktest.Log
	options := ttl(time.Minute)
	options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	store := storeOn(t, client, options)
	lease := lock(t, store, "/client")
	waited := make(chan error, 1)
	go func() {
		_, err := farsync.NewMutex(store, "/client").Lock(t.Context())
		waited <- err
	}()
	awaitQueue(t, store, "/client", 2)

	require.NoError(t, client.Close())
	closed := func(err error) { // and no ctx of a caller's was cancelled
		t.Helper()
		require.ErrorIs(t, err, farsync.ErrClosed)
		require.NotErrorIs(t, err, context.Canceled)
	}
	closed(locktest.Returns(t, soon, "Lock under way", func() error { return <-waited }))
	ended(t, lease)
	closed(lease.Err())
	log.Await(t, `level=WARN msg="lock lost" path=/client`)
	require.Contains(t, log.String(), `level=WARN msg="store ended with its client" locks=1`)
	closed(locktest.Returns(t, soon, "Release", lease.Release))
	for _, by := range acquirers {
		closed(locktest.Returns(t, soon, by.name, func() error {
			_, err := by.lock(farsync.NewMutex(store, "/another"), t.Context())
			return err
		}))
	}
	require.ErrorIs(t, locktest.Returns(t, soon, "Participants", func() error {
		_, err := store.Participants(t.Context(), "/client")
		return err
	}), farsync.ErrClosed)
	const why = "the session could not be ended at the server"
	require.ErrorIs(t, locktest.Returns(t, soon, "Close", store.Close), farsync.ErrUnavailable, why)
	require.ErrorIs(t, locktest.Returns(t, soon, "another Close", store.Close), farsync.ErrUnavailable, why)
}

// TestKeyWithoutLeaseIsRefusedByName: it would block everything behind it for ever, without a word of why.
func TestKeyWithoutLeaseIsRefusedByName(t *testing.T) {
	server, admin := begin(t)
	store := newStore(t, server.Endpoint(), ttl(time.Minute))
	mu := farsync.NewMutex(store, "/stray")
	for _, name := range []string{"README", "m-README", "0", ""} {
		key := "/stray/" + name
		_, err := admin.Put(t.Context(), key, "hello")
		require.NoError(t, err)
		for _, by := range acquirers {
			_, err := by.lock(mu, within(t, soon))
			require.ErrorContains(t, err, fmt.Sprintf("%q", key))
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			awaitKeys(t, admin, "/stray", 1)
		}
		_, err = store.Participants(t.Context(), "/stray")
		require.ErrorContains(t, err, fmt.Sprintf("%q", key))
		_, err = admin.Delete(t.Context(), key)
		require.NoError(t, err)
	}
	lease, err := mu.TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Release())
}

// TestKeysOfOtherQueuesAreIgnored: not those further down, however many, nor those of a path that begins alike.
func TestKeysOfOtherQueuesAreIgnored(t *testing.T) {
	server, admin := begin(t)
	store := newStore(t, server.Endpoint(), ttl(time.Minute))
	var puts []clientv3.Op
	flush := func() {
		_, err := admin.Txn(t.Context()).Then(puts...).Commit()
		require.NoError(t, err)
		puts = nil
	}
	keys := 1000
	if suite.More(t, suite.Etcd) {
		keys = 10_000
	}
	for i := range keys {
		// Before ours and behind them in the order of keys.
		puts = append(puts, clientv3.OpPut(fmt.Sprintf("/path/%s/%d", []string{"a", "z"}[i%2], i), "hello"))
		if len(puts) == 128 {
			flush()
		}
	}
	for _, key := range []string{"/path", "/path2", "/path2/m-1", "/pat/m-1", "/path.", "/path-/m-1", "/path/x/y"} {
		puts = append(puts, clientv3.OpPut(key, "hello"))
	}
	flush()
	for _, by := range acquirers {
		lease, err := by.lock(farsync.NewMutex(store, "/path"), within(t, soon))
		require.NoError(t, err, by.name)
		behind := lockBehind(t, store, "/path")
		awaitQueue(t, store, "/path", 2)
		_, err = farsync.NewMutex(store, "/path").TryLock(within(t, soon))
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.NoError(t, lease.Release())
		require.NoError(t, got(t, behind).Release())
	}
}

// TestBigForeignKeyBlocksLikeAnyOther: 1 MiB is about as much as the server takes.
func TestBigForeignKeyBlocksLikeAnyOther(t *testing.T) {
	server, admin := begin(t)
	store := newStore(t, server.Endpoint(), ttl(time.Minute))
	grant, err := admin.Grant(t.Context(), 600)
	require.NoError(t, err)
	_, err = admin.Put(t.Context(), "/big/foreign", strings.Repeat("x", 1<<20), clientv3.WithLease(grant.ID))
	require.NoError(t, err)
	mu := farsync.NewMutex(store, "/big")
	_, err = mu.TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	waiter := lockBehind(t, store, "/big")
	awaitKeys(t, admin, "/big", 2)
	list, err := store.Participants(t.Context(), "/big")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Len(t, list[0].Holder, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := farsync.NewMutex(store, "/big").Lock(locktest.Apart(ctx))
		waited <- err
	}()
	awaitKeys(t, admin, "/big", 3)
	cancel()
	err = <-waited
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, len(err.Error()), 1000, "what others write does not flood the caller's log")
	_, err = admin.Delete(t.Context(), "/big/foreign")
	require.NoError(t, err)
	require.NoError(t, got(t, waiter).Release())
}

// TestClientClosedWhileItsStoreOpens: an Open either succeeds, and its Store ends with the client, or says why it did not.
func TestClientClosedWhileItsStoreOpens(t *testing.T) {
	suite.Long(t, suite.Etcd, "clients are closed at random moments, and what they leave is counted")
	server, admin := beginAlone(t)
	var all sync.WaitGroup
	for range 50 {
		client := clientOf(t, clientv3.Config{Endpoints: []string{server.Endpoint()}})
		all.Go(func() {
			time.AfterFunc(rand.N(10*time.Millisecond), func() { _ = client.Close() })
			store, err := etcd.Open(within(t, soon), client, short)
			if err != nil {
				assert.ErrorIs(t, err, farsync.ErrClosed) //nolint:testifylint // not in the test's goroutine
				assert.NotErrorIs(t, err, farsync.ErrUnavailable)
				return
			}
			_, err = farsync.NewMutex(store, "/closed").Lock(t.Context())
			for err == nil {
				_, err = farsync.NewMutex(store, "/closed/again").TryLock(t.Context())
			}
			_ = store.Close() // says that it could not end the session
		})
	}
	all.Wait()
	require.Eventually(t, func() bool {
		resp, err := admin.Leases(within(t, soon))
		return err == nil && len(resp.Leases) == 0
	}, soon, 10*time.Millisecond)
}

// TestSurveyShowsNothingThatIsNotAQueue: other programs register with leases, too, and what a service has registered is not for
// all to see that may look at locks.
func TestSurveyShowsNothingThatIsNotAQueue(t *testing.T) {
	server, admin := begin(t)
	store := newStore(t, server.Endpoint(), ttl(time.Minute))
	granted, err := admin.Grant(t.Context(), 600)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.Revoke(context.Background(), granted.ID) // the test's context has ended
		require.NoError(t, err)
	})
	for _, key := range []string{
		"/services/api/10.0.0.1:80", "/services/m-1", "/services/s3-ABCDEFGHIJKLMNOPQRSTUVWXYZ/config", "/services/db/m-abcdefghijklmnopqrstuvwxyz",
		"/services/m-ABCDEFGHIJKLMNOPQRSTUVWXYZA", "/services/mm-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "/services/s0-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		"/services//s3-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "/services/a b/s3-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "/services/locked/a-stranger",
	} {
		_, err := admin.Put(t.Context(), key, "hello", clientv3.WithLease(granted.ID))
		require.NoError(t, err)
	}
	_, err = admin.Put(t.Context(), "/services/m-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "no lease")
	require.NoError(t, err)
	peer := mutexPeer{concurrency.NewMutex(sessionOf(t, admin), "/services/peer")}
	require.NoError(t, peer.enter(within(t, soon), ""))
	waiting := lockBehind(t, store, "/services/locked")
	awaitQueue(t, store, "/services/locked", 2)

	shown := map[string]int{}
	for lock, err := range store.Survey(within(t, soon), "/services") {
		require.NoError(t, err)
		shown[lock.Path] = len(lock.Participants)
	}
	require.Equal(t, map[string]int{"/services/peer": 1, "/services/locked": 2}, shown, "a stranger in a queue is part of it")
	_, err = admin.Delete(t.Context(), "/services/locked/a-stranger")
	require.NoError(t, err)
	require.NoError(t, got(t, waiting).Release())
	require.NoError(t, peer.leave(within(t, soon)))
}

// TestSurveyOutlivesACompaction: of the revision at which it has read its first page, before it reads the second.
func TestSurveyOutlivesACompaction(t *testing.T) {
	server, admin := beginAlone(t)
	granted, err := admin.Grant(t.Context(), 600)
	require.NoError(t, err)
	const keys = 600
	for i := range keys {
		_, err := admin.Put(t.Context(), fmt.Sprintf("/many/%03d/%x", i, int64(granted.ID)), "", clientv3.WithLease(granted.ID))
		require.NoError(t, err)
	}
	var pages atomic.Int64
	compact := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		if method == getRange && pages.Add(1) == 2 {
			resp, err := admin.Put(ctx, "/other", "")
			require.NoError(t, err)
			_, err = admin.Compact(ctx, resp.Header.Revision)
			require.NoError(t, err)
		}
		return invoke(ctx, method, req, reply, cc, options...)
	}
	store := newStore(t, server.Endpoint(), ttl(time.Minute), grpc.WithChainUnaryInterceptor(compact))
	shown := 0
	for _, err := range store.Survey(within(t, soon), "/many") {
		require.NoError(t, err)
		shown++
	}
	require.Equal(t, keys, shown)
}
