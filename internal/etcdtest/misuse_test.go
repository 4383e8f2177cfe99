package etcdtest_test

import (
	"context"
	"fmt"
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

func TestOpenRefusesMisuseWithoutTraffic(t *testing.T) {
	noLeaks(t)
	var sent counter
	client := newClient(t, embedtest.Etcd(t).Endpoint(), sent.dial()...)
	refused := func(why string, o farsync.Options) {
		_, err := etcd.Open(t.Context(), client, &etcd.Options{Options: o})
		require.ErrorContains(t, err, "farsync: open etcd", why)
	}
	for _, ttl := range []time.Duration{-1, -time.Hour, 1, time.Second - 1, 24*time.Hour + 1, 1<<63 - 1} {
		refused("a TTL out of range", farsync.Options{TTL: ttl})
	}
	for holder, why := range map[string]string{
		strings.Repeat("x", 1<<20): "too long",
		strings.Repeat("x", 1025):  "too long",
		"a\nb":                     "of two lines: the second would pass for the time",
		"a\x00":                    "NUL",
		"a\u202eb":                 "shows as another",
		"\x1b[2J":                  "clears the reader's screen",
	} {
		refused(why, farsync.Options{Holder: holder})
	}
	require.Empty(t, sent.since())
	require.NoError(t, client.Close())
	_, err := etcd.Open(t.Context(), client, nil)
	require.ErrorIs(t, err, farsync.ErrClosed)
	_, err = etcd.Open(t.Context(), nil, nil)
	require.Error(t, err)
	_, err = etcd.Open(t.Context(), clientv3.NewCtxClient(t.Context()), nil)
	require.Error(t, err, "a client without a connection")
}

// TestOddPathsAreServed: none of them looks like a path and a key to the driver.
func TestOddPathsAreServed(t *testing.T) {
	server, _ := begin(t)
	store := newStore(t, server.Endpoint(), nil)
	for _, path := range []string{
		"/a", "/zookeeperx", "/a/zookeeper", "/_c", "/a_c_b", "/...", "/-", "/" + strings.Repeat("a", 128),
		strings.Repeat("/abcdefg", 128), "/m-1", "/a/m-1",
	} {
		require.NoError(t, lock(t, store, path).Release())
	}
}

// TestAnyTTLIsServed is E8: the server has its own idea of the shortest.
func TestAnyTTLIsServed(t *testing.T) {
	_, client := begin(t)
	for _, d := range []time.Duration{time.Second, 1500 * time.Millisecond, 24 * time.Hour} {
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
	_, client := begin(t)
	store := storeOn(t, client, ttl(6*time.Second))
	lease := lock(t, store, "/client")
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
		_, err := farsync.NewMutex(store, "/client").Participants(t.Context())
		return err
	}), farsync.ErrClosed)
	const why = "the session could not be ended at the server"
	require.ErrorIs(t, returns(t, "Close", store.Close), farsync.ErrUnavailable, why)
	require.ErrorIs(t, returns(t, "another Close", store.Close), farsync.ErrUnavailable, why)
}

// TestKeyWithoutLeaseIsRefusedByName is E10: it would block everybody behind it for ever, and nobody would know why.
func TestKeyWithoutLeaseIsRefusedByName(t *testing.T) {
	server, admin := begin(t)
	mu := farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/stray")
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
	server, admin := begin(t)
	store := newStore(t, server.Endpoint(), nil)
	holder := lock(t, store, "/behind")
	before := lockBehind(t, farsync.NewMutex(store, "/behind"))
	awaitKeys(t, admin, "/behind", 2)
	_, err := admin.Put(t.Context(), "/behind/stray", "hello")
	require.NoError(t, err)
	_, err = farsync.NewMutex(store, "/behind").Lock(within(t, soon))
	require.ErrorContains(t, err, `"/behind/stray"`)
	awaitKeys(t, admin, "/behind", 3)
	require.NoError(t, holder.Release())
	require.NoError(t, got(t, before).Release())
}

// TestKeysOfOtherQueuesAreIgnored is E10: not those further down, however many, nor those of a path that begins alike.
func TestKeysOfOtherQueuesAreIgnored(t *testing.T) {
	server, admin := begin(t)
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
	for _, by := range acquirers {
		lease, err := by.lock(farsync.NewMutex(store, "/path"), within(t, soon))
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
	server, admin := begin(t)
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
	server, admin := begin(t)
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
