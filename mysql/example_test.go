package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/mysql"
)

const dsn = "app@tcp(localhost:3306)/test"

func ExampleOpen() {
	ctx := context.Background()
	if err := mysql.Migrate(ctx, dsn); err != nil { // once, or by migrations of the program's own
		fmt.Println(err)
		return
	}
	store, err := mysql.Open(ctx, dsn, nil)
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
	store, err := mysql.Open(ctx, dsn, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	pay := func(lease *farsync.Lease) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := mysql.Guard(ctx, tx, lease); err != nil {
			return err
		}
		// What is written here commits only while the lease is held.
		return tx.Commit()
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
