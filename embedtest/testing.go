//go:build unix

package embedtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// startTimeout bounds the start of servers for a test. That a server has ended by itself is noticed at once, so only a
// server that hangs takes so long. A server in Java needs a second of a processor before it serves, a part of it after
// it listens: beside fifty other programs that is a minute.
const startTimeout = 5 * time.Minute

// Etcd starts an etcd server for the test and waits until it is ready. When the test ends, the server is gone and all
// goroutines are joined; if the test has failed, the end of the server's log is printed.
func Etcd(t testing.TB, options ...Option) *EtcdServer {
	t.Helper()
	return EtcdCluster(t, 1, options...).Member(0)
}

// EtcdCluster is like [Etcd] for a cluster of n members.
func EtcdCluster(t testing.TB, n int, options ...Option) *EtcdEnsemble {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	e, err := StartEtcd(ctx, t.TempDir(), n, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { finish(t, e.servers, e.Close) })
	return e
}

// ZooKeeper starts a ZooKeeper server for the test and waits until it is ready. When the test ends, the server is gone
// and all goroutines are joined; if the test has failed, the end of the server's log is printed. Where no server is
// found the test is skipped, or fails if FARSYNC_REQUIRE_SERVERS is 1.
func ZooKeeper(t testing.TB, options ...Option) *ZooKeeperServer {
	t.Helper()
	return ZooKeeperEnsemble(t, 1, options...).Member(0)
}

// ZooKeeperEnsemble is like [ZooKeeper] for an ensemble of n servers.
func ZooKeeperEnsemble(t testing.TB, n int, options ...Option) *ZooKeeperServers {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	e, err := StartZooKeeper(ctx, t.TempDir(), n, options...)
	if !errors.Is(err, ErrNoZooKeeper) {
		refuseOrSkip(t, err, ErrNoFaketime)
	}
	refuseOrSkip(t, err, ErrNoZooKeeper)
	t.Cleanup(func() { finish(t, e.servers, e.Close) })
	return e
}

// Postgres starts a PostgreSQL server for the test and waits until it is ready. When the test ends, the server is gone;
// if the test has failed, the end of the server's log is printed. Where no server is found the test is skipped, or
// fails if FARSYNC_REQUIRE_SERVERS is 1.
func Postgres(t testing.TB, options ...Option) *PostgresServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := StartPostgres(ctx, reachableDir(t), options...)
	return ofTest(t, s, err)
}

// PostgresReplica is [Postgres] for a streaming replica of another server.
func PostgresReplica(t testing.TB, of *PostgresServer, options ...Option) *PostgresServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := of.StartReplica(ctx, reachableDir(t), options...)
	return ofTest(t, s, err)
}

func ofTest(t testing.TB, s *PostgresServer, err error) *PostgresServer {
	t.Helper()
	if !errors.Is(err, ErrNoPostgres) {
		refuseOrSkip(t, err, ErrNoFaketime)
	}
	refuseOrSkip(t, err, ErrNoPostgres)
	t.Cleanup(func() { finish(t, []*server{s.server}, s.Close) })
	return s
}

// PgBouncer starts a PgBouncer for the test, as [StartPgBouncer] does. When the test ends, it is gone; if the test has
// failed, the end of its log is printed. Where no PgBouncer is found the test is skipped, or fails if
// FARSYNC_REQUIRE_SERVERS is 1.
func PgBouncer(t testing.TB, to *PostgresServer, lines ...string) *PgBouncerProxy {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	p, err := StartPgBouncer(ctx, reachableDir(t), to, lines...)
	refuseOrSkip(t, err, ErrNoPgBouncer)
	t.Cleanup(func() { finish(t, []*server{p.server}, p.Close) })
	return p
}

// MariaDB is [Postgres] for a MariaDB server.
func MariaDB(t testing.TB, options ...Option) *MariaDBServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := StartMariaDB(ctx, reachableDir(t), options...)
	if !errors.Is(err, ErrNoMariaDB) {
		refuseOrSkip(t, err, ErrNoFaketime)
	}
	refuseOrSkip(t, err, ErrNoMariaDB)
	t.Cleanup(func() { finish(t, []*server{s.server}, s.Close) })
	return s
}

// MySQL is [Postgres] for a MySQL server, as [StartMySQL] starts it.
func MySQL(t testing.TB, options ...Option) *MySQLServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := StartMySQL(ctx, t.TempDir(), options...)
	if !errors.Is(err, ErrNoMySQL) {
		refuseOrSkip(t, err, ErrNoFaketime)
	}
	refuseOrSkip(t, err, ErrNoMySQL)
	t.Cleanup(func() { finish(t, []*server{s.server}, s.Close) })
	return s
}

// reachableDir returns a folder of the test that another user can reach. The folder above it is the test's alone too.
func reachableDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// refuseOrSkip ends the test if there is an error, and skips it if that only says that there is no server here.
func refuseOrSkip(t testing.TB, err, missing error) {
	t.Helper()
	if err == nil {
		return
	}
	if errors.Is(err, missing) && os.Getenv("FARSYNC_REQUIRE_SERVERS") != "1" {
		t.Skip(err)
	}
	t.Fatal(err)
}

// Redis starts a Redis server for the test and waits until it is ready. Arguments are further ones of redis-server.
// When the test ends, the server is gone and all goroutines are joined; if the test has failed, the end of the server's
// log is printed. Where no server is found the test is skipped, or fails if FARSYNC_REQUIRE_SERVERS is 1.
func Redis(t testing.TB, arguments ...string) *RedisServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := StartRedis(ctx, t.TempDir(), arguments...)
	refuseOrSkip(t, err, ErrNoRedis)
	t.Cleanup(func() { finish(t, []*server{&s.server}, s.Close) })
	return s
}

// RedisWithClock is [Redis] for a server with a clock of its own, as [StartRedisWithClock] starts it.
func RedisWithClock(t testing.TB, arguments ...string) *RedisServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := StartRedisWithClock(ctx, t.TempDir(), arguments...)
	if !errors.Is(err, ErrNoRedis) {
		refuseOrSkip(t, err, ErrNoFaketime)
	}
	refuseOrSkip(t, err, ErrNoRedis)
	t.Cleanup(func() { finish(t, []*server{&s.server}, s.Close) })
	return s
}

// Sentinels starts n Sentinels for the test, as [StartRedisSentinels] does. When the test ends, they are gone.
func Sentinels(t testing.TB, n int, master *RedisServer, settings ...string) *RedisSentinels {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := StartRedisSentinels(ctx, t.TempDir(), n, master, settings...)
	refuseOrSkip(t, err, ErrNoRedis)
	t.Cleanup(func() { finish(t, s.servers, s.Close) })
	return s
}

// RedisClusterOf starts a Redis Cluster for the test, as [StartRedisCluster] does. When the test ends, it is gone.
func RedisClusterOf(t testing.TB, masters int, arguments ...string) *RedisCluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := StartRedisCluster(ctx, t.TempDir(), masters, arguments...)
	refuseOrSkip(t, err, ErrNoRedis)
	t.Cleanup(func() { finish(t, c.servers, c.Close) })
	return c
}

// NewProxy starts a proxy to the target, host:port or an http URL, for the test, and closes it when the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := StartProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// finish closes the servers and prints, for a test that failed, what they have had to say.
func finish(t testing.TB, servers []*server, closeAll func() error) {
	err := closeAll()
	if t.Failed() {
		for _, s := range servers {
			t.Log(s.name + s.tail())
		}
	}
	if err != nil {
		t.Error(err)
	}
}
