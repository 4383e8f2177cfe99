package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/recipe"
)

// Guard has a transaction of the caller's own, in the same database, commit only while lease is held. The writes of the
// transaction are safe even from a holder that was suspended past its TTL:
//
//	tx, err := pool.Begin(ctx)
//	…
//	if err := postgres.Guard(ctx, tx, lease); err != nil {
//		return err // after tx.Rollback; wraps farsync.ErrLost, or what lease.Err says, if the lease is over
//	}
//	_, err = tx.Exec(ctx, "UPDATE accounts SET …")
//	…
//	return tx.Commit(ctx)
//
// From Guard on the lease's entry is locked until the transaction ends: nothing can remove it, not even the end of the
// session. So no other client holds the lock before the transaction has ended, however long its holder is suspended
// between Guard and Commit. Release waits for the transaction, for no longer than it waits for the server: end the
// transaction first.
//
// Call Guard on the transaction itself. The locks of a nested pgx.Tx, which is a savepoint, are gone once that is
// rolled back, and with them the guard. At REPEATABLE READ and SERIALIZABLE begin the transaction once the lease is
// held: it sees what was committed before its first statement, and so may read what is older than the last holder's
// commit. Guard cannot see that.
//
// Commit is the caller's own. A Commit that is given up may have been carried out. Where a synchronous replica keeps
// what is committed, and the config has pgx cancel statements, a Commit whose ctx ends may even return nil for changes
// that the replica does not have, with a warning for OnNotice.
//
// A guard never outlives its lease: once Guard was called, the lock is not handed off within this process, where the
// next lease would stand on the same entry. Leases for reading that share an entry already share the guard.
func Guard(ctx context.Context, tx pgx.Tx, lease farsync.Guarded) error {
	held, err := recipe.Guarding(lease)
	if err != nil {
		return err
	}
	for _, e := range held {
		var found bool
		err := tx.QueryRow(ctx, statements["guard"][0], e.ID, e.Revision).Scan(&found)
		if errors.Is(err, pgx.ErrNoRows) {
			err = fmt.Errorf("%w: its entry is not in the database, or its session is over", farsync.ErrLost)
		}
		if err != nil {
			return &farsync.Error{Op: "guard", Path: e.Queue, Err: err}
		}
	}
	return nil
}

// LockTx locks a path for a transaction of the caller's own, in the same database, until the transaction ends. It waits
// for another such transaction on the path, until ctx ends. It fails with farsync.ErrLocked if a lease on the path is
// held or waited for, and while the transaction runs no lease on the path is given out: callers who ask for a lease
// wait for the server, also with TryLock, and a Try fails with farsync.ErrUnavailable if its ctx ends first. The server
// does not tell such a transaction from a step of another Store, which is no reason for a Try to leave.
//
// Call LockTx on the transaction itself: the lock is gone once a nested pgx.Tx, which is a savepoint, is rolled back.
// At REPEATABLE READ and SERIALIZABLE it fails, to be tried again in another transaction, if the path was locked since
// the first statement.
//
// It is better than a Mutex where all that is protected is in that database, and short: there are no TTL, no clock and
// no token, and the lock and the writes under it commit together. It is worse for long work: it holds a connection
// and a transaction, which keeps vacuum from cleaning up, its waiters hold one each, and when the connection breaks the
// lock is gone while the work goes on.
func LockTx(ctx context.Context, tx pgx.Tx, path string) error {
	var taken bool
	err := recipe.CheckPath(path)
	if err == nil {
		_, err = tx.Exec(ctx, statements["turn"][0], path)
	}
	if err == nil {
		// In a statement of its own, which sees what was committed before the lock was had.
		err = tx.QueryRow(ctx, statements["taken"][0], path).Scan(&taken)
	}
	if err == nil && taken {
		err = fmt.Errorf("%w: by a lease", farsync.ErrLocked)
	}
	if err != nil {
		return &farsync.Error{Op: "lock", Path: path, Err: err}
	}
	return nil
}
