package mysqltest_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// held is an owner of entries of any making.
type held []driver.Entry

func (h held) GuardEntries() ([]driver.Entry, error) { return h, nil }

// begin begins a transaction of the program's own. Its isolation is the server's: REPEATABLE READ.
func (d database) begin(t testing.TB) *sql.Tx {
	t.Helper()
	tx, err := d.admin.BeginTx(within(t, soon), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// guard returns a write that the owner guards.
func (d database) guard(t *testing.T, owner locktest.Owner) func() bool {
	entries, _ := owner.GuardEntries() // none of a lease that has ended
	is := held(entries)
	return func() bool {
		tx := d.begin(t)
		err := mysql.Guard(within(t, soon), tx, is)
		if errors.Is(err, farsync.ErrLost) {
			require.ErrorIs(t, tx.Rollback(), sql.ErrTxDone)
			return false
		}
		require.NoError(t, err)
		_, err = tx.ExecContext(within(t, soon), "UPDATE resource SET written = written + 1")
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		return true
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CREATE TABLE resource (written int)")
	d.exec(t, "INSERT INTO resource VALUES (0)")
	mu := farsync.NewMutex(d.open(t, ttl(time.Minute)), "/guard")
	early := d.begin(t) // it sees what there was before the lease
	var n int
	require.NoError(t, early.QueryRowContext(within(t, soon), "SELECT COUNT(*) FROM farsync_entries").Scan(&n))
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, mysql.Guard(within(t, soon), early, lease))
	require.NoError(t, early.Commit())
	e := locktest.GuardEntries(t, lease)[0]
	for name, h := range map[string]held{
		"nothing":          nil,
		"another's row":    {{Queue: "/guard", ID: "another", Revision: e.Revision}},
		"in capitals":      {{Queue: "/guard", ID: strings.ToLower(e.ID), Revision: e.Revision}},
		"another revision": {{Queue: "/guard", ID: e.ID, Revision: e.Revision + 1}},
		"one of two":       {e, {Queue: "/guard", ID: "another", Revision: 2}},
	} {
		require.False(t, d.guard(t, h)(), name)
	}
	require.True(t, d.guard(t, lease)())
	late := d.begin(t) // it sees what there was before the release
	require.NoError(t, late.QueryRowContext(within(t, soon), "SELECT COUNT(*) FROM farsync_entries").Scan(&n))
	require.NoError(t, lease.Release())
	require.ErrorIs(t, mysql.Guard(within(t, soon), late, held{e}), farsync.ErrLost)
	after := d.begin(t)
	err = mysql.Guard(within(t, soon), after, lease)
	require.EqualError(t, err, "farsync: guard /guard: released")
	require.ErrorIs(t, err, farsync.ErrReleased)
	require.ErrorIs(t, after.Rollback(), sql.ErrTxDone, "whatever is not guarded is rolled back")
	require.Equal(t, 1, ask[int](t, d, "SELECT written FROM resource"))
}

// TestGuardIsInNobodysWay: while a transaction has a guard, for longer than the TTL, the lease goes on, and others join the queue.
func TestGuardIsInNobodysWay(t *testing.T) {
	suite.Long(t, suite.MySQL, "waits for renewals of a TTL of 4 s, which must be in time")
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, ttl(4*time.Second))
	lease := lock(t, store, "/guard")
	tx := d.begin(t)
	require.NoError(t, mysql.Guard(within(t, soon), tx, lease))
	got := locktest.LockBehind(t, d.open(t, ttl(4*time.Second)), "/guard")
	locktest.AwaitQueue(t, store, "/guard", 2)
	<-time.After(6 * time.Second)
	require.NoError(t, lease.Err())
	require.Empty(t, got)
	require.NoError(t, tx.Commit())
	require.NoError(t, lease.Release())
	require.NoError(t, locktest.Got(t, got).Release())
}

// TestRefusedGuardIsInNobodysWay: at REPEATABLE READ what looks for a row that is gone locks the gap that it has left, into which others insert.
// So a guard that is refused ends its transaction.
func TestRefusedGuardIsInNobodysWay(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CREATE TABLE resource (written int)")
	store := d.open(t, ttl(time.Minute))
	gone := driver.Entry{Queue: "/guard", ID: "gone", Revision: 1}
	for _, refused := range []held{{gone}, nil} {
		tx := d.begin(t)
		_, err := tx.ExecContext(within(t, soon), "INSERT INTO resource VALUES (1)")
		require.NoError(t, err)
		require.ErrorIs(t, mysql.Guard(within(t, soon), tx, refused), farsync.ErrLost)
		require.NoError(t, lock(t, store, "/other").Release())
		require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
		require.ErrorIs(t, tx.Rollback(), sql.ErrTxDone)
	}
	require.Zero(t, ask[int](t, d, "SELECT COUNT(*) FROM resource"))
}

// TestGuardLocksARowOrAGap: what a Guard and a LockTx have locked in a transaction at REPEATABLE READ, and what a Guard
// that finds no entry would keep locked if its transaction went on.
func TestGuardLocksARowOrAGap(t *testing.T) {
	t.Parallel()
	d := databaseOf(t, newServer(t))
	lease := lock(t, d.open(t, ttl(time.Hour)), "/guard") // no renewal comes, which would lock the session
	d.exec(t, "INSERT INTO farsync_queues VALUES ('/guard/other', 1)")
	for _, row := range []struct {
		name  string
		do    func(tx *sql.Tx) error
		locks []string
	}{
		{"Guard", func(tx *sql.Tx) error { return mysql.Guard(within(t, soon), tx, lease) }, []string{"farsync_entries PRIMARY S,REC_NOT_GAP"}},
		{"LockTx", func(tx *sql.Tx) error { return mysql.LockTx(within(t, soon), tx, "/guard/other") }, []string{"farsync_queues PRIMARY X,REC_NOT_GAP"}},
		{"Guard of what is gone", func(tx *sql.Tx) error {
			return tx.QueryRowContext(within(t, soon), "SELECT COUNT(*) FROM farsync_entries WHERE id = ' ' LOCK IN SHARE MODE").Scan(new(int))
		}, []string{"farsync_entries PRIMARY S,GAP"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			tx := d.begin(t)
			require.NoError(t, row.do(tx))
			require.Equal(t, row.locks, d.locks(t))
			require.NoError(t, tx.Rollback())
		})
	}
}

// TestDeadlockEndsItsTransaction: the server has rolled back all, and what came next in the transaction would be guarded by nothing.
func TestDeadlockEndsItsTransaction(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, has, waits string
		lock             func(ctx context.Context, tx *sql.Tx, lease *farsync.Lease) error
	}{
		{"Guard", "SELECT 1 FROM farsync_entries FOR UPDATE", "%farsync_entries%LOCK IN SHARE MODE", func(
			ctx context.Context, tx *sql.Tx, lease *farsync.Lease,
		) error {
			return mysql.Guard(ctx, tx, lease)
		}},
		{"LockTx", "SELECT 1 FROM farsync_queues FOR UPDATE", "%INTO farsync_queues%UPDATE last = last", func(
			ctx context.Context, tx *sql.Tx, _ *farsync.Lease,
		) error {
			return mysql.LockTx(ctx, tx, "/other")
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.exec(t, "CREATE TABLE heavy (n int PRIMARY KEY)")
			d.exec(t, "INSERT INTO heavy VALUES (1)")
			store := d.open(t, ttl(time.Minute))
			require.NoError(t, lock(t, store, "/other").Release())
			lease := lock(t, store, "/guard")

			// The other transaction has what is to be locked, and more to lose; then each wants what the other has.
			tx, other := d.begin(t), d.begin(t)
			for n := range 50 {
				_, err := other.ExecContext(within(t, soon), "INSERT INTO heavy VALUES (?)", 2+n)
				require.NoError(t, err)
			}
			_, err := other.ExecContext(within(t, soon), row.has)
			require.NoError(t, err)
			_, err = tx.ExecContext(within(t, soon), "SELECT 1 FROM heavy WHERE n = 1 FOR UPDATE")
			require.NoError(t, err)
			failed := make(chan error, 1)
			go func() { failed <- row.lock(within(t, soon), tx, lease) }() // joined below
			require.Eventually(t, func() bool { return running(t, d, row.waits) > 0 }, soon, time.Millisecond)
			_, err = other.ExecContext(within(t, soon), "SELECT 1 FROM heavy WHERE n = 1 FOR UPDATE")
			require.NoError(t, err)
			require.ErrorContains(t, locktest.Got(t, failed), "Deadlock")
			require.NoError(t, other.Rollback())
			require.ErrorIs(t, row.lock(within(t, soon), tx, lease), sql.ErrTxDone)
			require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
		})
	}
}

