package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/sqlite"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "locks.db"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	err = farsync.NewMutex(store, "/locks/billing").Do(ctx, func(ctx context.Context, lease *farsync.Lease) error {
		fmt.Println("the work")
		return nil
	})
	fmt.Println(err)
	// Output:
	// the work
	// <nil>
}

// A transaction with a guard commits only while the lease is held.
func ExampleGuard() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "billing.db") // the locks and what they protect are in one file

	ctx := context.Background()
	store, err := sqlite.Open(ctx, file, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	// BeginTx waits for its turn, and nothing else is written between Guard and Commit.
	db, err := sql.Open("sqlite", file+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER)"); err != nil {
		fmt.Println(err)
		return
	}

	open := func(lease *farsync.Lease) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := sqlite.Guard(ctx, tx, lease); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO account (balance) VALUES (100)"); err != nil {
			return err
		}
		return tx.Commit()
	}
	lease, err := farsync.NewMutex(store, "/locks/accounts").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("while held:", open(lease))
	fmt.Println("released:", lease.Release())
	fmt.Println("afterwards, refused:", errors.Is(open(lease), farsync.ErrReleased))
	// Output:
	// while held: <nil>
	// released: <nil>
	// afterwards, refused: true
}
