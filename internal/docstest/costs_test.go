//go:build linux

package docstest_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/sqlstore"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
	"github.com/farsync/farsync/postgres"
	"github.com/farsync/farsync/redis"
	"github.com/farsync/farsync/sqlite"
	"github.com/farsync/farsync/zk"
)

// A service is where Stores are opened, to see what they cost.
type service struct {
	name, endpoint string // no endpoint where there is no server
	open           func(farsync.Options) (*farsync.Store, error)
	requests       func() int // that the server has been sent so far; nil if it does not say
}

// What docs/COSTS.md says of a Store that does nothing, of a lock that is held, and of a caller who waits.

func TestCostOfAStoreOnEtcd(t *testing.T) {
	suite.Long(t, suite.Etcd, "measures memory, and counts goroutines and connections")
	server := embedtest.Etcd(t)
	costs(t, service{"etcd", server.Endpoint(), func(o farsync.Options) (*farsync.Store, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return etcd.Open(within(t, soon), client, &etcd.Options{Options: o})
	}, nil})
}

func TestCostOfAStoreOnZooKeeper(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "measures memory, and counts goroutines and connections")
	server := embedtest.ZooKeeper(t)
	costs(t, service{"ZooKeeper", server.Endpoint(), func(o farsync.Options) (*farsync.Store, error) {
		return zk.Open(within(t, soon), []string{server.Endpoint()}, &zk.Options{Options: o})
	}, nil})
}

func TestCostOfAStoreOnRedis(t *testing.T) {
	suite.Long(t, suite.Redis, "measures memory, and counts goroutines, connections and requests")
	server := embedtest.Redis(t)
	client := goredis.NewClient(&goredis.Options{Addr: server.Endpoint()})
	t.Cleanup(func() { _ = client.Close() })
	costs(t, service{"Redis", server.Endpoint(), func(o farsync.Options) (*farsync.Store, error) {
		return redis.Open(within(t, soon), &goredis.UniversalOptions{Addrs: []string{server.Endpoint()}}, &redis.Options{Options: o, Fresh: true})
	}, func() int {
		said, err := client.Info(within(t, soon), "commandstats").Result()
		require.NoError(t, err)
		n := 0 // of scripts, without the commands in them, and of the client's questions whether the connection is alive
		for _, of := range regexp.MustCompile(`cmdstat_(?:evalsha|ping|ssubscribe|sunsubscribe):calls=(\d+)`).FindAllStringSubmatch(said, -1) {
			calls, err := strconv.Atoi(of[1])
			require.NoError(t, err)
			n += calls
		}
		return n
	}})
}

func TestCostOfAStoreOnPostgres(t *testing.T) {
	suite.Long(t, suite.Postgres, "measures memory, and counts goroutines, connections and statements")
	server := embedtest.Postgres(t)
	config, err := pgxpool.ParseConfig(server.URL())
	require.NoError(t, err)
	require.NoError(t, postgres.Migrate(within(t, soon), config.ConnConfig))
	sent := new(statements)
	config.ConnConfig.Tracer = sent
	db := openDB(t, "pgx", server.URL())
	var most, kept int
	require.NoError(t, db.QueryRowContext(within(t, soon), `SELECT current_setting('max_connections')::int,
		current_setting('superuser_reserved_connections')::int`).Scan(&most, &kept))
	require.Equal(t, 3, kept, "the page says three")
	hasRoom(t, "PostgreSQL", most-kept)
	require.NoError(t, db.Close()) // for the connections of this process are counted
	costs(t, service{"PostgreSQL", server.Endpoint(), func(o farsync.Options) (*farsync.Store, error) {
		return postgres.Open(within(t, soon), config, &postgres.Options{Options: o})
	}, func() int { return int(sent.n.Load()) }})
}

