package mysqltest_test

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/mysql"
)

// A neighbour is a user of the same server with rights of its own: docs/SECURITY.md says what each can do to the locks of others.
type neighbour struct {
	*sql.DB
	name string
}

// neighbour returns a user with these grants, of which each is all between GRANT and TO. It is connected to no database.
func (d database) neighbour(t testing.TB, grants ...string) neighbour {
	t.Helper()
	n := neighbour{name: "n" + strings.ToLower(rand.Text())[:10]}
	d.exec(t, "CREATE USER "+n.name)
	for _, what := range grants {
		d.exec(t, "GRANT "+what+" TO "+n.name)
	}
	n.DB = connect(t, n.name+"@tcp("+d.server.Endpoint()+")/")
	return n
}

// try runs a statement as the neighbour.
func (n neighbour) try(t testing.TB, statement string, args ...any) error {
	t.Helper()
	_, err := n.ExecContext(within(t, soon), statement, args...)
	return err
}

// refused expects the server to refuse statements.
func (n neighbour) refused(t testing.TB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		err := n.try(t, statement)
		require.Error(t, err, statement)
		require.Regexp(t, "denied|SUPER", err.Error(), statement)
	}
}

// changes are statements that would each change who holds what, and do so for whoever has all rights on the tables.
func (d database) changes() []string {
	const entries, sessions, queues, registers = ".farsync_entries", ".farsync_sessions", ".farsync_queues", ".farsync_registers"
	return []string{
		"DELETE FROM " + d.name + entries, "UPDATE " + d.name + entries + " SET units = 2",
		"INSERT INTO " + d.name + entries + " (id, queue, revision) VALUES ('x', '/x', 1)",
		"DELETE FROM " + d.name + sessions, "UPDATE " + d.name + sessions + " SET deadline = 0",
		"UPDATE " + d.name + queues + " SET last = 0", "DELETE FROM " + d.name + registers,
		"DROP TABLE " + d.name + registers, "ALTER TABLE " + d.name + registers + " ADD COLUMN x int",
		"DROP PROCEDURE " + d.name + ".farsync_register", "CREATE PROCEDURE " + d.name + ".farsync_mine() SELECT 1",
		"CREATE TRIGGER " + d.name + ".mine BEFORE INSERT ON " + d.name + entries + " FOR EACH ROW SET NEW.units = 2",
	}
}

// TestNeighbourWhoMayExecuteAlone can do nothing: the procedures have the rights of those who call them.
func TestNeighbourWhoMayExecuteAlone(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	lease := lock(t, d.open(t, ttl(time.Minute)), "/mine")
	n := d.neighbour(t, "EXECUTE ON "+d.name+".*")
	rows, err := d.admin.QueryContext(within(t, soon), `SELECT r.specific_name, COALESCE(
			GROUP_CONCAT(IF(p.parameter_mode = 'IN', '\'1\'', CONCAT('@', p.parameter_name)) ORDER BY p.ordinal_position), '')
		FROM information_schema.routines r
		LEFT JOIN information_schema.parameters p ON p.specific_schema = r.routine_schema AND p.specific_name = r.specific_name
		WHERE r.routine_schema = ? GROUP BY r.specific_name`, d.name)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	called := 0
	for rows.Next() {
		var procedure, parameters string
		require.NoError(t, rows.Scan(&procedure, &parameters))
		called++
		switch procedure {
		case "farsync_primary", "farsync_shown", "farsync_engines": // they look at settings of the server alone, or at what the caller may see
			continue
		}
		n.refused(t, "CALL "+d.name+"."+procedure+"("+parameters+")")
	}
	require.NoError(t, rows.Err())
	require.Greater(t, called, 30)
	n.refused(t, d.changes()...)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestNeighbourWhoMayReadAlone sees the names of holders, and can end sessions by locks on what it reads, for which the right to read
// is enough. It can take nothing.
func TestNeighbourWhoMayReadAlone(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	options := ttl(time.Minute)
	options.Holder = "somebody"
	seen := lock(t, d.open(t, options), "/seen")
	n := d.neighbour(t, "SELECT, EXECUTE ON "+d.name+".*")
	n.refused(t, d.changes()...)
	n.refused(t, "CALL "+d.name+".farsync_open_9('mine', 1000000)", "CALL "+d.name+".farsync_delete('x')")
	n.refused(t, "LOCK TABLES "+d.name+".farsync_entries READ")
	var value string
	require.NoError(t, n.QueryRowContext(within(t, soon), "SELECT value FROM "+d.name+".farsync_entries WHERE queue = '/seen'").Scan(&value))
	require.Contains(t, value, "somebody")
	require.NoError(t, seen.Release())
	lease := lock(t, d.open(t, ttl(2*time.Second)), "/mine") // its end is what is waited for
	tx, err := n.BeginTx(within(t, soon), nil)
	require.NoError(t, err)
	_, err = tx.Exec("SELECT * FROM " + d.name + ".farsync_sessions LOCK IN SHARE MODE")
	require.NoError(t, err)
	select {
	case <-lease.Done():
	case <-time.After(soon):
		require.Fail(t, "the lease does not end")
	}
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	require.NoError(t, tx.Rollback())
	next := lock(t, d.open(t, ttl(time.Minute)), "/mine")
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Release())
}

