package redistest_test

import (
	"strings"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/redis"
)

// neighbour returns a user of the same server with rights of its own: docs/SECURITY.md says what each can do to the
// locks of others.
func neighbour(t testing.TB, server *embedtest.RedisServer, rules ...any) *client.Client {
	t.Helper()
	admin := newClient(t, server.Endpoint())
	require.NoError(t, admin.Do(within(t, soon), append([]any{"ACL", "SETUSER", "neighbour", "reset", "on", ">pass"}, rules...)...).Err())
	c := client.NewClient(&client.Options{Addr: server.Endpoint(), Username: "neighbour", Password: "pass", MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// forbidden expects the server to refuse commands for want of a right.
func forbidden(t testing.TB, c *client.Client, commands ...string) {
	t.Helper()
	for _, command := range commands {
		var words []any
		for word := range strings.FieldsSeq(command) {
			words = append(words, strings.ReplaceAll(word, "%", prefix))
		}
		require.ErrorContains(t, c.Do(within(t, soon), words...).Err(), "NOPERM", command)
	}
}

// writes are commands that would each change who holds what, and do so for whoever has the keys. A script cannot have
// more rights than its caller.
var writes = []string{
	"DEL %q:/mine", "ZADD %q:/mine 1 x", "ZREM %q:/mine x", "HSET %e:x kind write", "ZADD %sessions 0 x", "SET %run x", "RENAME %sessions x", "EXPIRE %sessions 1",
	"EVAL return{redis.call('DEL',KEYS[1])} 1 %sessions",
}

// TestNeighbourInAnotherNamespace, with all that a Store needs there, reaches nothing here.
func TestNeighbourInAnotherNamespace(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	n := neighbour(t, server, "~farsync:{theirs}:*", "&farsync:{theirs}:*", "+@all", "-@admin", "-@dangerous", "+info")
	holder, other := newStore(t, server.Endpoint(), fresh(time.Hour)), newStore(t, server.Endpoint(), fresh(time.Hour))
	lease := lock(t, holder, "/mine")
	next := locktest.LockBehind(t, other, "/mine")
	locktest.AwaitQueue(t, other, "/mine", 2)
	forbidden(t, n, writes...)
	forbidden(t, n, "ZRANGE %q:/mine 0 -1", "EXISTS %q:/mine", "SPUBLISH %c:x x", "SSUBSCRIBE %c:x", "KEYS *", "MONITOR", "CLIENT LIST", "CLIENT KILL TYPE normal",
		"FLUSHALL", "FLUSHDB", "CONFIG SET maxmemory 1", "ACL LIST", "SHUTDOWN", "REPLICAOF a 1", "SWAPDB 0 1")
	// Scripts are the server's. The Stores give theirs again.
	require.NoError(t, n.ScriptFlush(within(t, soon)).Err())
	theirs, err := redis.Open(within(t, soon), &client.UniversalOptions{Addrs: []string{server.Endpoint()}, Username: "neighbour", Password: "pass"},
		&redis.Options{Namespace: "theirs", Fresh: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = theirs.Close() })
	require.NoError(t, lock(t, theirs, "/mine").Release(), "another lock of that name")
	require.NoError(t, lease.Err())
	require.Empty(t, next)
	require.NoError(t, lease.Release())
	require.NoError(t, locktest.Got(t, next).Release())
}

// TestNeighbourWhoMayReadAlone sees the names of holders.
func TestNeighbourWhoMayReadAlone(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	n := neighbour(t, server, "%R~farsync:{farsync}:*", "+@all", "-@admin", "-@dangerous")
	options := fresh(time.Hour)
	options.Holder = "somebody"
	lease := lock(t, newStore(t, server.Endpoint(), options), "/mine")
	forbidden(t, n, writes...)
	ids, err := n.ZRange(within(t, soon), prefix+"q:/mine", 0, -1).Result()
	require.NoError(t, err)
	require.Len(t, ids, 1)
	value, err := n.HGet(within(t, soon), prefix+"e:"+ids[0], "value").Result()
	require.NoError(t, err)
	require.Contains(t, value, "somebody")
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestNeighbourWhoMayPublish has the waiters of others look, and no more.
func TestNeighbourWhoMayPublish(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	n := neighbour(t, server, "resetkeys", "&*", "+@all", "-@admin", "-@dangerous")
	holder, other := newStore(t, server.Endpoint(), fresh(time.Hour)), newStore(t, server.Endpoint(), fresh(time.Hour))
	lease := lock(t, holder, "/mine")
	next := locktest.LockBehind(t, other, "/mine")
	locktest.AwaitQueue(t, other, "/mine", 2)
	admin := newClient(t, server.Endpoint())
	channels := admin.PubSubShardChannels(within(t, soon), prefix+"c:*").Val()
	require.NotEmpty(t, channels)
	ids := admin.ZRange(within(t, soon), prefix+"q:/mine", 0, -1).Val()
	for _, channel := range channels {
		for _, text := range append(ids, "", "=/mine", "+/mine", "\x00", strings.Repeat("x", 1<<20)) {
			require.NoError(t, n.SPublish(within(t, soon), channel, text).Err())
		}
	}
	require.NoError(t, lease.Err())
	require.Empty(t, next)
	require.NoError(t, lease.Release())
	require.NoError(t, locktest.Got(t, next).Release())
}

// TestNeighbourWhoMayKill connections costs their Store new ones, and no lock.
func TestNeighbourWhoMayKill(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	n := neighbour(t, server, "+client|kill")
	store := newStore(t, server.Endpoint(), fresh(time.Hour))
	lease := lock(t, store, "/mine")
	for range 5 {
		for _, kind := range []string{"normal", "pubsub"} {
			require.NoError(t, n.ClientKillByFilter(within(t, soon), "TYPE", kind, "SKIPME", "yes").Err())
		}
		require.NoError(t, lock(t, store, "/other").Release())
	}
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestNeighbourWhoRunsAScriptWithoutEnd keeps all clients from the server, with rights on no key. Leases end by
// themselves before others get the locks.
func TestNeighbourWhoRunsAScriptWithoutEnd(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	n := neighbour(t, server, "resetkeys", "+eval")
	admin := newClient(t, server.Endpoint())
	require.NoError(t, admin.ConfigSet(within(t, soon), "busy-reply-threshold", "10").Err())
	lease := lock(t, newStore(t, server.Endpoint(), fresh(2*time.Second)), "/mine") // its end is what is waited for
	ended := make(chan error, 1)
	go func() { ended <- n.Eval(within(t, 2*soon), "while true do end", nil).Err() }() // joined below
	require.Eventually(t, func() bool {
		err := admin.Ping(within(t, soon)).Err()
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	}, soon, time.Millisecond, "it runs, also where the lease has ended before")
	select {
	case <-lease.Done():
	case <-time.After(soon):
		require.Fail(t, "the lease does not end")
	}
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	require.NoError(t, admin.ScriptKill(within(t, soon)).Err())
	_ = locktest.Got(t, ended) // that of a script which was killed
	next := lock(t, newStore(t, server.Endpoint(), fresh(time.Minute)), "/mine")
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Release())
}
