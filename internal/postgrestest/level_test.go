package postgrestest_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// levels are those that a role, a database or a server may have as its default, beside read committed.
var levels = []string{"repeatable read", "serializable"}

// watched has the server refuse what is done to an entry at another level than the Stores need.
func (d database) watched(t *testing.T) database {
	d.exec(t, `CREATE FUNCTION at_level() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF current_setting('transaction_isolation') <> 'read committed' THEN
			RAISE EXCEPTION 'an entry changes at the level %', current_setting('transaction_isolation');
		END IF;
		RETURN NULL;
	END $$`)
	d.exec(t, "CREATE TRIGGER at_level AFTER INSERT OR UPDATE OR DELETE ON farsync_entries EXECUTE FUNCTION at_level()")
	return d
}

// handOver makes sure that a Mutex goes from one Store to another that waits, and that a Try is refused meanwhile.
func handOver(t *testing.T, from, to *farsync.Store) {
	one, two := farsync.NewMutex(from, "/level"), farsync.NewMutex(to, "/level")
	for range 5 {
		lease, err := one.Lock(within(t, soon))
		require.NoError(t, err)
		_, err = two.TryLock(within(t, soon))
		require.ErrorIs(t, err, farsync.ErrLocked)
		next := locktest.LockBehind(t, to, "/level")
		for list, err := to.Participants(within(t, soon), "/level"); len(list) < 2; list, err = to.Participants(within(t, soon), "/level") {
			require.NoError(t, err)
		}
		require.NoError(t, lease.Release())
		require.NoError(t, locktest.Got(t, next).Release())
	}
}

// TestAnotherIsolationLevelIsNotTheStores: a role or a config has another default, and the connections of a Store are at the level that they
// need all the same. A transaction that keeps its first snapshot would not see who has come to wait since.
func TestAnotherIsolationLevelIsNotTheStores(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			d := newServer(t).watched(t)
			open := func() *farsync.Store {
				store, err := postgres.Open(within(t, soon), d.with(t, func(c *pgxpool.Config) {
					c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
				}), nil)
				require.NoError(t, err)
				t.Cleanup(func() { _ = store.Close() })
				return store
			}
			handOver(t, open(), open())
			d.setLevel(t, level)
			handOver(t, d.open(t, time.Minute), d.open(t, time.Minute))
		})
	}
}

// setLevel sets the default of the role.
func (d database) setLevel(t *testing.T, level string) {
	d.exec(t, "ALTER ROLE CURRENT_USER SET default_transaction_isolation = '"+level+"'")
}

// TestIsolationLevelThatIsSetUnderARunningStore: a connection that has found the level that it needs has set it all the
// same, for one that has not takes on what the server reads from its files later.
func TestIsolationLevelThatIsSetUnderARunningStore(t *testing.T) {
	t.Parallel()
	d := newServer(t).watched(t)
	one, two := d.open(t, time.Minute), d.open(t, time.Minute)
	handOver(t, one, two) // by connections that are kept
	set(t, d.server, "default_transaction_isolation = 'serializable'")
	require.Eventually(t, func() bool {
		return on[string](t, d.server, "SELECT current_setting('default_transaction_isolation')") == "serializable"
	}, soon, 10*time.Millisecond)
	handOver(t, one, two)
}

// TestDriverBesideAnotherIsolationLevel: every step is at the level that it needs.
func TestDriverBesideAnotherIsolationLevel(t *testing.T) {
	suite.Long(t, suite.Postgres, "the contract of a driver a third time")
	t.Parallel()
	d := newServer(t).watched(t)
	d.setLevel(t, "serializable")
	d.keepsTheContract(t)
}

// TestAnotherIsolationLevelBehindPgBouncer: a connection is lent for a transaction, and stays as it was for the other clients.
func TestAnotherIsolationLevelBehindPgBouncer(t *testing.T) {
	t.Parallel()
	d := newServer(t).watched(t)
	d.setLevel(t, "serializable") // before the PgBouncer has made a connection
	d.url = embedtest.PgBouncer(t, d.server, "default_pool_size = 8").URL()
	handOver(t, d.open(t, time.Minute), d.open(t, time.Minute))
	pool, err := pgxpool.NewWithConfig(t.Context(), d.with(t, func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // a proxy's connections know no statements of one another
	}))
	require.NoError(t, err)
	defer pool.Close()
	for range 50 {
		var level string
		require.NoError(t, pool.QueryRow(within(t, soon), "SELECT current_setting('transaction_isolation')").Scan(&level))
		require.Equal(t, "serializable", level)
	}
	log, err := os.ReadFile(d.server.Log())
	require.NoError(t, err)
	require.NotContains(t, string(log), "transaction blocks", "a warning for each statement")
}

// TestIsolationLevelThatChangesBehindPgBouncer: the default becomes another one while Stores are open, and the proxy lends them connections to
// the server that were made after that.
func TestIsolationLevelThatChangesBehindPgBouncer(t *testing.T) {
	t.Parallel()
	d := newServer(t).watched(t)
	d.url = embedtest.PgBouncer(t, d.server, "default_pool_size = 8", "server_lifetime = 0").URL() // each lends itself once
	one, two := d.open(t, time.Minute), d.open(t, time.Minute)
	handOver(t, one, two)
	d.setLevel(t, "serializable")
	handOver(t, one, two)
}

// TestGuardAtEveryLevel: a transaction of the caller's own, whatever its level is, commits while the lease is held, and is refused once another
// client holds the lock, also if its snapshot is of a time when the lease was held.
func TestGuardAtEveryLevel(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.exec(t, "CREATE TABLE accounts (balance int)")
			d.exec(t, "INSERT INTO accounts VALUES (0)")
			store := d.open(t, time.Minute)
			lease := lock(t, store, "/guard")
			begin := func() pgx.Tx {
				tx, err := d.admin.BeginTx(within(t, soon), pgx.TxOptions{IsoLevel: level})
				require.NoError(t, err)
				t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
				var balance int
				require.NoError(t, tx.QueryRow(within(t, soon), "SELECT balance FROM accounts").Scan(&balance))
				return tx
			}
			write := func(tx pgx.Tx, balance int) error {
				if err := postgres.Guard(within(t, soon), tx, lease); err != nil {
					return err
				}
				if _, err := tx.Exec(within(t, soon), "UPDATE accounts SET balance = $1", balance); err != nil {
					return err
				}
				return tx.Commit(within(t, soon))
			}
			require.NoError(t, write(begin(), 1))
			early := begin()
			stale := held(locktest.GuardEntries(t, lease))
			d.exec(t, "DELETE FROM farsync_entries WHERE queue = '/guard'") // as when its session has run out
			next := lock(t, d.open(t, time.Minute), "/guard")
			err := postgres.Guard(within(t, soon), early, stale)
			t.Log(err)
			require.Error(t, err, "its snapshot has the entry")
			require.Error(t, postgres.Guard(within(t, soon), begin(), stale))
			require.NoError(t, next.Release())
			var balance int
			require.NoError(t, d.admin.QueryRow(within(t, soon), "SELECT balance FROM accounts").Scan(&balance))
			require.Equal(t, 1, balance)
		})
	}
}
