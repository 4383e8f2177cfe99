package etcd_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
)

func TestBadNamesAreRefusedWithoutTraffic(t *testing.T) {
	noLeaks(t)
	var sent counter
	store := newStore(t, embedtest.Etcd(t).Endpoint(), nil, sent.dial()...)
	require.Panics(t, func() { farsync.NewMutex(store, "") })
	require.Panics(t, func() { farsync.NewMutex(nil, "/a") })
	sent.since()
	for _, row := range []struct{ path, why string }{
		{"/", "no queue of the root"},
		{"//", "empty segments"},
		{"a", "no leading slash"},
		{"a//b", "no leading slash either"},
		{"/a//b", "an empty segment: its prefix is not that of /a/b, but people take it for the same"},
		{"//a", "two leading slashes"},
		{"/a/", "a trailing slash"},
		{"/a/../b", "nobody resolves that"},
		{"..", "nor that"},
		{"/.", "ZooKeeper refuses it"},
		{"/..", "so does it this"},
		{"/a\x00b", "NUL"},
		{"/a\nb", "a control character"},
		{"/a b", "a space"},
		{"/a\u202eb", "a bidi override shows another name than it is"},
		{"/ä", "not ASCII: two spellings look the same"},
		{"/\xff", "not UTF-8"},
		{"/" + strings.Repeat("a", 129), "a long segment"},
		{strings.Repeat("/abcdefg", 256), "2 KiB"},
		{"/_c_x", "Curator's"},
		{"/a/_c_x", "Curator's, further down"},
		{"/zookeeper", "ZooKeeper's own"},
		{"/zookeeper/x", "below ZooKeeper's own"},
	} {
		mu := farsync.NewMutex(store, row.path)
		for _, by := range acquirers {
			_, err := by.lock(mu, t.Context())
			require.ErrorIs(t, err, farsync.ErrName, "%s %q: %s", by.name, row.path, row.why)
			require.Less(t, len(err.Error()), 1200)
		}
		_, err := mu.Participants(t.Context())
		require.ErrorIs(t, err, farsync.ErrName, "%q: %s", row.path, row.why)
		require.ErrorIs(t, mu.Do(t.Context(), nil), farsync.ErrName, "%q: %s", row.path, row.why)
	}
	require.Empty(t, sent.since())
	for _, path := range []string{
		"/a", "/zookeeperx", "/a/zookeeper", "/_c", "/a_c_b", "/...", "/-", "/" + strings.Repeat("a", 128),
		strings.Repeat("/abcdefg", 128), "/m-1", "/a/m-1",
	} {
		lease, err := farsync.NewMutex(store, path).TryLock(t.Context())
		require.NoError(t, err, path)
		require.NoError(t, lease.Release(), path)
	}
}

func TestOpenRefusesBadOptionsWithoutTraffic(t *testing.T) {
	noLeaks(t)
	var sent counter
	client := newClient(t, embedtest.Etcd(t).Endpoint(), sent.dial()...)
	for _, row := range []struct {
		options etcd.Options
		why     string
	}{
		{etcd.Options{Options: farsync.Options{TTL: -1}}, "TTL below zero"},
		{etcd.Options{Options: farsync.Options{TTL: -time.Hour}}, "TTL below zero"},
		{etcd.Options{Options: farsync.Options{Holder: strings.Repeat("x", 1<<20)}}, "Holder too long"},
		{etcd.Options{Options: farsync.Options{Holder: strings.Repeat("x", 1025)}}, "Holder too long"},
		{etcd.Options{Options: farsync.Options{Holder: "a\nb"}}, "Holder of two lines: the second would pass for the time"},
		{etcd.Options{Options: farsync.Options{Holder: "a\x00"}}, "NUL in Holder"},
		{etcd.Options{Options: farsync.Options{Holder: "a\u202eb"}}, "Holder shows as another"},
		{etcd.Options{Options: farsync.Options{Holder: "\x1b[2J"}}, "Holder clears the reader's screen"},
	} {
		_, err := etcd.Open(t.Context(), client, &row.options)
		require.ErrorContains(t, err, "farsync: open etcd", row.why)
	}
	require.Empty(t, sent.since())
	_, err := etcd.Open(t.Context(), nil, nil)
	require.Error(t, err)
	_, err = etcd.Open(t.Context(), clientv3.NewCtxClient(t.Context()), nil)
	require.Error(t, err, "a client without a connection")
}

