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
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/zk"
)

// What the tests of every store share.
const soon = locktest.Soon

var (
	within, awaitQueue       = locktest.Within, locktest.AwaitQueue
	lock, lockBehind, behind = locktest.Lock, locktest.LockBehind, locktest.Behind
)

func TestMain(m *testing.M) {
	embedtest.Child()
	locktest.AtOnce(8)
	os.Exit(shared.Run(m))
}

// shared is the server of all tests that do it no harm.
var shared = locktest.Shared[*embedtest.ZooKeeperServers]{Start: func(ctx context.Context, dir string) (*embedtest.ZooKeeperServers, error) {
	return embedtest.StartZooKeeper(ctx, dir, 1)
}}

// sharedServer returns it.
func sharedServer(t testing.TB) *embedtest.ZooKeeperServer {
	t.Helper()
	server, err := shared.Get()
	if errors.Is(err, embedtest.ErrNoZooKeeper) {
		missing(t, err)
	}
	require.NoError(t, err)
	return server.Member(0)
}

// missing skips a test for which software is missing, or fails it if FARSYNC_REQUIRE_SERVERS is 1.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("FARSYNC_REQUIRE_SERVERS") == "1" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// begin begins a test that runs beside others, and leaves no goroutines. It returns the shared server and a client that is to
// see what is there.
func begin(t *testing.T) (server string, admin *client.Conn) {
	t.Helper()
	t.Parallel()
	server = sharedServer(t).Endpoint()
	locktest.NoLeaks(t)
	return server, newConn(t, server)
}

// longest is the TTL that the servers grant at most. A session of it is renewed every ten seconds: a test that counts
// requests, and whose steps follow one another at once, sees no renewal.
const longest = 40 * time.Second

// withTTL returns options that ask for a TTL.
func withTTL(ttl time.Duration) *zk.Options { return &zk.Options{Options: farsync.Options{TTL: ttl}} }

// as returns options with a user.
func as(user, password string) *zk.Options {
	return &zk.Options{Digest: &zk.Digest{User: user, Password: password}, PlaintextDigest: true}
}

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

// A tapped is a Store with a tap of its own.
type tapped struct {
	*farsync.Store
	tap *tap
}

// newTapped returns one on the server, closed by t.
func newTapped(t testing.TB, server string, options *zk.Options) tapped {
	t.Helper()
	p := newTap(t, server)
	return tapped{newStore(t, p.addr(), options), p}
}

// newStanding is newTapped on a driver that counts the watches that stand.
func newStanding(t testing.TB, server string) (tapped, *locktest.Standing) {
	t.Helper()
	p := newTap(t, server)
	service, err := zk.NewService([]string{p.addr()}, nil)
	require.NoError(t, err)
	standing := &locktest.Standing{Service: service}
	store, err := farsync.Open(within(t, soon), standing, &farsync.Options{TTL: longest})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return tapped{store, p}, standing
}

// openSession opens a session of the driver's own, closed by t.
func openSession(t testing.TB, server string, ttl time.Duration) driver.Session {
	t.Helper()
	service, err := zk.NewService([]string{server}, nil)
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), ttl)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(t, in.Close(ctx))
		require.NoError(t, service.Close())
	})
	return in
}

// create creates an entry.
func create(t testing.TB, in driver.Session, queue string, k driver.Kind) driver.Entry {
	t.Helper()
	e := driver.Entry{Queue: queue, ID: in.NewID(queue, k, 1), Kind: k, Units: 1, Value: []byte("drivertest")}
	v, err := in.Create(within(t, soon), e, 0)
	require.NoError(t, err)
	return v.Self
}

// newConn returns a connection of the stock client's, closed by t.
func newConn(t testing.TB, servers ...string) *client.Conn {
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

// got waits for what comes.
func got[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	return locktest.Got(t, from)
}

// nodeOf returns the node that stands for a lease.
func nodeOf(t testing.TB, lease *farsync.Lease) string {
	t.Helper()
	entries := locktest.GuardEntries(t, lease)
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

// awaitNodes waits until there are n nodes in a queue, and returns them.
func awaitNodes(t testing.TB, conn *client.Conn, path string, n int) (list []string) {
	t.Helper()
	await(t, func() bool {
		list = nodes(t, conn, path)
		return len(list) == n
	})
	return list
}

// await waits until that is so. It polls.
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

// restrict gives a node to a user, with certain rights for others. The client must be that user, or the node anyone's.
func restrict(t testing.TB, conn *client.Conn, path string, owner []client.ACL, others int32) {
	t.Helper()
	acl := owner
	if others != 0 {
		acl = append(client.WorldACL(others), owner...)
	}
	_, err := conn.SetACL(path, acl, -1)
	require.NoError(t, err)
}

// statOf returns the stat of a node that must be there.
func statOf(t testing.TB, conn *client.Conn, path string) *client.Stat {
	t.Helper()
	there, stat, err := conn.Exists(path)
	require.NoError(t, err)
	require.True(t, there, path)
	return stat
}
