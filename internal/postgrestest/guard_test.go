package postgrestest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// held is an owner of entries of any making.
type held []driver.Entry

func (h held) GuardEntries() ([]driver.Entry, error) { return h, nil }

func (d database) begin(t testing.TB) pgx.Tx {
	tx, err := d.admin.Begin(within(t, soon))
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func TestGuard(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CREATE TABLE accounts (balance int)")
	d.exec(t, "INSERT INTO accounts VALUES (0)")
	guarded := func(h farsync.Guarded, balance int) error {
		tx := d.begin(t)
		err := postgres.Guard(within(t, soon), tx, h)
		if err == nil {
			_, err = tx.Exec(within(t, soon), "UPDATE accounts SET balance = $1", balance)
		}
		if err != nil {
			require.NoError(t, tx.Rollback(within(t, soon)))
			return err
		}
		return tx.Commit(within(t, soon))
	}
	mu := farsync.NewMutex(d.open(t, time.Hour), "/guard") // no renewal comes between
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, guarded(lease, 1))
	require.NoError(t, guarded(lease, 2), "as often as one likes")
	for name, h := range map[string]held{
		"nothing":          nil,
		"another's row":    {{Queue: "/guard", ID: "another", Revision: locktest.GuardEntries(t, lease)[0].Revision}},
		"another revision": {{Queue: "/guard", ID: lease.ID(), Revision: locktest.GuardEntries(t, lease)[0].Revision + 1}},
		"one of two":       {locktest.GuardEntries(t, lease)[0], {Queue: "/guard", ID: "another", Revision: 2}},
	} {
		require.ErrorIs(t, guarded(h, 3), farsync.ErrLost, name)
	}
	before := held(locktest.GuardEntries(t, lease))
	require.NoError(t, lease.Release())
	require.EqualError(t, guarded(lease, 4), "farsync: guard /guard: released")
	require.ErrorIs(t, guarded(lease, 4), farsync.ErrReleased)
	next, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.ErrorIs(t, guarded(before, 5), farsync.ErrLost, "the lease of before, while the same Mutex is held again")
	d.exec(t, "UPDATE farsync_sessions SET deadline = farsync_now()")
	require.NoError(t, next.Err(), "it has not heard yet")
	require.ErrorIs(t, guarded(next, 6), farsync.ErrLost, "past its deadline")
	var balance int
	require.NoError(t, d.admin.QueryRow(within(t, soon), "SELECT balance FROM accounts").Scan(&balance))
	require.Equal(t, 2, balance)
}

