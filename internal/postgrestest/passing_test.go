package postgrestest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// fail has the server refuse one kind of change of the entries with a code, until what it returns is called. It counts how often in the
// sequence failures, which no transaction takes back.
func (d database) fail(t testing.TB, change, code string) (mend func()) {
	d.exec(t, "CREATE SEQUENCE IF NOT EXISTS failures MINVALUE 0 START 0")
	d.exec(t, "SELECT setval('failures', 0)")
	d.exec(t, `CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM nextval('failures');
			RAISE EXCEPTION 'as it may be' USING ERRCODE = tg_argv[0];
		END $$`)
	d.exec(t, "CREATE TRIGGER fail BEFORE "+change+" ON farsync_entries FOR EACH ROW EXECUTE FUNCTION fail('"+code+"')")
	return func() { d.exec(t, "DROP TRIGGER fail ON farsync_entries") }
}

func (d database) awaitFailures(t testing.TB, n int) {
	require.Eventually(t, func() bool { return d.count(t, "SELECT last_value FROM failures") >= n }, soon, time.Millisecond)
}

// TestFailuresThatPassAreTriedAgain: transaction_timeout, and a queue of notifications that is full.
func TestFailuresThatPassAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"25P04", "54000"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			store := d.open(t, time.Minute)
			mend := d.fail(t, "INSERT", code)
			got := locktest.LockBehind(t, store, "/passes")
			d.awaitFailures(t, 2)
			mend()
			require.NoError(t, locktest.Got(t, got).Release())
		})
	}
}

// TestPreparedStatementsThatAreGone: something between the client and the server has discarded them.
func TestPreparedStatementsThatAreGone(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	config := d.config(t)
	config.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		_, err := conn.PgConn().Exec(ctx, "DEALLOCATE ALL").ReadAll()
		return err == nil, err
	}
	store, err := postgres.Open(within(t, soon), config, d.options(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	for range 3 {
		require.NoError(t, lock(t, store, "/gone").Release())
	}
}

// TestDeadThatCannotBeBuriedEndNoOtherSession: what keeps a dead session's entries from being removed, as a full queue of notifications does,
// is no trouble of those that renew. The dead are buried once it has passed.
func TestDeadThatCannotBeBuriedEndNoOtherSession(t *testing.T) {
	suite.Long(t, suite.Postgres, "waits for renewals of a TTL of 3 s")
	t.Parallel()
	d := newServer(t)
	lease := lock(t, d.open(t, faultTTL), "/alive")
	d.foreign(t, "/dead", "dead")
	mend := d.fail(t, "DELETE", "54000")
	d.exec(t, "UPDATE farsync_sessions SET deadline = 0 WHERE id = 'dead'")
	d.awaitFailures(t, 3)
	later := time.Now().Add(2 * faultTTL)
	require.Eventually(t, func() bool { return lease.Err() != nil || lease.Deadline().After(later) }, soon, time.Millisecond)
	require.NoError(t, lease.Err())
	mend()
	next, err := farsync.NewMutex(d.open(t, time.Minute), "/dead").Lock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, next.Release())
	require.NoError(t, lease.Release())
}
