package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// Guard has a transaction of the caller's own, in the same database, commit only while lease is held. The writes of the
// transaction are safe even from a holder that was suspended past its TTL:
//
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	if err := mysql.Guard(ctx, tx, lease); err != nil {
//		return err // wraps farsync.ErrLost, or what lease.Err says, if the lease is over
//	}
//	_, err = tx.ExecContext(ctx, "UPDATE accounts SET …")
//	…
//	return tx.Commit()
//
// From Guard on the lease's entry is locked until the transaction ends: nothing can remove it, not even the end of the
// session. So no other client holds the lock before the transaction has ended, however long its holder is suspended
// between Guard and Commit. Release waits for the transaction, for no longer than it waits for the server: end the
// transaction first. The exception is an XA transaction on MariaDB, whose PREPARE gives up the lock.
//
// If Guard fails it has rolled back the transaction, with all that it has written. If the lease is over, its look at
// REPEATABLE READ locks the gap that the entry has left, and no other lock could be taken; and after a deadlock the
// server has rolled back already what a second Guard would then not guard. A later Rollback or Commit returns
// sql.ErrTxDone. With innodb_snapshot_isolation, as by default from MariaDB 11.6.2 on, a transaction at REPEATABLE READ
// that has read before the lease was granted fails: let Guard come first, or use READ COMMITTED.
//
// If the connection breaks, the transaction ends when the server notices. The wait_timeout of that connection bounds
// that, 8 hours unless changed: set it in the DSN of the pool that guarded transactions use.
//
// A guard never outlives its lease: once Guard was called, the lock is not handed off within this process, where the
// next lease would stand on the same entry. Leases for reading that share an entry already share the guard.
func Guard(ctx context.Context, tx *sql.Tx, lease farsync.Guarded) error {
	held, err := recipe.Guarding(lease)
	if err != nil {
		return end(tx, err)
	}
	for _, e := range held {
		if err := stands(ctx, tx, e); err != nil {
			return &farsync.Error{Op: "guard", Path: e.Queue, Err: end(tx, err)}
		}
	}
	return nil
}

// stands locks an entry. It reads what is committed now, whatever else the transaction has seen. The session is left
// alone: a lock on it would keep it from being renewed, and a read of it may be as old as the transaction. While the
// entry stands, no other holds.
func stands(ctx context.Context, tx *sql.Tx, e driver.Entry) error {
	var found int
	err := tx.QueryRowContext(ctx, "SELECT 1 FROM farsync_entries WHERE id = ? AND revision = ? LOCK IN SHARE MODE",
		e.ID, e.Revision).Scan(&found)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: its entry is not in the database", farsync.ErrLost)
	}
	return err
}

// errOld is the error of a transaction at REPEATABLE READ that does not see what it has locked.
var errOld = errors.New("the transaction has read before, and does not see what was committed since: lock first, or use READ COMMITTED")

// errRecordChanged is the number of what MariaDB with innodb_snapshot_isolation says instead: such a transaction may
// not lock it.
const errRecordChanged = 1020

// end rolls back a transaction in which a statement has failed, and explains why. After some errors, of a deadlock and,
// as the server is set, of a row that is locked for too long, the server has rolled back all of it: each statement from
// then on would be a transaction of its own, which gives up its locks when it ends. Other errors leave the rest of the
// transaction as it was, but no list of them is complete.
func end(tx *sql.Tx, err error) error {
	_ = tx.Rollback()
	if failed, ok := errors.AsType[*mysql.MySQLError](err); ok && failed.Number == errRecordChanged {
		return fmt.Errorf("%w: %w", errOld, err)
	}
	return err
}

// LockTx locks a path for a transaction of the caller's own, in the same database, until the transaction ends. It waits
// for another such transaction on the path, until ctx ends, or for the connection's innodb_lock_wait_timeout. It fails
// with farsync.ErrLocked if a lease on the path is held or waited for, and while the transaction runs no lease on the
// path is given out: callers who ask for a lease wait for the server, also with TryLock, and a Try fails with
// farsync.ErrUnavailable if its ctx ends first. The server does not tell such a transaction from a step of another
// Store, which is no reason for a Try to leave. Let LockTx be the first statement of its transaction, or let the
// transaction be at READ COMMITTED: at REPEATABLE READ a transaction sees what there was when it first read,
// and LockTx fails if that is not enough. At SERIALIZABLE its look locks the gap in which the path has no entry, and
// Locks on other paths wait for the transaction: do not use that. LockTx does not refuse it, for the server shows the
// level of a connection and not of its transaction.
//
// A transaction that meets an error of the server in LockTx is rolled back, as by [Guard]. A transaction that LockTx
// refuses, for a lease or for what it does not see, goes on, and callers who join the path wait for it all the same:
// end it soon. To roll back to a savepoint from before LockTx may give up the lock: where the path was new, its row
// goes.
//
// It is better than a Mutex where all that is protected is in that database, and short: there are no TTL, no clock and
// no token, and the lock and the writes under it commit together. It is worse for long work: it holds a connection
// and a transaction, which keeps old versions of rows from being purged, its waiters hold one each, and when the
// connection breaks the lock is gone while the work goes on, or stays until the server notices: see [Guard].
func LockTx(ctx context.Context, tx *sql.Tx, path string) error {
	err := recipe.CheckPath(path)
	if err == nil {
		err = lockQueue(ctx, tx, path)
	}
	if err != nil {
		return &farsync.Error{Op: "lock", Path: path, Err: err}
	}
	return nil
}

// lockQueue locks the row at which sessions that join take turns, and looks at the queue. A look that locks would see
// what is there now, but at REPEATABLE READ it also locks the gaps beside it, into which others insert. So the look is
// a plain read, which is good if it sees the row as it is.
func lockQueue(ctx context.Context, tx *sql.Tx, path string) error {
	const lock = `INSERT INTO farsync_queues (path, last)
		VALUES (?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) ON DUPLICATE KEY UPDATE last = last`
	if _, err := tx.ExecContext(ctx, lock, path); err != nil {
		return end(tx, err)
	}
	var is, seen int64
	var taken bool
	err := tx.QueryRowContext(ctx, "SELECT last FROM farsync_queues WHERE path = ? FOR UPDATE", path).Scan(&is)
	if err == nil {
		err = tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(last), 0), EXISTS (SELECT 1 FROM farsync_entries WHERE queue = ?)
			FROM farsync_queues WHERE path = ?`, path, path).Scan(&seen, &taken)
	}
	switch {
	case err != nil:
		return end(tx, err)
	case seen != is:
		return errOld
	case taken:
		return fmt.Errorf("%w: by a lease", farsync.ErrLocked)
	default:
		return nil
	}
}
