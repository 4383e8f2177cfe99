package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/postgres"
)

var postgresStore = store{
	open: func(ctx context.Context, on *stage) (*farsync.Store, error) {
		config, err := pgxpool.ParseConfig(postgresURL(on))
		if err != nil {
			return nil, err
		}
		return postgres.Open(ctx, config, nil)
	},
	service: func(on *stage) (driver.Service, error) {
		config, err := pgxpool.ParseConfig(postgresURL(on))
		if err != nil {
			return nil, err
		}
		return postgres.NewService(config, &postgres.Options{})
	},
}

func postgresURL(on *stage) string {
	return "postgres://postgres@" + on.at[0] + "/postgres?sslmode=disable"
}

func postgresConn(ctx context.Context, on *stage) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, postgresURL(on))
	if err == nil {
		on.onClose(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	}
	return conn, err
}

const (
	adviseLock   = "SELECT pg_advisory_lock(hashtextextended($1, 0))"
	adviseUnlock = "SELECT pg_advisory_unlock(hashtextextended($1, 0))"
)

// advisoryLocks are PostgreSQL's own, each on a connection of its own.
var advisoryLocks = peer{"advisory lock", func(ctx context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		conn, err := postgresConn(ctx, on)
		return func(ctx context.Context) error {
			if _, err := conn.Exec(ctx, adviseLock, on.path); err != nil {
				return err
			}
			_, err := conn.Exec(ctx, adviseUnlock, on.path)
			return err
		}, err
	})
}}

var postgresPairs = peer{"insert + delete", func(ctx context.Context, on *stage, n int) (team, error) {
	return gather(n, func(i int) (body, error) {
		conn, err := postgresConn(ctx, on)
		id := fmt.Sprint(on.path, "-", i)
		return func(ctx context.Context) error {
			if _, err := conn.Exec(ctx, "INSERT INTO pairs VALUES ($1, 0)", id); err != nil {
				return err
			}
			_, err := conn.Exec(ctx, "DELETE FROM pairs WHERE id = $1", id)
			return err
		}, err
	})
}}

const countUp = "INSERT INTO pairs VALUES ($1, 0) ON CONFLICT (id) DO UPDATE SET n = pairs.n + 1"

func postgresGuard(ctx context.Context, on *stage) (func(context.Context, *farsync.Lease) error, error) {
	conn, err := postgresConn(ctx, on)
	return func(ctx context.Context, lease *farsync.Lease) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		err = postgres.Guard(ctx, tx, lease)
		if err == nil {
			_, err = tx.Exec(ctx, countUp, on.path)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback(ctx))
		}
		return tx.Commit(ctx)
	}, err
}

// advisoryUnguarded writes without any check: it is for the connection that has the lock to write.
var advisoryUnguarded = peer{"advisory lock + write", func(ctx context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		conn, err := postgresConn(ctx, on)
		return func(ctx context.Context) error {
			for _, statement := range []string{adviseLock, countUp, adviseUnlock} {
				if _, err := conn.Exec(ctx, statement, on.path); err != nil {
					return err
				}
			}
			return nil
		}, err
	})
}}
