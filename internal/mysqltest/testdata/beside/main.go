// This program takes a lock over and over, as one of many. A test builds it with an earlier farsync: beside DSN
// migrate, or beside DSN TIMES.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strconv"
	"time"

	_ "github.com/go-sql-driver/mysql" // registers the driver

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/mysql"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err := mysql.Migrate(ctx, os.Args[1])
	if os.Args[2] != "migrate" {
		err = take(ctx, os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // nothing is left that cancel would end
	}
}

func take(ctx context.Context, dsn, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	store, err := mysql.Open(ctx, dsn, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	fmt.Println("open")
	for range n {
		lease, err := farsync.NewMutex(store, "/beside").Lock(ctx)
		if err != nil {
			return err
		}
		if err := visit(ctx, db, lease.Token()); err != nil {
			return err
		}
		if err := lease.Release(); err != nil {
			return err
		}
	}
	return nil
}

// visit leaves a row, and fails if it meets another who holds.
func visit(ctx context.Context, db *sql.DB, token farsync.Token) error {
	var inside int
	if _, err := db.ExecContext(ctx, "UPDATE beside SET inside = inside + 1"); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO written (token) VALUES (?)", token); err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, "SELECT inside FROM beside").Scan(&inside); err != nil {
		return err
	}
	if inside != 1 {
		return fmt.Errorf("%d hold", inside)
	}
	_, err := db.ExecContext(ctx, "UPDATE beside SET inside = inside - 1")
	return err
}
