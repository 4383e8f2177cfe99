// Package zktest holds package zk to what it promises, against real servers of ZooKeeper. The tests are not in package zk
// itself, since go mod tidy resolves what the tests of an imported package import: a program that imports package zk would
// download the etcd server that embedtest starts.
package zktest

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/zk"
)

// soon is for what has to happen at all. No test is to get near it.
const soon = 30 * time.Second

func TestMain(m *testing.M) {
	embedtest.Child()
	code := m.Run()
	if shared.servers != nil {
		if err := errors.Join(shared.servers.Close(), os.RemoveAll(shared.dir)); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}

// shared is the server of all tests that do it no harm. Each has paths of its own.
var shared struct {
	once    sync.Once
	dir     string
	servers *embedtest.ZooKeeperServers
	err     error
}

// sharedServer returns it. Call it before noLeaks: the server is there until the last test has ended.
func sharedServer(t testing.TB) *embedtest.ZooKeeperServer {
	t.Helper()
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*soon)
		defer cancel()
		if shared.dir, shared.err = os.MkdirTemp("", "farsync-zk"); shared.err == nil { //nolint:usetesting // it outlives the test
			shared.servers, shared.err = embedtest.StartZooKeeper(ctx, shared.dir, 1)
		}
	})
	if errors.Is(shared.err, embedtest.ErrNoZooKeeper) {
		missing(t, shared.err)
	}
	require.NoError(t, shared.err)
	return shared.servers.Member(0)
}

// missing skips a test for which software is missing, or fails it if FARSYNC_REQUIRE_SERVERS is 1.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("FARSYNC_REQUIRE_SERVERS") == "1" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// withTTL returns options that ask for a TTL.
func withTTL(ttl time.Duration) *zk.Options { return &zk.Options{Options: farsync.Options{TTL: ttl}} }

// newStore returns a Store, closed by t.
func newStore(t testing.TB, server string, options *zk.Options) *farsync.Store {
	t.Helper()
	return storeOn(t, []string{server}, options)
}

// storeOn is newStore for several servers.
func storeOn(t testing.TB, servers []string, options *zk.Options) *farsync.Store {
	t.Helper()
	store, err := zk.Open(within(t, soon), servers, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// newConn returns a connection of the stock client's, closed by t.
func newConn(t testing.TB, server string) *client.Conn {
	t.Helper()
	return connTo(t, []string{server})
}

// connTo is newConn for several servers.
func connTo(t testing.TB, servers []string) *client.Conn {
	t.Helper()
	conn, events, err := client.Connect(servers, 30*time.Second,
		client.WithLogInfo(false), client.WithLogger(silent{}))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events {
		}
	})
	return conn
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// noLeaks fails the test if goroutines are left when everything it has opened is closed. Call it first. What is left of
// an Open that failed takes a moment to end.
func noLeaks(t testing.TB) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		for begun := time.Now(); ; {
			err := goleak.Find(before)
			if err == nil {
				return
			}
			if time.Since(begun) > soon {
				t.Error(err)
				return
			}
		}
	})
}

// within returns a context for what a server should have done long before.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// lock locks, which must succeed.
func lock(t testing.TB, store *farsync.Store, path string) *farsync.Lease {
	t.Helper()
	lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
	require.NoError(t, err)
	return lease
}

// lockBehind locks in a goroutine, which t joins.
func lockBehind(t testing.TB, store *farsync.Store, path string) chan *farsync.Lease {
	got := make(chan *farsync.Lease, 1)
	done := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(done)
		lease, err := farsync.NewMutex(store, path).Lock(ctx)
		if err == nil {
			got <- lease
		} else if ctx.Err() == nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { <-done })
	return got
}

// got waits for what comes, a lease of lockBehind, say.
func got[T any](t testing.TB, from <-chan T) (what T) {
	t.Helper()
	select {
	case what = <-from:
	case <-time.After(soon):
		require.FailNow(t, "nothing came")
	}
	return what
}

// ended waits until the lease has.
func ended(t testing.TB, lease *farsync.Lease) {
	t.Helper()
	select {
	case <-lease.Done():
	case <-time.After(soon):
		require.FailNow(t, "the lease has not ended")
	}
}

// nodeOf returns the node that stands for a lease.
func nodeOf(t testing.TB, lease *farsync.Lease) string {
	t.Helper()
	entries := lease.Entries()
	require.Len(t, entries, 1)
	return entries[0].ID
}

// nodes returns the paths of a queue's nodes by their sequences.
func nodes(t testing.TB, conn *client.Conn, path string) []string {
	t.Helper()
	names, _, err := conn.Children(path)
	if !errors.Is(err, client.ErrNoNode) {
		require.NoError(t, err)
	}
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(a[strings.LastIndexByte(a, '-')+1:], b[strings.LastIndexByte(b, '-')+1:])
	})
	for i, name := range names {
		names[i] = path + "/" + name
	}
	return names
}

// awaitNodes waits until there are n nodes in a queue, and returns them. It polls, so that it sees what anybody else
// would see who came by.
func awaitNodes(t testing.TB, conn *client.Conn, path string, n int) (list []string) {
	t.Helper()
	await(t, func() bool {
		list = nodes(t, conn, path)
		return len(list) == n
	})
	return list
}

// await waits until that is so.
func await(t testing.TB, so func() bool) {
	t.Helper()
	for begun := time.Now(); !so(); {
		require.Less(t, time.Since(begun), soon)
		pause(t, 2*time.Millisecond)
	}
}

// pause is for tests that poll, or that are about time.
func pause(t testing.TB, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// persistent makes a queue's node and those above it, as nodes that nobody collects.
func persistent(t testing.TB, conn *client.Conn, path string) {
	t.Helper()
	for i := 1; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' {
			_, err := conn.Create(path[:i], nil, 0, client.WorldACL(client.PermAll))
			if !errors.Is(err, client.ErrNodeExists) {
				require.NoError(t, err)
			}
		}
	}
}

// statOf returns the stat of a node that must be there.
func statOf(t testing.TB, conn *client.Conn, path string) *client.Stat {
	t.Helper()
	there, stat, err := conn.Exists(path)
	require.NoError(t, err)
	require.True(t, there, path)
	return stat
}

// restrict gives a node to the digest user alone.
func restrict(t testing.TB, conn *client.Conn, path string) {
	t.Helper()
	_, err := conn.SetACL(path, append(client.DigestACL(client.PermAll, "user", "password"),
		client.WorldACL(client.PermRead)...), -1)
	if !errors.Is(err, client.ErrNoAuth) { // it is already
		require.NoError(t, err)
	}
}

// awaitQueue waits until a store sees n in a queue.
func awaitQueue(t testing.TB, store *farsync.Store, path string, n int) {
	t.Helper()
	await(t, func() bool {
		entries, _, err := recipe.Queue{Store: store, Path: path}.List(t.Context(), 0)
		require.NoError(t, err)
		return len(entries) == n
	})
}