// TestNeighbourWhoRefersToRows from a table of its own by a foreign key keeps them from being deleted. The error names the table, and whoever
// asks is shown the lock beside it. Once the table is dropped the lock is free.
func TestNeighbourWhoRefersToRows(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	theirs := bareDatabase(t, d.server)
	n := d.neighbour(t, "ALL ON "+theirs.name+".*", "SELECT, REFERENCES ON "+d.name+".*")
	store := d.open(t, ttl(2*time.Second)) // what is left of it has to run out
	lease := lock(t, store, "/referred")
	require.NoError(t, n.try(t, "CREATE TABLE "+theirs.name+".theirs (id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, "+
		"FOREIGN KEY (id) REFERENCES "+d.name+".farsync_entries (id)) ENGINE = InnoDB"))
	require.NoError(t, n.try(t, "INSERT INTO "+theirs.name+".theirs SELECT id FROM "+d.name+".farsync_entries"))
	const named = "a table that another program has made refers to a row of farsync"
	err := lease.Release()
	require.ErrorContains(t, err, named)
	require.ErrorContains(t, err, theirs.name)
	_ = store.Close()
	other := d.open(t, ttl(time.Minute))
	err = farsync.ErrLocked
	for errors.Is(err, farsync.ErrLocked) { // until the session has run out
		_, err = farsync.NewMutex(other, "/referred").TryLock(within(t, soon))
	}
	require.ErrorContains(t, err, named)
	list, err := other.Participants(within(t, soon), "/referred")
	require.ErrorContains(t, err, named)
	require.Len(t, list, 1)
	require.NoError(t, n.try(t, "DROP TABLE "+theirs.name+".theirs"))
	require.NoError(t, lock(t, other, "/referred").Release())
}

// TestNeighbourWhoSetsRevisions: tokens rise by the clock of the server where the last revision of a queue was set back, and go on from it
// where it was set forward. At the end of the numbers nobody joins the queue, until it is set back.
func TestNeighbourWhoSetsRevisions(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, ttl(time.Minute))
	n := d.neighbour(t, "SELECT, UPDATE ON "+d.name+".*")
	set := func(last string) {
		require.NoError(t, n.try(t, "UPDATE "+d.name+".farsync_queues SET last = "+last+" WHERE path = '/mine'"))
	}
	locktest.RunSetRevisions(t, store, "/mine", set)
}

// TestNeighbourWhoWritesAnEmptyID: see RunEmptyID. To this database an ID of blanks is the same.
func TestNeighbourWhoWritesAnEmptyID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "  "} {
		d := newDatabase(t)
		n := d.neighbour(t, "SELECT, INSERT, DELETE ON "+d.name+".*")
		locktest.RunEmptyID(t, d.open(t, ttl(time.Minute)), "/empty", func(queue, kind string) {
			require.NoError(t, n.try(t, "INSERT INTO "+d.name+".farsync_entries (id, queue, kind, revision) VALUES (?, ?, ?, 1)", id, queue, kind))
		}, func() { require.NoError(t, n.try(t, "DELETE FROM "+d.name+".farsync_entries WHERE id = ?", id)) })
	}
}

// TestNeighbourWhoWritesPermitsOfNoUnits: see RunNoUnits.
func TestNeighbourWhoWritesPermitsOfNoUnits(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locktest.RunNoUnits(t, d.open(t, ttl(time.Minute)), "/none", func(queue string, units int) {
		e := d.foreign(t, queue)
		d.exec(t, "UPDATE farsync_entries SET kind = 'permit', units = ? WHERE id = ?", units, e.ID)
	})
}

// TestPathWithBlanks: to this database a path with blanks behind it is the path. Whoever stands there is shown, and is waited for, and a holder
// whose entry has been moved there has not been moved.
func TestPathWithBlanks(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, ttl(time.Minute))
	lease := lock(t, store, "/blanks")
	require.EqualValues(t, 1, d.exec(t, "UPDATE farsync_entries SET queue = '/blanks  '"))
	shown := func() (list []farsync.Participant) {
		for lock, odd := range store.Survey(within(t, soon), "/") {
			require.NoError(t, odd)
			require.Equal(t, "/blanks", lock.Path)
			list = lock.Participants
		}
		return list
	}
	require.Len(t, shown(), 1)
	require.Equal(t, lease.Token(), shown()[0].Token)
	other := d.foreign(t, "/blanks ")
	require.Len(t, shown(), 2)
	require.NoError(t, lease.Release())
	_, err := farsync.NewMutex(store, "/blanks").TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.Equal(t, other.ID, shown()[0].ID)
	d.delete(t, other)
	require.NoError(t, lock(t, store, "/blanks").Release())
}

