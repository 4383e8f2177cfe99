//go:build linux

package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	_ "github.com/jackc/pgx/v5/stdlib"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/mysqlkind"
	"github.com/farsync/farsync/mysql"
)

// A service is a store that a command uses, by itself or beside others.
type service struct {
	store  string // the URL for the command
	direct string // the URL for others, whom a cut does not reach
	path   string // of a lock that no other test uses

	cut    func()             // of store; nil where there is no network
	freeze func(t *testing.T) // the server, for all
	thaw   func()             // ends freeze; nil before, where it is another each time
	// They do by hand what ends a lease. A lease that has ended by itself is none of their business. revoked is nil where no tool of
	// the service ends the session of another client.
	deleted, revoked func(t *testing.T, p farsync.Participant)
	// orphaned leaves an entry, that one or another in its queue, without a session.
	orphaned func(t *testing.T, p farsync.Participant)
}

// services start a server, which ends with t. What they return makes a service on it, as often as it is called.
var services = map[string]func(t *testing.T) func() *service{
	"etcd": onEtcd, "zookeeper": onZooKeeper, "redis": onRedis, "postgres": onPostgres, "mysql": onMySQL, "sqlite": onSQLite,
}

var paths atomic.Int64

func newPath() string { return fmt.Sprintf("/x%d", paths.Add(1)) }

// A server is what those of embedtest have in common.
type server interface {
	Endpoint() string
	Pause()
	Resume()
}

// behindProxy returns a service behind a proxy of its own. form is the URL, with %s for the address.
func behindProxy(t *testing.T, s server, form string) *service {
	address := strings.TrimPrefix(s.Endpoint(), "http://")
	proxy := embedtest.NewProxy(t, address)
	return &service{
		store: fmt.Sprintf(form, proxy.Addr()), direct: fmt.Sprintf(form, address), path: newPath(),
		cut:    proxy.Cut,
		freeze: func(*testing.T) { s.Pause() },
		thaw:   s.Resume, // does nothing to one that is not frozen
	}
}

func onEtcd(t *testing.T) func() *service {
	server := embedtest.Etcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return func() *service {
		s := behindProxy(t, server, "etcd://%s")
		s.deleted = func(t *testing.T, p farsync.Participant) {
			_, err := client.Delete(t.Context(), p.ID)
			require.NoError(t, err)
		}
		s.revoked = func(t *testing.T, p farsync.Participant) {
			var lease clientv3.LeaseID
			_, err := fmt.Sscanf(p.Session, "%x", &lease)
			require.NoError(t, err)
			_, _ = client.Revoke(t.Context(), lease)
		}
		s.orphaned = func(t *testing.T, p farsync.Participant) {
			_, err := client.Put(t.Context(), p.ID, "", clientv3.WithLease(0))
			require.NoError(t, err)
		}
		return s
	}
}