// TestOldSnapshotsAreNamed: with innodb_snapshot_isolation the server refuses to lock what has changed since a transaction has first read, and
// rolls that back.
func TestOldSnapshotsAreNamed(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	const setting = "innodb_snapshot_isolation"
	if known := d.admin.QueryRowContext(within(t, soon), "SHOW GLOBAL VARIABLES LIKE '"+setting+"'").Scan(new(string), new(string)); known != nil {
		t.Skip("the server has no " + setting)
	}
	d.admin = connect(t, d.dsn()+"?"+setting+"=1")
	store := d.open(t, ttl(time.Minute))
	require.NoError(t, lock(t, store, "/in-tx").Release())
	early, earlier := d.begin(t), d.begin(t)
	for _, tx := range []*sql.Tx{early, earlier} {
		var n int
		require.NoError(t, tx.QueryRowContext(within(t, soon), "SELECT COUNT(*) FROM farsync_entries").Scan(&n))
	}
	lease := lock(t, store, "/guard")
	require.NoError(t, lock(t, store, "/in-tx").Release())
	for _, row := range []struct {
		old  *sql.Tx
		lock func(tx *sql.Tx) error
	}{
		{early, func(tx *sql.Tx) error { return mysql.Guard(within(t, soon), tx, lease) }},
		{earlier, func(tx *sql.Tx) error { return mysql.LockTx(within(t, soon), tx, "/in-tx") }},
	} {
		require.ErrorContains(t, row.lock(row.old), "READ COMMITTED")
		require.ErrorIs(t, row.old.Commit(), sql.ErrTxDone)
		tx := d.begin(t)
		require.NoError(t, row.lock(tx))
		require.NoError(t, tx.Commit())
		committed, err := d.admin.BeginTx(within(t, soon), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		require.NoError(t, err)
		var n int
		require.NoError(t, committed.QueryRowContext(within(t, soon), "SELECT COUNT(*) FROM farsync_entries").Scan(&n))
		require.NoError(t, row.lock(committed))
		require.NoError(t, committed.Commit())
	}
}

// TestGuardOutlivesItsHolder: sessions end while transactions with their guards are open. No other client holds before the
// transaction has ended, and all else that the sessions had is free.
func TestGuardOutlivesItsHolder(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	times, of := 1, 10*time.Second // it finds by a renewal that the guard has gone
	if suite.More(t, suite.MySQL) {
		times, of = 5, 2*time.Second
	}
	next := d.open(t, ttl(of))
	for range times {
		holder, err := mysql.NewService(d.dsn(), nil)
		require.NoError(t, err)
		in, err := holder.Open(within(t, soon), time.Hour)
		require.NoError(t, err)
		create := func(queue string) driver.Entry {
			v, err := in.Create(within(t, soon), driver.Entry{
				Queue: queue, ID: in.NewID(queue, driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
			}, 0)
			require.NoError(t, err)
			return v.Self
		}
		guarded, other := create("/guarded"), create("/other")
		tx := d.begin(t)
		require.NoError(t, mysql.Guard(within(t, soon), tx, held{guarded}))
		got := locktest.LockBehind(t, next, "/guarded")
		require.EqualValues(t, 1, d.exec(t, "UPDATE farsync_sessions SET deadline = 1 WHERE id = ?", other.Session))
		require.NoError(t, lock(t, next, "/other").Release())
		require.Equal(t, driver.Expired, holder.Outcome(in.Renew(within(t, soon), nil)), "it cannot come back")
		require.Equal(t, guarded.ID, ask[string](t, d, "SELECT id FROM farsync_entries WHERE queue = '/guarded' ORDER BY revision LIMIT 1"))
		require.Empty(t, got)
		require.NoError(t, tx.Commit())
		require.NoError(t, locktest.Got(t, got).Release())
		in.Drop()
		require.NoError(t, holder.Close())
	}
}

func TestLockTx(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, ttl(time.Minute))
	first, second := d.begin(t), d.begin(t)
	require.NoError(t, mysql.LockTx(within(t, soon), first, "/in-tx"))
	require.NoError(t, mysql.LockTx(within(t, soon), first, "/in-tx"), "again")
	require.ErrorIs(t, mysql.LockTx(within(t, soon), first, "in-tx"), farsync.ErrPath)
	got := make(chan error, 1)
	go func() { got <- mysql.LockTx(within(t, soon), second, "/in-tx") }() // joined below
	_, err := farsync.NewMutex(store, "/in-tx").Lock(within(t, 300*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded, "no lease is given out")
	require.Empty(t, got)
	// The server goes on with a request that was given up, for up to a second: it would join the queue, and leave it
	// again.
	require.Eventually(t, func() bool {
		return running(t, d, "%INTO farsync_queues%UPDATE last = last") == 1 && running(t, d, "%INTO farsync_queues%GREATEST%") == 0
	}, soon, 10*time.Millisecond)
	require.NoError(t, lock(t, store, "/in-ty").Release(), "another path, new, and next to it in every index")
	require.NoError(t, lock(t, store, "/in-ty").Release())
	require.NoError(t, first.Commit())
	require.NoError(t, locktest.Got(t, got))
	require.NoError(t, second.Rollback())

	early := d.begin(t)
	var n int
	require.NoError(t, early.QueryRowContext(within(t, soon), "SELECT COUNT(*) FROM farsync_entries").Scan(&n))
	lease := lock(t, store, "/in-tx")
	third := d.begin(t)
	require.ErrorIs(t, mysql.LockTx(within(t, soon), third, "/in-tx"), farsync.ErrLocked)
	require.NoError(t, third.Rollback())
	require.ErrorContains(t, mysql.LockTx(within(t, soon), early, "/in-tx"), "READ COMMITTED", "it does not see the lease")
	require.NoError(t, early.Rollback())
	require.NoError(t, lease.Release())
	committed, err := d.admin.BeginTx(within(t, soon), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	require.NoError(t, err)
	require.NoError(t, committed.QueryRowContext(within(t, soon), "SELECT COUNT(*) FROM farsync_entries").Scan(&n))
	require.NoError(t, lock(t, store, "/in-tx").Release())
	require.NoError(t, mysql.LockTx(within(t, soon), committed, "/in-tx"), "it sees what is there")
	require.NoError(t, committed.Rollback())
}
