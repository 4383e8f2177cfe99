package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/sqlite"
)

var sqliteStore = store{
	open: func(ctx context.Context, on *stage, o farsync.Options) (*farsync.Store, error) {
		options := sqliteOptions(on)
		options.Options = o
		return sqlite.Open(ctx, on.at[0], options)
	},
	service: func(on *stage) (driver.Service, error) { return sqlite.NewService(on.at[0], sqliteOptions(on)) },
}

func sqliteOptions(on *stage) *sqlite.Options { return &sqlite.Options{Sync: on.site.spec.fsync} }

// sqliteDB opens the file that the stores are in.
func sqliteDB(ctx context.Context, on *stage) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+on.at[0]+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	on.onClose(func() { _ = db.Close() })
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS pairs (id TEXT PRIMARY KEY, n INTEGER NOT NULL)")
	return db, err
}

var sqlitePairs = peer{"insert + delete", func(ctx context.Context, on *stage, n int) (team, error) {
	db, err := sqliteDB(ctx, on)
	if err != nil {
		return nil, err
	}
	return gather(n, func(i int) (body, error) {
		id := fmt.Sprint(on.path, "-", i)
		return func(ctx context.Context) error {
			if _, err := db.ExecContext(ctx, "INSERT INTO pairs VALUES ($1, 0)", id); err != nil {
				return err
			}
			_, err := db.ExecContext(ctx, "DELETE FROM pairs WHERE id = $1", id)
			return err
		}, nil
	})
}}

func sqliteGuard(ctx context.Context, on *stage) (func(context.Context, *farsync.Lease) error, error) {
	db, err := sqliteDB(ctx, on)
	return func(ctx context.Context, lease *farsync.Lease) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		err = sqlite.Guard(ctx, tx, lease)
		if err == nil {
			_, err = tx.ExecContext(ctx, countUp, on.path)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}, err
}