func TestCostOfAStoreOnMariaDB(t *testing.T) {
	suite.Long(t, suite.MySQL, "measures memory, and counts goroutines, connections and statements")
	server := embedtest.MariaDB(t)
	require.NoError(t, mysql.Migrate(within(t, soon), server.DSN("test")))
	db := openDB(t, "mysql", server.DSN("test"))
	room, most := openDB(t, "mysql", server.DSN("test")), 0
	require.NoError(t, room.QueryRowContext(within(t, soon), "SELECT @@max_connections").Scan(&most))
	hasRoom(t, "MySQL, MariaDB", most)
	require.NoError(t, room.Close()) // for the connections of this process are counted
	costs(t, service{"MySQL, MariaDB", server.Endpoint(), func(o farsync.Options) (*farsync.Store, error) {
		return mysql.Open(within(t, soon), server.DSN("test"), &mysql.Options{Options: o})
	}, func() (n int) {
		var name string
		require.NoError(t, db.QueryRowContext(within(t, soon), "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n))
		return n
	}})
}

func TestCostOfAStoreOnSQLite(t *testing.T) {
	suite.Long(t, suite.SQLite, "measures memory, and counts goroutines")
	file := filepath.Join(t.TempDir(), "locks.db")
	costs(t, service{"SQLite", "", func(o farsync.Options) (*farsync.Store, error) {
		return sqlite.Open(within(t, soon), file, &sqlite.Options{Options: o})
	}, nil})
}

// hasRoom compares how many connections a server has as it is installed, and for how many Stores that is room, with the
// row of the page.
func hasRoom(t *testing.T, name string, connections int) {
	_, table, found := strings.Cut(document(t, "docs/COSTS.md"), "\n## Connections of a database\n")
	require.True(t, found)
	row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(name) + ` \| (\d+) \| [^|]* \| (\d+)[^|]* \| (\d+) \|$`).FindStringSubmatch(table)
	require.NotNil(t, row, "docs/COSTS.md does not say for how many Stores a server has room: %s", name)
	require.Equal(t, []string{strconv.Itoa(sqlstore.Least), strconv.Itoa(connections), strconv.Itoa(connections / sqlstore.Least)}, row[1:])
}

// costs compares what Stores cost with the row of the page.
func costs(t *testing.T, s service) {
	row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(s.name) + ` \| (\d+) \| (\d+) \| (\d+) KB \|`).FindStringSubmatch(document(t, "docs/COSTS.md"))
	require.NotNil(t, row, "docs/COSTS.md has no row for %s", s.name)
	said := [3]int{} // connections, goroutines, KB
	for i := range said {
		said[i], _ = strconv.Atoi(row[i+1])
	}
	open := func(ttl time.Duration) *farsync.Store {
		store, err := s.open(farsync.Options{TTL: ttl})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		return store
	}

	const stores = 20
	first := open(time.Hour) // opens what all share
	var connections, goroutines, bytes int
	require.Eventually(t, func() bool { // once what was needed to open has gone
		connections, goroutines, bytes = used(t, s.endpoint)
		return connections == said[0]
	}, time.Minute, 100*time.Millisecond)
	var more []*farsync.Store
	for range stores {
		more = append(more, open(time.Hour))
	}
	require.Eventually(t, func() bool { // likewise
		c, g, b := used(t, s.endpoint)
		each := [3]float64{float64(c-connections) / stores, float64(g-goroutines) / stores, float64(b-bytes) / stores / 1024}
		t.Logf("an idle Store: %.2f connections, %.2f goroutines, %.0f KB", each[0], each[1], each[2])
		return each[0] == float64(said[0]) && each[1] <= float64(said[1])+0.25 && each[2] <= float64(said[2])
	}, time.Minute, time.Second)

	if s.requests == nil {
		return
	}
	for _, store := range more { // whose clients may send requests of their own
		require.NoError(t, store.Close())
	}
	_, table, found := strings.Cut(document(t, "docs/COSTS.md"), "\n## Requests\n")
	require.True(t, found)
	row = regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(s.name) + ` \| (\d+) \| (\d+) \| (\d+) \|`).FindStringSubmatch(table)
	require.NotNil(t, row, "docs/COSTS.md does not say how many requests %s gets", s.name)
	for i := range said {
		said[i], _ = strconv.Atoi(row[i+1])
	}
	const ttl = 10 * time.Second
	during := func(what string) int {
		before := s.requests()
		<-time.After(ttl)
		n := s.requests() - before
		t.Logf("%s: %d requests in a TTL", what, n)
		return n
	}
	others := during("the first") // whose TTL is an hour
	second := open(ttl)
	idle := during("with an idle Store") - others
	lease, err := farsync.NewMutex(second, "/costs").Lock(within(t, soon))
	require.NoError(t, err)
	<-time.After(4 * time.Second) // its entry is looked at from 3 seconds on
	holds := during("… that holds a lock") - others
	require.NoError(t, lease.Release())
	lease, err = farsync.NewMutex(first, "/costs").Lock(within(t, soon))
	require.NoError(t, err)
	<-time.After(4 * time.Second)
	got := make(chan error, 1)
	go func() {
		next, err := farsync.NewMutex(second, "/costs").Lock(within(t, soon))
		if err == nil {
			err = next.Release()
		}
		got <- err
	}()
	require.Eventually(t, func() bool {
		list, err := first.Participants(within(t, soon), "/costs")
		return err == nil && len(list) == 2
	}, time.Minute, 100*time.Millisecond)
	<-time.After(ttl / 2)
	waits := during("… that waits for a lock of another") - others - (holds - idle)
	require.NoError(t, lease.Release())
	require.NoError(t, <-got)
	t.Logf("an idle Store %d, holding a lock %d, waiting %d", idle, holds, waits)
	require.LessOrEqual(t, idle, said[0])
	require.LessOrEqual(t, holds, said[1])
	require.LessOrEqual(t, waits, said[2])
}

// statements counts what a pool of PostgreSQL sends.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// used returns how many connections to that server this process has, and its goroutines, and the memory of its heap and its stacks.
func used(t *testing.T, endpoint string) (connections, goroutines, bytes int) {
	for range 4 { // each halves a stack that is larger than it has to be
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if endpoint != "" {
		_, port, err := net.SplitHostPort(strings.TrimPrefix(endpoint, "http://"))
		require.NoError(t, err)
		number, err := strconv.Atoi(port)
		require.NoError(t, err)
		to := fmt.Sprintf(":%04X", number)
		for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
			text, err := os.ReadFile(table)
			if os.IsNotExist(err) {
				continue
			}
			require.NoError(t, err)
			for line := range strings.Lines(string(text)) {
				f := strings.Fields(line)
				if len(f) > 3 && strings.HasSuffix(f[2], to) && f[3] == "01" { // remote address, established
					connections++
				}
			}
		}
	}
	return connections, runtime.NumGoroutine(), int(m.HeapAlloc + m.StackInuse)
}
