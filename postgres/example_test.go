package postgres_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/postgres"
)

const url = "postgres://postgres@localhost:5432/postgres"

func ExampleOpen() {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := postgres.Migrate(ctx, config.ConnConfig); err != nil { // once, or by migrations of the program's own
		fmt.Println(err)
		return
	}
	store, err := postgres.Open(ctx, config, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	err = farsync.NewMutex(store, "/locks/billing").Do(ctx, func(_ context.Context, lease *farsync.Lease) error {
		fmt.Println("the work, with token", lease.Token())
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
}

// A transaction with a guard commits only while the lease is held.
func ExampleGuard() {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := postgres.Open(ctx, config, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	pay := func(lease *farsync.Lease) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if err := postgres.Guard(ctx, tx, lease); err != nil {
			return err
		}
		// What is written here commits only while the lease is held.
		return tx.Commit(ctx)
	}
	lease, err := farsync.NewMutex(store, "/locks/billing").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := pay(lease); err == nil {
		fmt.Println("paid")
	}
	_ = lease.Release()
	if err := pay(lease); errors.Is(err, farsync.ErrReleased) {
		fmt.Println("another may hold the lock, and nothing was paid")
	}
}