// TestAnyTTLIsServed is E8: the server has its own idea of the shortest. What is shorter than a second or longer than a
// day is a slip, and refused.
func TestAnyTTLIsServed(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	client := newClient(t, embedtest.Etcd(t).Endpoint())
	for _, ttl := range []time.Duration{time.Second, 1500 * time.Millisecond, 24 * time.Hour} {
		store := storeOn(t, client, &etcd.Options{Options: farsync.Options{TTL: ttl}})
		lease, err := farsync.NewMutex(store, "/ttl").Lock(within(t, soon))
		require.NoError(t, err, ttl)
		granted, err := client.TimeToLive(t.Context(), clientv3.LeaseID(keysOf(t, client, "/ttl")[0].Lease))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Duration(granted.GrantedTTL)*time.Second, ttl)
		require.LessOrEqual(t, time.Until(lease.Deadline()), time.Duration(granted.GrantedTTL)*time.Second)
		require.Greater(t, time.Until(lease.Deadline()), time.Duration(0))
		require.NoError(t, lease.Release())
		require.NoError(t, store.Close())
	}
	for _, ttl := range []time.Duration{1, time.Second - 1, 24*time.Hour + 1, 1<<63 - 1} {
		_, err := etcd.Open(within(t, soon), client, &etcd.Options{Options: farsync.Options{TTL: ttl}})
		require.ErrorContains(t, err, "out of range", ttl)
	}
}

func TestOpenOnAClosedClientIsRefused(t *testing.T) {
	noLeaks(t)
	client := newClient(t, embedtest.Etcd(t).Endpoint())
	require.NoError(t, client.Close())
	_, err := etcd.Open(t.Context(), client, nil)
	require.ErrorIs(t, err, farsync.ErrClosed)
}

// TestClosedClientEndsItsStore: who closes the client first has closed the Store, too.
func TestClosedClientEndsItsStore(t *testing.T) {
	noLeaks(t)
	server := embedtest.Etcd(t)
	client := newClient(t, server.Endpoint())
	store := storeOn(t, client, &etcd.Options{Options: farsync.Options{TTL: 6 * time.Second}})
	mu := farsync.NewMutex(store, "/client")
	lease, err := mu.Lock(t.Context())
	require.NoError(t, err)
	waited := make(chan error, 1)
	go func() {
		_, err := farsync.NewMutex(store, "/client").Lock(t.Context())
		waited <- err
	}()
	awaitQueue(t, store, "/client", 2)

	require.NoError(t, client.Close())
	require.ErrorIs(t, returns(t, "Lock under way", func() error { return <-waited }), farsync.ErrClosed)
	ended(t, lease)
	require.ErrorIs(t, lease.Err(), farsync.ErrClosed)
	require.ErrorIs(t, returns(t, "Release", lease.Release), farsync.ErrClosed)
	for _, by := range acquirers {
		require.ErrorIs(t, returns(t, by.name, func() error {
			_, err := by.lock(farsync.NewMutex(store, "/another"), t.Context())
			return err
		}), farsync.ErrClosed)
	}
	require.ErrorIs(t, returns(t, "Participants", func() error {
		_, err := mu.Participants(t.Context())
		return err
	}), farsync.ErrClosed)
	const why = "the session could not be ended at the server"
	require.ErrorIs(t, returns(t, "Close", store.Close), farsync.ErrUnavailable, why)
	require.ErrorIs(t, returns(t, "another Close", store.Close), farsync.ErrUnavailable, why)
}

// TestOpenWithoutServerFails: nobody listens there.
func TestOpenWithoutServerFails(t *testing.T) {
	noLeaks(t)
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	client := newClient(t, "http://"+listener.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, returns(t, "Open", func() error {
		_, err := etcd.Open(ctx, client, nil)
		return err
	}), context.DeadlineExceeded)
}

// TestKeyWithoutLeaseIsRefusedByName is E10: it would block everybody behind it for ever, and nobody would know why.
func TestKeyWithoutLeaseIsRefusedByName(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), nil)
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
		_, err = mu.Participants(t.Context())
		require.ErrorContains(t, err, fmt.Sprintf("%q", key))
		_, err = admin.Delete(t.Context(), key)
		require.NoError(t, err)
	}
	lease, err := mu.TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Release())
}

// TestKeyWithoutLeaseHurtsOnlyThoseBehind is E10: who was there before it has the lock, or gets it.
func TestKeyWithoutLeaseHurtsOnlyThoseBehind(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), nil)
	holder, err := farsync.NewMutex(store, "/behind").Lock(t.Context())
	require.NoError(t, err)
	before := lockBehind(t, farsync.NewMutex(store, "/behind"))
	awaitKeys(t, admin, "/behind", 2)
	_, err = admin.Put(t.Context(), "/behind/stray", "hello")
	require.NoError(t, err)
	_, err = farsync.NewMutex(store, "/behind").Lock(within(t, soon))
	require.ErrorContains(t, err, `"/behind/stray"`)
	awaitKeys(t, admin, "/behind", 3)
	require.NoError(t, holder.Release())
	require.NoError(t, got(t, before).Release())
}

