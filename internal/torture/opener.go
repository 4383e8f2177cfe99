//go:build unix

package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/mysql"
	"github.com/farsync/farsync/postgres"
	"github.com/farsync/farsync/redis"
	"github.com/farsync/farsync/sqlite"
	"github.com/farsync/farsync/zk"
)

// The stores, as they are named on the command line.
const (
	onEtcd      = "etcd"
	onZooKeeper = "zk"
	onRedis     = "redis"
	onPostgres  = "postgres"
	onMySQL     = "mysql"
	onSQLite    = "sqlite"
	onQuorum    = "quorum" // three services that fail independently
	inMemory    = "memory" // for mutants that tests find
)

var stores = []string{onEtcd, onZooKeeper, onRedis, onPostgres, onMySQL, onSQLite, onQuorum}

// The recipes: farsync's, and the recipes of the client libraries.
const (
	ours  = "farsync"
	stock = "stock"
)

var openers = map[string]func(ctx context.Context, p part) (locker, error){
	ours: func(ctx context.Context, p part) (locker, error) {
		if p.Store == onQuorum {
			return openCouncil(ctx, p)
		}
		store, leave, err := openStore(ctx, p.Store, p.Endpoints, farsync.Options{TTL: p.TTL, Holder: p.Process})
		if err != nil {
			return nil, err
		}
		return newMachine(p, store, leave), nil
	},
	stock: openStock,
}

// openStore opens a Store with a client of its own. The caller calls leave after it has closed the Store.
func openStore(
	ctx context.Context, name string, endpoints []string, options farsync.Options,
) (store *farsync.Store, leave func(), err error) {
	leave = func() {}
	switch name {
	case onEtcd:
		client, err := newEtcd(endpoints)
		if err != nil {
			return nil, nil, err
		}
		leave = func() { _ = client.Close() }
		if store, err = etcd.Open(ctx, client, &etcd.Options{Options: options}); err != nil {
			leave()
			return nil, nil, err
		}
	case onZooKeeper:
		store, err = zk.Open(ctx, endpoints, &zk.Options{Options: options})
	case onRedis:
		store, err = redis.Open(ctx, &goredis.UniversalOptions{Addrs: endpoints}, &redis.Options{Options: options})
	case onPostgres:
		var config *pgxpool.Config
		if config, err = pgxpool.ParseConfig(postgresURL(endpoints[0])); err == nil {
			store, err = postgres.Open(ctx, config, &postgres.Options{Options: options})
		}
	case onMySQL:
		store, err = mysql.Open(ctx, mysqlDSN(endpoints[0]), &mysql.Options{Options: options})
	case onSQLite:
		store, err = sqlite.Open(ctx, endpoints[0], &sqlite.Options{Options: options})
	default:
		return nil, nil, fmt.Errorf("no store %q", name)
	}
	if err != nil {
		return nil, nil, err
	}
	return store, leave, nil
}

// newEtcd returns a client that says nothing.
func newEtcd(endpoints []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
}

// postgresURL names the database at an address of a server of embedtest.
func postgresURL(address string) string {
	return "postgres://postgres@" + address + "/postgres?sslmode=disable"
}

// mysqlDSN names the database at an address of a server of embedtest.
func mysqlDSN(address string) string { return "root@tcp(" + address + ")/test" }
