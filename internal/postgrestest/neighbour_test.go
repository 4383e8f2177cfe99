package postgrestest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

// A neighbour is a role of the same database with rights of its own: docs/SECURITY.md says what each can do to the
// locks of others.
type neighbour struct{ *pgx.Conn }

// neighbour returns a role with these rights, each of which is all between GRANT and TO.
func (d database) neighbour(t testing.TB, name string, grants ...string) neighbour {
	t.Helper()
	d.exec(t, "CREATE ROLE "+name+" LOGIN")
	for _, what := range grants {
		d.exec(t, "GRANT "+what+" TO "+name)
	}
	conn, err := pgx.ConnectConfig(within(t, soon), d.with(t, func(c *pgxpool.Config) { c.ConnConfig.User = name }).ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.PgConn().Conn().Close() })
	return neighbour{conn}
}

func (n neighbour) try(t testing.TB, statement string, args ...any) error {
	t.Helper()
	_, err := n.Exec(within(t, soon), statement, args...)
	return err
}

// refused expects the server to refuse statements for want of a right.
func (n neighbour) refused(t testing.TB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		var refused *pgconn.PgError
		require.ErrorAs(t, n.try(t, statement), &refused, statement)
		require.Equal(t, "42501", refused.Code, statement)
	}
}

// changes are statements that would each change who holds what, and do so for whoever has all rights on the tables.
var changes = []string{
	"DELETE FROM farsync_entries", "UPDATE farsync_entries SET units = 2", "INSERT INTO farsync_entries (id, queue) VALUES ('x', '/x')",
	"DELETE FROM farsync_sessions", "UPDATE farsync_sessions SET deadline = 0", "UPDATE farsync_queues SET last = 0",
	"DELETE FROM farsync_registers", "DROP TABLE farsync_registers", "ALTER TABLE farsync_registers ADD COLUMN x int", "TRUNCATE farsync_entries",
	"CREATE OR REPLACE FUNCTION farsync_now() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'", "DROP FUNCTION farsync_now()",
	"CREATE TRIGGER mine BEFORE INSERT ON farsync_entries FOR EACH ROW EXECUTE FUNCTION farsync_now()",
	"SELECT * FROM farsync_end((SELECT 'x'))", "SELECT * FROM farsync_renew('x', 1)", "SELECT farsync_bury(1000)",
	"SELECT * FROM farsync_create('/x', 'x', 1, 'x', 'exclusive', 1, ''::bytea, 0)", "SELECT * FROM farsync_entries FOR SHARE",
	"DO $$ BEGIN LOCK TABLE farsync_entries IN SHARE MODE; END $$",
}

