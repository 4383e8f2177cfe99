package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/postgres"
)

var postgresStore = store{
	open: func(ctx context.Context, on *stage, o farsync.Options) (*farsync.Store, error) {
		config, err := pgxpool.ParseConfig(postgresURL(on))
		if err != nil {
			return nil, err
		}
		return postgres.Open(ctx, config, &postgres.Options{Options: o})
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

var postgreSQL = database{
	connect: func(ctx context.Context, on *stage) (runner, error) {
		conn, err := postgresConn(ctx, on)
		return func(ctx context.Context, statement string, args ...any) (int64, error) {
			done, err := conn.Exec(ctx, statement, args...)
			return done.RowsAffected(), err
		}, err
	},
	row:      "INSERT INTO locks VALUES ($1, '', '-infinity') ON CONFLICT DO NOTHING",
	take:     "UPDATE locks SET holder = $1, expires = now() + interval '10 s' WHERE path = $2 AND expires < now()",
	giveBack: "UPDATE locks SET expires = '-infinity' WHERE holder = $1 AND path = $2",
}

const (
	adviseLock   = "SELECT pg_advisory_lock(hashtextextended($1, 0))"
	adviseUnlock = "SELECT pg_advisory_unlock(hashtextextended($1, 0))"
	countUp      = "INSERT INTO pairs VALUES ($1, 0) ON CONFLICT (id) DO UPDATE SET n = pairs.n + 1"
)

var (
	// advisoryLocks are PostgreSQL's own, each on a connection of its own.
	advisoryLocks    = postgreSQL.sequence("advisory lock", adviseLock, adviseUnlock)
	postgresRows     = postgreSQL.sequence("SELECT … FOR UPDATE", "BEGIN", "SELECT 1 FROM locks WHERE path = $1 FOR UPDATE", "COMMIT")
	postgresExpiries = postgreSQL.expiries()
	postgresPairs    = postgreSQL.pairs("INSERT INTO pairs VALUES ($1, 0)", "DELETE FROM pairs WHERE id = $1")
	// advisoryUnguarded writes without any check: it is for the connection that has the lock to write.
	advisoryUnguarded = postgreSQL.sequence("advisory lock + write", adviseLock, countUp, adviseUnlock)
)

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
