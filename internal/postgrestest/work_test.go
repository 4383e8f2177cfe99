package postgrestest_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/embedtest"
)

// TestAWokenWaiterWaitsNoMore: a key is free once the entry's deletion is committed. A waiter that it woke before would wait again, for
// the transaction.
func TestAWokenWaiterWaitsNoMore(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "INSERT INTO farsync_sessions VALUES ('both', farsync_now() + 3600000000, 3600000000)")
	holder, waiter := d.connection(t), d.connection(t)
	carryOut(t, holder, "SELECT farsync_join('/woken', 'a.', 1, 'both', 'exclusive', 1, NULL, 0)")
	carryOut(t, waiter, "SELECT farsync_join('/woken', 'b.', 1, 'both', 'exclusive', 1, NULL, 0)")
	carryOut(t, holder, "BEGIN")
	carryOut(t, holder, "SELECT farsync_leave('a.')")
	var wait errgroup.Group
	wait.Go(func() error {
		for {
			rows, err := waiter.Query(within(t, soon), "SELECT id FROM farsync_await('/woken', 'b.', 2, 'a.')")
			if err != nil {
				return err
			}
			if ids, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(ids) == 1 {
				return err
			}
		}
	})
	var on string
	require.Eventually(t, func() bool { // each wait ends after a while, and the next begins
		return d.admin.QueryRow(within(t, soon), "SELECT coalesce(max(wait_event), '') FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'",
			waiter.PgConn().PID()).Scan(&on) == nil && on != ""
	}, soon, time.Millisecond)
	carryOut(t, holder, "COMMIT")
	require.NoError(t, wait.Wait())
	require.Equal(t, "advisory", on)
}

// TestAcquisitionsReadNoWholeTable, also after a vacuum has found few entries in indexes of many pages, for which the planner takes any
// use of them to be expensive. The server is the test's own: a transaction in one database keeps removed rows in all databases, and each
// call, and the vacuum, would find the rows of all calls before.
func TestAcquisitionsReadNoWholeTable(t *testing.T) {
	t.Parallel()
	d := newServer(t, embedtest.Setting("autovacuum = off"))
	d.exec(t, "INSERT INTO farsync_sessions VALUES ('job', farsync_now() + 3600000000, 3600000000)")
	d.exec(t, `DO $$
		DECLARE of_id text;
		BEGIN
			FOR i IN 1..8 LOOP
				PERFORM farsync_create('/stands', 'stands' || i, 1, 'job', 'exclusive', 1, NULL, 0);
			END LOOP;
			FOR i IN 1..4000 LOOP
				of_id := upper(substr(md5(random()::text), 1, 26)) || '.';
				PERFORM farsync_join('/plans', of_id, 1, 'job', 'exclusive', 1, 'a holder on a machine', 0);
				COMMIT;
				PERFORM farsync_leave(of_id);
				COMMIT;
			END LOOP;
		END $$`)
	d.exec(t, "VACUUM farsync_entries")
	tx := d.begin(t)
	for _, statement := range []string{
		"SELECT farsync_create('/plans', 'a', 1, 'job', 'exclusive', 1, NULL, 0)",
		"SELECT farsync_join('/plans', 'b.', 1, 'job', 'exclusive', 1, NULL, 0)",
		"SELECT farsync_join('/plans', 'c.', 1, 'job', 'exclusive', 1, NULL, 0)",
		"SELECT farsync_await('/plans', 'c.', 1, 'b.')",
		"SELECT farsync_leave('b.')",
		"SELECT farsync_leave('c.')",
	} {
		_, err := tx.Exec(within(t, soon), statement)
		require.NoError(t, err, statement)
		var whole int
		require.NoError(t, tx.QueryRow(within(t, soon),
			"SELECT coalesce(sum(seq_scan), 0) FROM pg_stat_xact_user_tables WHERE relname = 'farsync_entries'").Scan(&whole))
		require.Zero(t, whole, statement)
	}
}

// TestARenewalEndsNothingWhereAllLive: what would end other sessions does not run, however many there are.
func TestARenewalEndsNothingWhereAllLive(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "INSERT INTO farsync_sessions SELECT 'lives' || n, farsync_now() + 3600000000, 3600000000 FROM generate_series(1, 100) n")
	ended := func() (calls int) {
		tx := d.begin(t)
		for _, statement := range []string{"SET LOCAL track_functions = 'all'", "SELECT farsync_renew('lives1', 1000)"} {
			_, err := tx.Exec(within(t, soon), statement)
			require.NoError(t, err)
		}
		require.NoError(t, tx.QueryRow(within(t, soon), `SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions
			WHERE funcname IN ('farsync_sessions_over', 'farsync_sweep')`).Scan(&calls))
		require.NoError(t, tx.Commit(within(t, soon)))
		return calls
	}
	require.Zero(t, ended())
	d.exec(t, "UPDATE farsync_sessions SET deadline = 0 WHERE id = 'lives2'")
	require.NotZero(t, ended())
	require.Equal(t, 99, d.count(t, "SELECT count(*) FROM farsync_sessions"))
	require.Zero(t, d.count(t, "SELECT count(*) FROM farsync_ended"))
}

// connection returns a connection of its own, as a key needs.
func (d database) connection(t testing.TB) *pgx.Conn {
	conn, err := pgx.ConnectConfig(within(t, soon), d.config(t).ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.PgConn().Conn().Close() })
	return conn
}

func carryOut(t testing.TB, conn *pgx.Conn, statement string) {
	_, err := conn.Exec(within(t, soon), statement)
	require.NoError(t, err, statement)
}