// TestNeighbourWithoutRights, whom the database lets in, changes and sees nothing. A notification of its own is a hint:
// whoever is woken looks.
func TestNeighbourWithoutRights(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	d.exec(t, "CREATE SCHEMA theirs")
	n := d.neighbour(t, "neighbour", "ALL ON SCHEMA theirs")
	holder, other := d.open(t, time.Hour), d.open(t, time.Hour)
	lease := lock(t, holder, "/mine")
	next := locktest.LockBehind(t, other, "/mine")
	locktest.AwaitQueue(t, other, "/mine", 2)
	n.refused(t, changes...)
	n.refused(t, "SELECT * FROM farsync_entries", "CREATE TABLE farsync_mine (x int)")
	n.refused(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'postgres'")
	var seen int
	require.NoError(t, n.QueryRow(within(t, soon), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%farsync%' AND pid <> pg_backend_pid()").Scan(&seen))
	require.Zero(t, seen)
	list, err := d.admin.Query(within(t, soon), "SELECT session, id FROM farsync_entries")
	require.NoError(t, err)
	entries, err := pgx.CollectRows(list, pgx.RowToStructByPos[struct{ Session, ID string }])
	require.NoError(t, err)
	require.Len(t, entries, 2)
	for _, to := range entries { // it would have to know these
		for _, of := range entries {
			require.NoError(t, n.try(t, "SELECT pg_notify($1, $2)", "farsync_"+to.Session, of.ID))
		}
	}
	require.NoError(t, lease.Err())
	require.Empty(t, next)
	require.NoError(t, lease.Release())
	require.NoError(t, locktest.Got(t, next).Release())
}

// TestNeighbourWhoMayReadAlone sees the names of holders. By SELECT no row is locked, and no statement of a Store waits
// for it.
func TestNeighbourWhoMayReadAlone(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	n := d.neighbour(t, "reader", "SELECT ON ALL TABLES IN SCHEMA public")
	n.refused(t, changes...)
	store := d.open(t, time.Hour)
	lease := lock(t, store, "/mine")
	require.NoError(t, n.try(t, "BEGIN ISOLATION LEVEL SERIALIZABLE"))
	var value string
	require.NoError(t, n.QueryRow(within(t, soon), "SELECT convert_from(value, 'UTF8') FROM farsync_entries WHERE queue = '/mine'").Scan(&value))
	require.NotEmpty(t, value)
	require.NoError(t, n.try(t, "LOCK TABLE farsync_entries, farsync_sessions, farsync_queues IN ACCESS SHARE MODE"))
	require.NoError(t, lease.Release())
	require.NoError(t, lock(t, d.open(t, time.Hour), "/mine").Release())
	require.NoError(t, n.try(t, "ROLLBACK"))
}

// TestNeighbourWhoMaySeeStatements sees no name in them: names are parameters.
func TestNeighbourWhoMaySeeStatements(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	n := d.neighbour(t, "monitor", "pg_monitor")
	tx := d.begin(t)
	_, err := tx.Exec(within(t, soon), "SELECT 1 FROM farsync_sessions FOR UPDATE; LOCK TABLE farsync_entries IN EXCLUSIVE MODE")
	require.NoError(t, err)
	got := locktest.LockBehind(t, d.open(t, time.Hour), "/secret/name")
	d.awaitBlocked(t, "farsync_")
	var all string
	require.NoError(t, n.QueryRow(within(t, soon), "SELECT string_agg(query, E'\\n') FROM pg_stat_activity WHERE pid <> pg_backend_pid()").Scan(&all))
	require.Contains(t, all, "farsync_")
	require.NotContains(t, all, "/secret/name")
	require.NoError(t, tx.Rollback(within(t, soon)))
	require.NoError(t, locktest.Got(t, got).Release())
}

// TestNeighbourWhoMayKill connections costs their Store new ones, and no lock.
func TestNeighbourWhoMayKill(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	d.exec(t, "CREATE ROLE app LOGIN")
	d.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app")
	app := d
	app.url = strings.Replace(d.url, "postgres@", "app@", 1)
	require.NotEqual(t, d.url, app.url)
	store := app.open(t, time.Hour)
	lease := lock(t, store, "/mine")
	same, err := pgx.ConnectConfig(within(t, soon), app.config(t).ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { _ = same.PgConn().Conn().Close() })
	for _, n := range []neighbour{{same}, d.neighbour(t, "killer", "pg_signal_backend")} { // the first is killed by the second
		for range 5 {
			require.NoError(t, n.try(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND pid <> pg_backend_pid()"))
			require.NoError(t, lock(t, store, "/other").Release())
		}
	}
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestNeighbourWhoSetsRevisions: tokens rise by the clock of the server where the last revision of a queue was set
// back, and go on from it where it was set forward. At the end of the numbers nobody joins the queue, until it is set
// back.
func TestNeighbourWhoSetsRevisions(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	n := d.neighbour(t, "setter", "SELECT, UPDATE ON farsync_queues")
	store := d.open(t, time.Hour)
	set := func(last string) {
		require.NoError(t, n.try(t, "UPDATE farsync_queues SET last = "+last+" WHERE path = '/mine'"))
	}
	locktest.RunSetRevisions(t, store, "/mine", set)
}

// TestNeighbourWhoWritesAnEmptyID: see RunEmptyID.
func TestNeighbourWhoWritesAnEmptyID(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	n := d.neighbour(t, "writer", "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public", "EXECUTE ON ALL FUNCTIONS IN SCHEMA public")
	locktest.RunEmptyID(t, d.open(t, time.Minute), "/empty", func(queue, kind string) {
		require.NoError(t, n.try(t, "INSERT INTO farsync_entries (id, queue, kind) VALUES ('', $1, $2)", queue, kind))
	}, func() { require.NoError(t, n.try(t, "DELETE FROM farsync_entries WHERE id = ''")) })
}

// TestNeighbourWhoWritesPermitsOfNoUnits: see RunNoUnits.
func TestNeighbourWhoWritesPermitsOfNoUnits(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	locktest.RunNoUnits(t, d.open(t, time.Minute), "/none", func(queue string, units int) {
		e := d.foreign(t, queue, "other")
		d.exec(t, "UPDATE farsync_entries SET kind = 'permit', units = $1 WHERE id = $2", units, e.ID)
	})
}

// TestNeighbourWhoMayChangeWhatRuns counts as an operator: each of these rights is enough to have what Stores do
// changed.
func TestNeighbourWhoMayChangeWhatRuns(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		right  string
		change []string
	}{
		{"TRIGGER ON farsync_entries", []string{
			"CREATE FUNCTION theirs.mine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'by a neighbour'; END $$",
			"CREATE TRIGGER mine BEFORE INSERT ON farsync_entries FOR EACH ROW EXECUTE FUNCTION theirs.mine()",
		}},
		{"ALL ON SCHEMA first", []string{
			"CREATE FUNCTION first.farsync_now() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'by a neighbour'; END $$",
			"GRANT EXECUTE ON FUNCTION first.farsync_now() TO PUBLIC",
		}},
	} {
		d := newServer(t)
		d.exec(t, "CREATE SCHEMA theirs")
		d.exec(t, "CREATE SCHEMA first")
		d.exec(t, "GRANT USAGE ON SCHEMA first, theirs TO PUBLIC")
		n := d.neighbour(t, "neighbour", "ALL ON SCHEMA theirs", row.right)
		store := d.open(t, time.Hour)
		require.NoError(t, lock(t, store, "/other").Release())
		require.NoError(t, store.Close())
		for _, statement := range row.change {
			require.NoError(t, n.try(t, statement))
		}
		d.url += "&search_path=first,public"
		next, err := postgres.Open(within(t, soon), d.config(t), d.options(time.Hour))
		if err == nil {
			t.Cleanup(func() { _ = next.Close() })
			_, err = farsync.NewMutex(next, "/other").Lock(within(t, soon))
		}
		require.ErrorContains(t, err, "by a neighbour", row.right)
	}
}