// TestKeysOfOtherQueuesAreIgnored is E10: not those further down, however many, nor those of a path that begins alike.
func TestKeysOfOtherQueuesAreIgnored(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), nil)
	var puts []clientv3.Op
	flush := func() {
		_, err := admin.Txn(t.Context()).Then(puts...).Commit()
		require.NoError(t, err)
		puts = nil
	}
	for i := range 10_000 {
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
	mu := farsync.NewMutex(store, "/path")
	for _, by := range acquirers {
		lease, err := by.lock(mu, within(t, soon))
		require.NoError(t, err, by.name)
		behind := lockBehind(t, farsync.NewMutex(store, "/path"))
		awaitQueue(t, store, "/path", 2)
		_, err = farsync.NewMutex(store, "/path").TryLock(within(t, soon))
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.NoError(t, lease.Release())
		require.NoError(t, got(t, behind).Release())
	}
}

// TestBigForeignKeyBlocksLikeAnyOther: 1 MiB is about as much as the server takes.
func TestBigForeignKeyBlocksLikeAnyOther(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), nil)
	grant, err := admin.Grant(t.Context(), 600)
	require.NoError(t, err)
	_, err = admin.Put(t.Context(), "/big/foreign", strings.Repeat("x", 1<<20), clientv3.WithLease(grant.ID))
	require.NoError(t, err)
	mu := farsync.NewMutex(store, "/big")
	_, err = mu.TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	waiter := lockBehind(t, mu)
	awaitKeys(t, admin, "/big", 2)
	list, err := mu.Participants(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Len(t, list[0].Holder, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := farsync.NewMutex(store, "/big").Lock(ctx)
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

// TestPermissions: with authentication on, READWRITE on a prefix is enough, and less is refused at once.
func TestPermissions(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	ctx := within(t, soon)
	as := func(user string) *clientv3.Client {
		return clientOf(t, clientv3.Config{Endpoints: []string{server.Endpoint()}, Username: user, Password: "secret"})
	}
	must := func(_ any, err error) {
		t.Helper()
		require.NoError(t, err)
	}
	for user, permission := range map[string]clientv3.PermissionType{
		"writer": clientv3.PermissionType(clientv3.PermReadWrite), "reader": clientv3.PermissionType(clientv3.PermRead),
	} {
		must(admin.RoleAdd(ctx, user))
		must(admin.RoleGrantPermission(ctx, user, "/locks/", clientv3.GetPrefixRangeEnd("/locks/"), permission))
		must(admin.UserAdd(ctx, user, "secret"))
		must(admin.UserGrantRole(ctx, user, user))
	}
	must(admin.UserAdd(ctx, "nobody", "secret"))
	must(admin.UserAdd(ctx, "root", "secret"))
	must(admin.UserGrantRole(ctx, "root", "root"))
	must(admin.AuthEnable(ctx))
	root := as("root")
	defer func() { must(root.AuthDisable(context.WithoutCancel(ctx))) }()

	for _, row := range []struct{ user, path string }{
		{"nobody", "/locks/a"}, {"reader", "/locks/a"}, {"writer", "/elsewhere/a"},
	} {
		store := storeOn(t, as(row.user), nil)
		for _, by := range acquirers {
			_, err := by.lock(farsync.NewMutex(store, row.path), within(t, soon))
			require.ErrorIs(t, err, rpctypes.ErrPermissionDenied, "%s by %s of %s", by.name, row.user, row.path)
			require.Empty(t, keysOf(t, root, row.path))
		}
		require.NoError(t, store.Close())
	}

	store := storeOn(t, as("writer"), nil)
	mu := farsync.NewMutex(store, "/locks/a")
	lease, err := mu.Lock(ctx)
	require.NoError(t, err)
	waiter := lockBehind(t, farsync.NewMutex(storeOn(t, as("writer"), nil), "/locks/a"))
	awaitQueue(t, store, "/locks/a", 2)
	_, err = farsync.NewMutex(storeOn(t, as("reader"), nil), "/locks/a").TryLock(ctx)
	require.ErrorIs(t, err, farsync.ErrLocked, "a reader sees that it is taken")
	first := lease.Deadline()
	require.Eventually(t, func() bool { return lease.Deadline().After(first) }, soon, time.Millisecond, "renewed")
	require.NoError(t, lease.Release())
	require.NoError(t, got(t, waiter).Release())
	list, err := mu.Participants(ctx)
	require.NoError(t, err)
	require.Empty(t, list)
	held, err := mu.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	require.ErrorIs(t, held.Err(), farsync.ErrClosed)
	require.Empty(t, keysOf(t, root, "/locks/a"), "Close may revoke")
}
