//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/torture/history"
	"github.com/farsync/farsync/mysql"
	"github.com/farsync/farsync/postgres"
)

// A service is the servers of a store, and what can be done to them.
type service struct {
	endpoints []string
	members   []member
	rows      []nodes // each row has its own faults, at the same time as the others
	// Nil where there is only one server, or none.
	leader  func(context.Context) (int, error)
	isolate func(int)
	mute    func(int) // isolates in one direction
	deafen  func(int) // and in the other
	heal    func()
	restart func(context.Context) error // all of them at once
	close   func() error

	// meddle removes the entry of a waiter, if there is one in any of the queues. It is nil where that cannot be done
	// in one step with a look whether it waits.
	meddle func(ctx context.Context, f fault, queues []string)

	mu    sync.Mutex
	kills []history.Span // of single servers. Guarded by mu.
}

// Nodes are servers to which one thing happens after another.
type nodes struct {
	shape   shape
	members []int
}

// alone returns the service of one server.
func alone(of shape, m interface {
	member
	Endpoint() string
	Close() error
}) *service {
	return &service{
		endpoints: []string{m.Endpoint()}, members: []member{m}, close: m.Close, rows: []nodes{{of, []int{0}}},
	}
}

// A member is one server.
type member interface {
	Pause()
	Resume()
	Kill()
	Restart(context.Context) error
}

// zooKeeperTick is the tick of ZooKeeper servers. By the seed they believe in one another for 5 of them, or for 20: a
// leader that is cut off then answers what needs no quorum for longer than any session lasts.
const zooKeeperTick = 500 * time.Millisecond

// startService starts three servers of etcd or ZooKeeper, one of Redis, PostgreSQL or MariaDB, names a file for SQLite,
// or starts several services for a quorum.
func startService(ctx context.Context, dir string, settings campaign) (*service, error) {
	const servers = 3
	switch settings.Store {
	case onEtcd:
		e, err := embedtest.StartEtcd(ctx, dir, servers)
		if err != nil {
			return nil, err
		}
		s := clusterOf(e, e.Member)
		client, err := newEtcd(s.endpoints)
		if err != nil {
			return nil, errors.Join(err, e.Close())
		}
		s.meddle = func(ctx context.Context, f fault, queues []string) { meddle(ctx, client, f, queues) }
		s.close = func() error { return errors.Join(client.Close(), e.Close()) }
		return s, nil
	case onZooKeeper:
		e, err := embedtest.StartZooKeeper(ctx, dir, servers, embedtest.Ticks(zooKeeperTick, []int{5, 20}[settings.Seed%2]))
		if err != nil {
			return nil, err
		}
		return clusterOf(e, e.Member), nil
	case onRedis:
		r, err := embedtest.StartRedis(ctx, dir)
		if err != nil {
			return nil, err
		}
		if err := introduce(ctx, r.Endpoint(), settings); err != nil {
			return nil, errors.Join(err, r.Close())
		}
		return alone(forgetful, r), nil
	case onPostgres:
		s, err := embedtest.StartPostgres(ctx, dir, embedtest.Fsync())
		if err != nil {
			return nil, err
		}
		config, err := pgx.ParseConfig(postgresURL(s.Endpoint()))
		if err == nil {
			err = postgres.Migrate(ctx, config)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return alone(single, s), nil
	case onMySQL:
		// Writes that the server has confirmed must be there after it was killed.
		m, err := embedtest.StartMariaDB(ctx, dir, embedtest.Fsync())
		if err != nil {
			return nil, err
		}
		if err := mysql.Migrate(ctx, mysqlDSN(m.Endpoint())); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return alone(single, m), nil
	case onSQLite:
		return &service{endpoints: []string{filepath.Join(dir, "locks.db")}, close: func() error { return nil }}, nil
	case onQuorum:
		return startCouncil(ctx, dir, settings)
	default:
		return nil, fmt.Errorf("no store %q", settings.Store)
	}
}

// clusterOf returns the service of a cluster. Of returns a member of it.
func clusterOf[M member](c interface {
	Endpoints() []string
	Leader(context.Context) (int, error)
	Isolate(int)
	Mute(int)
	Deafen(int)
	Heal()
	Restart(context.Context) error
	Close() error
}, of func(int) M) *service {
	s := &service{
		endpoints: c.Endpoints(), leader: c.Leader, isolate: c.Isolate, mute: c.Mute, deafen: c.Deafen, heal: c.Heal,
		restart: c.Restart, close: c.Close, rows: []nodes{{shape: ensemble}},
	}
	for i := range s.endpoints {
		s.members, s.rows[0].members = append(s.members, of(i)), append(s.rows[0].members, i)
	}
	return s
}

// meddle removes a key that another one is ahead of, in a transaction that compares that. Servers that do not answer
// are passed over.
func meddle(ctx context.Context, client *clientv3.Client, f fault, queues []string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for i := range queues {
		queue := queues[(i+f.pick(len(queues)))%len(queues)]
		found, err := client.Get(ctx, queue+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil || len(found.Kvs) < 2 {
			continue
		}
		head, waiter := found.Kvs[0], found.Kvs[1+f.pick(len(found.Kvs)-1)]
		_, _ = client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(string(head.Key)), "=", head.CreateRevision)).
			Then(clientv3.OpDelete(string(waiter.Key))).Commit()
		return
	}
}
