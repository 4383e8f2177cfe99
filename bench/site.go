package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/mysql"
	"github.com/farsync/farsync/postgres"
)

// The stores.
const (
	onEtcd      = "etcd"
	onZooKeeper = "zookeeper"
	onRedis     = "redis"
	onPostgres  = "postgres"
	onMySQL     = "mysql"
	onSQLite    = "sqlite"
)

// A siteSpec says which servers there are.
type siteSpec struct {
	store          string
	fsync, cluster bool
	// asInstalled leaves a database with as many connections as it has room for by default.
	asInstalled bool
}

// A site is the servers that scenes act on, one after the other.
type site struct {
	spec      siteSpec
	endpoints []string
	closers   []func() error
	java      *curator // nil until it is asked for
}

// close ends the servers and removes what they have kept.
func (s *site) close() error {
	var err error
	for _, closeIt := range slices.Backward(s.closers) {
		err = errors.Join(err, closeIt())
	}
	return err
}

// openSite starts servers.
func openSite(ctx context.Context, spec siteSpec) (_ *site, err error) {
	dir, err := os.MkdirTemp("", "farsync-bench-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL runs as another user if this one is root
		return nil, err
	}
	s := &site{spec: spec, closers: []func() error{func() error { return os.RemoveAll(dir) }}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	options := []embedtest.Option{embedtest.Bench()}
	if spec.fsync {
		options = append(options, embedtest.Fsync())
	}
	servers := 1
	if spec.cluster {
		servers = 3
	}
	switch spec.store {
	case onEtcd:
		e, err := embedtest.StartEtcd(ctx, filepath.Join(dir, "etcd"), servers, options...)
		if err != nil {
			return nil, err
		}
		s.serve(e.Close, e.Endpoints()...)
	case onZooKeeper:
		z, err := embedtest.StartZooKeeper(ctx, filepath.Join(dir, "zookeeper"), servers, options...)
		if err != nil {
			return nil, err
		}
		s.serve(z.Close, z.Endpoints()...)
	case onRedis:
		log := []string{"--appendonly", "no"}
		if spec.fsync {
			log = []string{"--appendfsync", "always"}
		}
		r, err := embedtest.StartRedis(ctx, filepath.Join(dir, "redis"), log...)
		if err != nil {
			return nil, err
		}
		s.serve(r.Close, r.Endpoint())
	case onPostgres:
		p, err := embedtest.StartPostgres(ctx, filepath.Join(dir, "postgres"), options...)
		if err != nil {
			return nil, err
		}
		s.serve(p.Close, p.Endpoint())
		if err := preparePostgres(ctx, p, spec.asInstalled); err != nil {
			return nil, err
		}
	case onMySQL:
		if !spec.asInstalled {
			options = append(options, embedtest.Setting("max_connections = 3000"))
		}
		m, err := embedtest.StartMariaDB(ctx, filepath.Join(dir, "mariadb"), options...)
		if err != nil {
			return nil, err
		}
		s.serve(m.Close, m.Endpoint())
		if err := prepareMySQL(ctx, m); err != nil {
			return nil, err
		}
	case onSQLite:
		s.serve(func() error { return nil }, filepath.Join(dir, "locks.db"))
	default:
		return nil, fmt.Errorf("no store %q", spec.store)
	}
	return s, nil
}

func (s *site) serve(closeAll func() error, endpoints ...string) {
	s.closers = append(s.closers, closeAll)
	for _, endpoint := range endpoints {
		s.endpoints = append(s.endpoints, strings.TrimPrefix(endpoint, "http://"))
	}
}

// preparePostgres makes room for the connections of many clients, unless it is to be as installed, and the tables.
func preparePostgres(ctx context.Context, p *embedtest.PostgresServer, asInstalled bool) error {
	if !asInstalled {
		if err := makeRoom(ctx, p); err != nil {
			return err
		}
	}
	config, err := pgx.ParseConfig(p.URL())
	if err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, config); err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `CREATE TABLE pairs (id text PRIMARY KEY, n bigint NOT NULL);
		CREATE TABLE locks (path text PRIMARY KEY, holder text NOT NULL, expires timestamptz NOT NULL)`)
	return errors.Join(err, conn.Close(ctx))
}

// makeRoom makes room for the connections of many clients.
func makeRoom(ctx context.Context, p *embedtest.PostgresServer) error {
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "ALTER SYSTEM SET max_connections = 1000")
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return err
	}
	return p.Restart(ctx)
}

// prepareMySQL makes the tables.
func prepareMySQL(ctx context.Context, m *embedtest.MariaDBServer) error {
	if err := mysql.Migrate(ctx, m.DSN("test")); err != nil {
		return err
	}
	db, err := sql.Open("mysql", m.DSN("test"))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE pairs (id varchar(255) PRIMARY KEY, n bigint NOT NULL)")
	if err == nil {
		_, err = db.ExecContext(ctx, "CREATE TABLE locks (path varchar(255) PRIMARY KEY, holder text NOT NULL, expires datetime(6) NOT NULL)")
	}
	return errors.Join(err, db.Close())
}
