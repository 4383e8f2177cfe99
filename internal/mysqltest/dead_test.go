package mysqltest_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// buries is the procedure by which Stores end sessions that have run out.
const buries = "farsync_bury_4('[]')"

// die adds processes that have died, the first of which ran out first. Each has an entry of its own.
func (d database) die(t *testing.T, n int) {
	d.exec(t, "INSERT INTO farsync_sessions SELECT CONCAT('dead-', seq), 1000 + seq, 1000000 FROM "+numbers(n))
	d.exec(t, `INSERT INTO farsync_entries (id, queue, session, kind, revision)
		SELECT CONCAT('entry-', seq), CONCAT('/dead/', seq), CONCAT('dead-', seq), 'exclusive', 1 FROM `+numbers(n))
}

// keepDead begins a transaction that keeps the entries that die has left, as guards do. As REPEATABLE READ it would lock the
// entry behind them as well, which may be another's.
func (d database) keepDead(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := d.admin.BeginTx(within(t, soon), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	_, err = tx.ExecContext(within(t, soon), "SELECT 1 FROM farsync_entries WHERE id LIKE 'entry-%' LOCK IN SHARE MODE")
	require.NoError(t, err)
	return tx
}

// TestAllOfManyDeadAreSucceeded: a step at the server ends 64 sessions at most, and is followed by another.
func TestAllOfManyDeadAreSucceeded(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, ttl(time.Hour))
	d.die(t, 200)
	lease, err := farsync.NewMutex(store, "/dead/1").TryLock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, lease.Release())
}

// TestRenewalTellsOfMoreDead, and so is followed by what ends them.
func TestRenewalTellsOfMoreDead(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CALL farsync_open_9('live', 3600000000)")
	d.die(t, 64+64+1)
	for _, rows := range []int{2, 2, 1, 1} {
		shown, err := d.admin.QueryContext(within(t, soon), "CALL farsync_renew_7('live')")
		require.NoError(t, err)
		n := 0
		for shown.Next() {
			n++
		}
		require.NoError(t, shown.Err())
		require.NoError(t, shown.Close())
		require.Equal(t, rows, n)
	}
	require.Equal(t, 1, ask[int](t, d, "SELECT COUNT(*) FROM farsync_sessions"))
}

// TestManyDeadThatGuardsKeepAreNotWaitedFor: nothing that can be ended is left, though more than a step looks at.
func TestManyDeadThatGuardsKeepAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, ttl(time.Hour))
	d.die(t, 200)
	tx := d.keepDead(t)
	_, err := farsync.NewMutex(store, "/dead/1").TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.NoError(t, tx.Commit())
	lease, err := farsync.NewMutex(store, "/dead/1").TryLock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, lease.Release())
}

// TestDeadWhoseEntryIsBeingRemovedIsNotWaitedFor: the transaction of a person may stay open, and the others that have died are ended.
func TestDeadWhoseEntryIsBeingRemovedIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.die(t, 2)
	tx := d.begin(t)
	_, err := tx.ExecContext(within(t, soon), "DELETE FROM farsync_entries WHERE id = 'entry-2'")
	require.NoError(t, err)
	d.exec(t, "CALL "+buries) // on a connection that waits for a row for 50 s, and fails then
	require.Equal(t, "dead-2", ask[string](t, d, "SELECT GROUP_CONCAT(id) FROM farsync_sessions"))
	require.NoError(t, tx.Commit())
	d.exec(t, "CALL "+buries)
	require.Zero(t, ask[int](t, d, "SELECT COUNT(*) FROM farsync_sessions"))
}

// TestDeadWhoseEntryIsReadUnderALockIsNotWaitedFor: a read that locks locks an index alone where that has all that is
// read, and a DELETE waits for each. The others that have died are ended.
func TestDeadWhoseEntryIsReadUnderALockIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for _, look := range []string{
		"SELECT id FROM farsync_entries FORCE INDEX (PRIMARY) WHERE id = 'entry-2'",
		"SELECT revision FROM farsync_entries FORCE INDEX (farsync_entries_queue) WHERE queue = '/dead/2'",
		"SELECT COUNT(session) FROM farsync_entries FORCE INDEX (farsync_entries_session) WHERE session = 'dead-2'",
	} {
		t.Run(look, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.die(t, 3)
			tx, err := d.admin.BeginTx(within(t, soon), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			_, err = tx.ExecContext(within(t, soon), look+" LOCK IN SHARE MODE")
			require.NoError(t, err)
			d.exec(t, "CALL "+buries) // on a connection that waits for a row for 50 s, and fails then
			require.Equal(t, "dead-2", ask[string](t, d, "SELECT GROUP_CONCAT(id) FROM farsync_sessions"))
			require.NoError(t, tx.Commit())
			d.exec(t, "CALL "+buries)
			require.Zero(t, ask[int](t, d, "SELECT COUNT(*) FROM farsync_sessions"))
		})
	}
}

// TestEntriesOfSessionsThatWereTruncatedAreNamed: no foreign key has taken them with it, and no session will ever end them.
func TestEntriesOfSessionsThatWereTruncatedAreNamed(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	_, in := d.session(t, d.dsn(), time.Hour)
	e := exclusive(t, in, "/truncated")
	conn, err := d.admin.Conn(within(t, soon))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	for _, statement := range []string{"SET foreign_key_checks = 0", "TRUNCATE TABLE farsync_sessions", "SET foreign_key_checks = 1"} {
		_, err = conn.ExecContext(within(t, soon), statement)
		require.NoError(t, err)
	}
	store := d.open(t, ttl(time.Minute))
	_, err = farsync.NewMutex(store, "/truncated").Lock(within(t, soon))
	require.ErrorContains(t, err, e.ID)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	d.delete(t, e)
	require.NoError(t, lock(t, store, "/truncated").Release())
}