// TestGuardOutlivesItsHolder: holders are stopped between Guard and COMMIT, and their sessions end. No other client holds before the
// transaction has ended, and all else that the sessions had is free at once.
func TestGuardOutlivesItsHolder(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	times, ttl := 1, 10*time.Second // it finds by a renewal that the guard has gone
	if suite.More(t, suite.Postgres) {
		times, ttl = 5, 2*time.Second
	}
	next := d.open(t, ttl)
	for range times {
		holder := d.service(t)
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
		require.NoError(t, postgres.Guard(within(t, soon), tx, held{guarded}))
		got := make(chan *farsync.Lease, 1)
		go func() {
			lease, err := farsync.NewMutex(next, "/guarded").Lock(within(t, soon))
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		require.EqualValues(t, 1, d.exec(t, "UPDATE farsync_sessions SET deadline = farsync_now() WHERE id = $1", other.Session))
		lease, err := farsync.NewMutex(next, "/other").Lock(within(t, soon))
		require.NoError(t, err)
		require.NoError(t, lease.Release())
		require.Equal(t, driver.Expired, holder.Outcome(in.Renew(within(t, soon), nil)))
		require.Equal(t, guarded.ID, oldest(t, d, "/guarded"))
		require.Empty(t, got)
		require.NoError(t, tx.Commit(within(t, soon)))
		require.NoError(t, (<-got).Release())
		in.Drop()
		require.NoError(t, holder.Close())
	}
}

// oldest returns the ID of the oldest entry of a queue.
func oldest(t *testing.T, d database, queue string) (id string) {
	require.NoError(t, d.admin.QueryRow(within(t, soon),
		"SELECT id FROM farsync_entries WHERE queue = $1 ORDER BY revision LIMIT 1", queue).Scan(&id))
	return id
}

func TestLockTx(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, time.Minute)
	first, second := d.begin(t), d.begin(t)
	require.NoError(t, postgres.LockTx(within(t, soon), first, "/in-tx"))
	require.NoError(t, postgres.LockTx(within(t, soon), first, "/in-tx"), "again")
	require.ErrorIs(t, postgres.LockTx(within(t, soon), first, "in-tx"), farsync.ErrPath)
	got := make(chan error, 1)
	go func() { got <- postgres.LockTx(within(t, soon), second, "/in-tx") }()
	d.awaitBlocked(t, "SELECT farsync_turn($1)") // ahead of the lease's request, whenever the server comes to that
	_, err := farsync.NewMutex(store, "/in-tx").Lock(within(t, 300*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded, "no lease is given out")
	require.Empty(t, got)
	// The server may go on with a request that was given up: it would join the queue, and leave it again.
	require.Eventually(t, func() bool {
		return d.count(t, `SELECT (SELECT count(*) FROM farsync_entries WHERE queue = '/in-tx') + (SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid() AND query ~ 'farsync_(create|join|enter)')`) == 0
	}, soon, time.Millisecond)
	require.NoError(t, first.Commit(within(t, soon)))
	require.NoError(t, locktest.Got(t, got))
	require.NoError(t, second.Rollback(within(t, soon)))

	lease, err := farsync.NewMutex(store, "/in-tx").Lock(within(t, soon))
	require.NoError(t, err)
	third := d.begin(t)
	require.ErrorIs(t, postgres.LockTx(within(t, soon), third, "/in-tx"), farsync.ErrLocked)
	require.NoError(t, third.Rollback(within(t, soon)))
	require.NoError(t, lease.Release())
	fourth := d.begin(t)
	require.NoError(t, postgres.LockTx(within(t, soon), fourth, "/in-tx"))
}

// TestNestedTransactionTakesItsGuardAway: a nested pgx.Tx is a savepoint, whose rollback frees what it has locked.
func TestNestedTransactionTakesItsGuardAway(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, time.Minute)
	lease := lock(t, store, "/guarded")
	tx := d.begin(t)
	for _, in := range []func(pgx.Tx) error{
		func(tx pgx.Tx) error { return postgres.Guard(within(t, soon), tx, lease) },
		func(tx pgx.Tx) error { return postgres.LockTx(within(t, soon), tx, "/in-tx") },
	} {
		nested, err := tx.Begin(within(t, soon))
		require.NoError(t, err)
		require.NoError(t, in(nested))
		require.NoError(t, nested.Rollback(within(t, soon)))
	}
	require.NoError(t, lease.Release())
	require.NoError(t, lock(t, store, "/guarded").Release())
	require.NoError(t, lock(t, store, "/in-tx").Release())
	require.NoError(t, tx.Commit(within(t, soon)))
}

// TestTransactionThatIsOlderThanItsLease passes the guard, and at REPEATABLE READ reads what is older than the last holder's commit. What takes a
// path by LockTx is told that the path was locked meanwhile.
func TestTransactionThatIsOlderThanItsLease(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CREATE TABLE accounts (balance int)")
	d.exec(t, "INSERT INTO accounts VALUES (0)")
	store := d.open(t, time.Minute)
	before := lock(t, d.open(t, time.Minute), "/older")
	next := locktest.LockBehind(t, store, "/older")
	locktest.AwaitQueue(t, store, "/older", 2)
	tx, err := d.admin.BeginTx(within(t, soon), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	reads := func() (balance int) {
		require.NoError(t, tx.QueryRow(within(t, soon), "SELECT balance FROM accounts").Scan(&balance))
		return balance
	}
	require.Zero(t, reads())
	d.exec(t, "UPDATE accounts SET balance = 1") // under the lease of before
	require.NoError(t, before.Release())
	lease := locktest.Got(t, next)
	require.NoError(t, postgres.Guard(within(t, soon), tx, lease))
	require.Zero(t, reads(), "the last holder has committed 1")
	require.NoError(t, lock(t, store, "/in-tx").Release())
	require.ErrorContains(t, postgres.LockTx(within(t, soon), tx, "/in-tx"), "could not serialize access")
	require.NoError(t, tx.Rollback(within(t, soon)))
	require.NoError(t, lease.Release())
}
