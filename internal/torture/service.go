//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/mysql"
	"github.com/farsync/farsync/postgres"
)

// A service is the servers of a store, and what can be done to them.
type service struct {
	endpoints []string
	members   []member
	// Nil where there is only one server, or none.
	leader  func(context.Context) (int, error)
	isolate func(int)
	mute    func(int) // isolates in one direction
	deafen  func(int) // and in the other
	heal    func()
	restart func(context.Context) error // all of them at once
	close   func() error

	// meddle removes the entry of a waiter, if there is one in any of the queues. It is nil where that cannot be done in one step
	// with a look whether it waits.
	meddle func(ctx context.Context, f fault, queues []string)
}

// A member is one server.
type member interface {
	Pause()
	Resume()
	Kill()
	Restart(context.Context) error
}

// zooKeeperTick is that of ZooKeeper servers. By the seed they believe in one another for 5 of them, or for 20: a leader that
// is cut off then answers what needs no quorum for longer than any session lasts.
const zooKeeperTick = 500 * time.Millisecond

// startService starts three servers of etcd or ZooKeeper, one of Redis, PostgreSQL or MariaDB, or names a file for SQLite.
func startService(ctx context.Context, store, dir string, seed uint64) (*service, error) {
	const servers = 3
	switch store {
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
		e, err := embedtest.StartZooKeeper(ctx, dir, servers, embedtest.Ticks(zooKeeperTick, []int{5, 20}[seed%2]))
		if err != nil {
			return nil, err
		}
		return clusterOf(e, e.Member), nil
	case onRedis:
		r, err := embedtest.StartRedis(ctx, dir)
		if err != nil {
			return nil, err
		}
		return &service{endpoints: []string{r.Endpoint()}, members: []member{r}, close: r.Close}, nil
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
		return &service{endpoints: []string{s.Endpoint()}, members: []member{s}, close: s.Close}, nil
	case onMySQL:
		// What it has confirmed must be there when it was killed.
		m, err := embedtest.StartMariaDB(ctx, dir, embedtest.Fsync())
		if err != nil {
			return nil, err
		}
		if err := mysql.Migrate(ctx, mysqlDSN(m.Endpoint())); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return &service{endpoints: []string{m.Endpoint()}, members: []member{m}, close: m.Close}, nil
	case onSQLite:
		return &service{endpoints: []string{filepath.Join(dir, "locks.db")}, close: func() error { return nil }}, nil
	default:
		return nil, fmt.Errorf("no store %q", store)
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
		restart: c.Restart, close: c.Close,
	}
	for i := range s.endpoints {
		s.members = append(s.members, of(i))
	}
	return s
}

// meddle removes a key that another one is ahead of, in a transaction that compares that. Servers that do not answer are
// passed over.
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