// TestNeighbourWhoMayKill connections costs their Store new ones, and no lock. So may all of the same user, without any right, and nobody else.
func TestNeighbourWhoMayKill(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	u := d.user(t)
	store := openAt(t, u.dsn, ttl(time.Hour))
	lease := lock(t, store, "/mine")
	right := map[string]string{"MariaDB": "CONNECTION ADMIN", "MySQL": "CONNECTION_ADMIN"}[on.name]
	stranger := d.neighbour(t, "ALL ON "+d.name+".*")
	for name, n := range map[string]neighbour{
		"by the right": d.neighbour(t, right+" ON *.*"), "by the same user": {connect(t, u.name+"@tcp("+d.server.Endpoint()+")/"), u.name},
	} {
		for i := range 5 {
			require.NotEmpty(t, u.connections(t))
			for _, id := range u.connections(t) {
				err := stranger.try(t, "KILL "+id)
				require.Error(t, err)
				if slices.Contains(u.connections(t), id) { // else it was killed before, and has ended only now
					require.ErrorContains(t, err, "not owner")
				}
				_ = n.try(t, "KILL "+id) // its own connection too, or one that has ended
			}
			require.NoError(t, lock(t, store, "/other").Release(), "%s, %d", name, i)
		}
	}
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestNeighbourWhoMaySeeProcesses reads names in the statements that run. One who may not sees none but its own.
func TestNeighbourWhoMaySeeProcesses(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, ttl(time.Minute))
	require.NoError(t, lock(t, store, "/secret/name").Release())
	tx, err := d.admin.BeginTx(within(t, soon), nil)
	require.NoError(t, err)
	_, err = tx.Exec("SELECT * FROM farsync_queues WHERE path = '/secret/name' FOR UPDATE")
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() { // joined below
		lease, err := farsync.NewMutex(store, "/secret/name").Lock(within(t, soon))
		if err == nil {
			err = lease.Release()
		}
		got <- err
	}()
	sees := func(n neighbour) bool {
		return slices.ContainsFunc(database{admin: n.DB}.processes(t), func(p map[string]string) bool {
			return strings.Contains(p["Info"], "/secret/name")
		})
	}
	n := d.neighbour(t, "PROCESS ON *.*")
	require.Eventually(t, func() bool { return sees(n) }, soon, time.Millisecond)
	require.False(t, sees(d.neighbour(t, "ALL ON "+d.name+".*")))
	require.NoError(t, tx.Rollback())
	require.NoError(t, <-got)
}

// TestNeighbourWhoMayChangeWhatRuns counts as an operator: each of these rights is enough to have all others fail.
func TestNeighbourWhoMayChangeWhatRuns(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ right, change string }{
		{"TRIGGER", "CREATE TRIGGER %.mine BEFORE INSERT ON %.farsync_entries FOR EACH ROW SET NEW.queue = '/mine'"},
		{"ALTER ROUTINE", "DROP PROCEDURE %.farsync_ahead_2"},
	} {
		d := bareDatabase(t, serverOf(t, shared))
		// As docs/SECURITY.md has it, and not by root: of whoever has SYSTEM_USER nobody without it removes a procedure on MySQL.
		deploy := d.neighbour(t, "ALL ON "+d.name+".*")
		require.NoError(t, mysql.Migrate(within(t, soon), deploy.name+"@tcp("+d.server.Endpoint()+")/"+d.name))
		store := d.open(t, ttl(time.Minute))
		require.NoError(t, lock(t, store, "/other").Release())
		n := d.neighbour(t, row.right+" ON "+d.name+".*")
		require.NoError(t, n.try(t, strings.ReplaceAll(row.change, "%", d.name)))
		_, err := farsync.NewMutex(store, "/other").Lock(within(t, soon))
		require.Error(t, err, row.right)
	}
}

// TestNeighbourInAnotherSchema of the same server reaches nothing, unless the name of its own is a pattern.
func TestNeighbourInAnotherSchema(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	theirs := bareDatabase(t, d.server)
	n := d.neighbour(t, "ALL ON "+theirs.name+".*")
	n.refused(t, d.changes()...)
	n.refused(t, "SELECT * FROM "+d.name+".farsync_entries", "CALL "+d.name+".farsync_primary()")

	pattern := "_" + d.name[1:]
	n = d.neighbour(t, "SELECT ON `"+pattern+"`.*")
	require.NoError(t, n.try(t, "SELECT * FROM "+d.name+".farsync_entries"), "an underscore stands for any letter")
	n = d.neighbour(t, "SELECT ON `\\"+pattern+"`.*")
	n.refused(t, "SELECT * FROM "+d.name+".farsync_entries")
}

// TestSchemasThatAreEverybodys: MariaDB is installed so that a user without any right has all on schemas whose names begin with test_.
func TestSchemasThatAreEverybodys(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	n := d.neighbour(t)
	schema := "test_" + d.name
	if err := n.try(t, "CREATE DATABASE "+schema); on.name != "MariaDB" {
		require.ErrorContains(t, err, "denied")
		return
	}
	require.NoError(t, n.try(t, "CREATE TABLE "+schema+".mine (x int)"))
	require.NoError(t, n.try(t, "DROP DATABASE "+schema))
}
