package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/sqlstore"
	"github.com/farsync/farsync/recipe"
)

// Guard has a transaction of the caller's own, on the same file, commit only while lease is held. The writes of the
// transaction are safe even from a holder that was suspended past its TTL:
//
//	db, err := sql.Open("sqlite", file+"?_txlock=immediate&_pragma=busy_timeout(5000)")
//	…
//	tx, err := db.BeginTx(ctx, nil) // waits for its turn to write, 5 seconds at most
//	…
//	if err := sqlite.Guard(ctx, tx, lease); err != nil {
//		return err // after tx.Rollback; wraps farsync.ErrLost, or what lease.Err says, if the lease is over
//	}
//	_, err = tx.ExecContext(ctx, "UPDATE accounts SET …")
//	…
//	return tx.Commit()
//
// With these parameters the transaction is the only one to write, from BeginTx to its end. So no other client takes the
// lock between Guard and the commit. All of farsync's changes in the file wait meanwhile, renewals too: keep the
// transaction shorter than half the TTL, and leave pauses between such transactions, for back to back they keep the
// locks of others waiting.
//
// Without _txlock=immediate the transaction begins to write with its first write. That fails with SQLITE_BUSY, whatever
// the timeout, if any Store has changed the file since Guard has looked, be it by a renewal. Then roll back and begin
// again; while other Stores are busy that may fail many times in a row. Without a busy_timeout, for modernc.org/sqlite
// sets none, BeginTx or the first write fails at once while another writes.
//
// A guard never outlives its lease: once Guard was called, the lock is not handed off within this process, where the
// next lease would stand on the same entry. Leases for reading that share an entry already share the guard, which holds
// until the last of them is released; no writer holds before that.
//
// In a process that has a Store on the file, the transaction must be of modernc.org/sqlite too: see the package
// documentation.
func Guard(ctx context.Context, tx *sql.Tx, lease farsync.Guarded) error {
	held, err := recipe.Guarding(lease)
	if err != nil {
		return err
	}
	guard := sqlstore.Statements(statements)["guard"][0]
	for _, e := range held {
		var found bool
		err := tx.QueryRowContext(ctx, guard, dated([]any{e.ID, e.Revision})...).Scan(&found)
		if err == nil && !found {
			err = fmt.Errorf("%w: its entry is not in the file, or its session is over", farsync.ErrLost)
		}
		if err != nil {
			return &farsync.Error{Op: "guard", Path: e.Queue, Err: err}
		}
	}
	return nil
}
