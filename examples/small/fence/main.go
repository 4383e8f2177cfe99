// Fence pays 100 into an account. A process that was suspended for too long, and writes after another has had the
// lock, is refused by the database:
//
//	go run ./examples/small/fence locks.db accounts.db
//
// Machines share a service in place of locks.db, and a database in place of accounts.db: see docs/FENCE.md.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/sqlite"
)

const table = `CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL, fence BIGINT NOT NULL);
INSERT INTO account VALUES (1, 0, 0) ON CONFLICT DO NOTHING`

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: fence LOCKS ACCOUNTS")
	}
	if err := pay(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func pay(ctx context.Context, locks, accounts string) (err error) {
	store, err := sqlite.Open(ctx, locks, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	db, err := sql.Open("sqlite", accounts+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, table); err != nil {
		return err
	}
	return farsync.NewMutex(store, farsync.PathOf("/accounts", "1")).Do(ctx, func(ctx context.Context, lease *farsync.Lease) error {
		var balance int64 // the read brings the token along: from here on no earlier holder can write
		row := db.QueryRowContext(ctx, "UPDATE account SET fence = ? WHERE id = 1 AND fence <= ? RETURNING balance", lease.Token(), lease.Token())
		if err := row.Scan(&balance); err != nil {
			return late(err)
		}
		balance += 100 // and whatever else the work is
		row = db.QueryRowContext(ctx, "UPDATE account SET balance = ? WHERE id = 1 AND fence = ? RETURNING balance", balance, lease.Token())
		if err := row.Scan(&balance); err != nil {
			return late(err)
		}
		fmt.Println("the balance is", balance)
		return nil
	})
}

// late says what a statement that finds no row means.
func late(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return errors.New("a later holder has the account: nothing was paid")
	}
	return err
}