func onZooKeeper(t *testing.T) func() *service {
	server := embedtest.ZooKeeper(t)
	conn, _, err := zk.Connect([]string{server.Endpoint()}, time.Minute, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return func() *service {
		s := behindProxy(t, server, "zk://%s")
		s.deleted = func(_ *testing.T, p farsync.Participant) { _ = conn.Delete(s.path+"/"+path.Base(p.ID), -1) }
		s.orphaned = func(t *testing.T, p farsync.Participant) {
			const flags = 0 // not ephemeral
			_, err := conn.Create(path.Dir(p.ID)+"/_c_9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d-lock-2000000000", nil, flags, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		return s
	}
}

func onRedis(t *testing.T) func() *service {
	server := embedtest.Redis(t)
	client := goredis.NewClient(&goredis.Options{Addr: server.Endpoint()})
	t.Cleanup(func() { _ = client.Close() })
	const space = "farsync:{farsync}:"
	return func() *service {
		s := behindProxy(t, server, "redis://%s?fresh=1")
		s.deleted = func(t *testing.T, p farsync.Participant) {
			script, err := client.HGet(t.Context(), space+"server", "script").Result()
			require.NoError(t, err)
			require.NoError(t, client.EvalSha(t.Context(), script, []string{space}, "delete", p.ID).Err())
		}
		s.revoked = func(t *testing.T, p farsync.Participant) {
			require.NoError(t, client.ZAddXX(t.Context(), space+"sessions", goredis.Z{Score: 1, Member: p.Session}).Err())
		}
		s.orphaned = func(t *testing.T, p farsync.Participant) {
			require.NoError(t, client.HDel(t.Context(), space+"e:"+p.ID, "session").Err())
			require.NoError(t, client.SRem(t.Context(), space+"s:"+p.Session, p.ID).Err())
		}
		return s
	}
}

func onPostgres(t *testing.T) func() *service {
	server := embedtest.Postgres(t, embedtest.Fsync())
	do := statements(t, "pgx", server.URL())
	migrated := start(t, "postgres://postgres@"+server.Endpoint()+"/postgres?migrate=1", "who")
	require.Equal(t, codeNothing, migrated.code(t))
	return func() *service {
		s := behindProxy(t, server, "postgres://postgres@%s/postgres")
		s.deleted = func(t *testing.T, p farsync.Participant) { do(t, "DELETE FROM farsync_entries WHERE id = $1", p.ID) }
		s.revoked = func(t *testing.T, p farsync.Participant) {
			do(t, "DELETE FROM farsync_sessions WHERE id = (SELECT session FROM farsync_entries WHERE id = $1)", p.ID)
		}
		s.orphaned = func(t *testing.T, p farsync.Participant) {
			do(t, "UPDATE farsync_entries SET session = NULL WHERE id = $1", p.ID)
		}
		return s
	}
}

func onMySQL(t *testing.T) func() *service {
	server := mysqlkind.Start(t, embedtest.Fsync())
	dsn := server.DSN("test")
	require.NoError(t, mysql.Migrate(t.Context(), dsn))
	return func() *service {
		s := behindProxy(t, server, "mysql://root@%s/test")
		s.byStatements(statements(t, "mysql", dsn))
		return s
	}
}

func onSQLite(t *testing.T) func() *service {
	return func() *service {
		store := file(t)
		s := &service{store: store, direct: store, path: newPath()}
		s.byStatements(byHand(t, store))
		s.freeze = func(t *testing.T) {
			// A transaction of another program that writes keeps all others waiting.
			db, err := sql.Open("sqlite", nameOf(t, store)+"?_txlock=immediate&_pragma=busy_timeout(10000)")
			require.NoError(t, err)
			tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
			require.NoError(t, err)
			s.thaw = sync.OnceFunc(func() {
				require.NoError(t, tx.Rollback())
				require.NoError(t, db.Close())
			})
			t.Cleanup(s.thaw)
		}
		return s
	}
}

// byStatements has entries deleted and sessions revoked by statements with a question mark.
func (s *service) byStatements(do func(t *testing.T, statement, argument string)) {
	s.deleted = func(t *testing.T, p farsync.Participant) { do(t, "DELETE FROM farsync_entries WHERE id = ?", p.ID) }
	s.revoked = func(t *testing.T, p farsync.Participant) {
		do(t, "DELETE FROM farsync_sessions WHERE id = (SELECT session FROM farsync_entries WHERE id = ?)", p.ID)
	}
	s.orphaned = func(t *testing.T, p farsync.Participant) {
		do(t, "UPDATE farsync_entries SET session = NULL WHERE id = ?", p.ID)
	}
}

// nameOf returns the name of the file of a store that [file] has returned.
func nameOf(t *testing.T, store string) string {
	t.Helper()
	name, err := url.PathUnescape(strings.TrimPrefix(strings.TrimSuffix(store, "?ttl=60s"), "sqlite:"))
	require.NoError(t, err)
	return name
}

// byHand is statements for the file of a store.
func byHand(t *testing.T, store string) func(t *testing.T, statement, argument string) {
	t.Helper()
	return statements(t, "sqlite", nameOf(t, store)+"?_pragma=busy_timeout(10000)")
}

// statements returns what executes a statement in a database.
func statements(t *testing.T, driver, source string) func(t *testing.T, statement, argument string) {
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return func(t *testing.T, statement, argument string) {
		_, err := db.ExecContext(t.Context(), statement, argument)
		require.NoError(t, err)
	}
}
