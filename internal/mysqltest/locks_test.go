package mysqltest_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// openSteps makes of each procedure one whose name begins with "open_", and which stops short of its COMMIT. So what it
// has locked can be looked at. Of a renewal it has the part that renews.
func (d database) openSteps(t *testing.T) {
	commit, buries := regexp.MustCompile(`(?m)^ +COMMIT;\n`), regexp.MustCompile(`(?m)^ +CALL farsync_bury_some.*\n`)
	for _, statement := range mysql.Schema() {
		if _, rest, is := strings.Cut(statement, "CREATE PROCEDURE IF NOT EXISTS farsync_"); is {
			d.exec(t, buries.ReplaceAllString(commit.ReplaceAllString("CREATE PROCEDURE open_"+rest, ""), "DO 0;\n"))
		}
	}
}

// openStep calls a procedure that openSteps has made, as a connection of a Store would, and returns a function that
// rolls its transaction back.
func (d database) openStep(t *testing.T, call string) (end func()) {
	t.Helper()
	conn, err := d.admin.Conn(within(t, soon))
	require.NoError(t, err)
	do := func(statement string) {
		_, err := conn.ExecContext(within(t, soon), statement)
		require.NoError(t, err)
	}
	do("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
	do("SET autocommit = 0")
	do("CALL open_" + call)
	return func() {
		do("ROLLBACK")
		do("SET autocommit = 1")
		require.NoError(t, conn.Close())
	}
}

// engineLock is a lock on rows in what SHOW ENGINE INNODB STATUS shows.
var engineLock = regexp.MustCompile("RECORD LOCKS .* index (\\S+) of table `(\\w+)`\\.`(\\w+)` trx id \\d+ lock.mode (.*)")

// locks are the locks on rows of farsync's tables, each kind once, in the words of MySQL: table, index, and mode. That
// is S or X, of the row and the gap before it if nothing follows. A row that a transaction has inserted is locked
// without being listed. The tables of MariaDB list no lock that nothing waits for, so there the report of the engine is
// read. It has the locks of all databases of the server, and is cut at a megabyte: the server must be of the test's own.
func (d database) locks(t *testing.T) (list []string) {
	t.Helper()
	if on.name == "MySQL" {
		rows, err := d.admin.QueryContext(within(t, soon), `SELECT CONCAT_WS(' ', object_name, index_name, lock_mode, IF(lock_status = 'GRANTED', NULL, 'waits'))
			FROM performance_schema.data_locks WHERE object_schema = ? AND lock_type = 'RECORD'`, d.name)
		require.NoError(t, err)
		for rows.Next() {
			var text string
			require.NoError(t, rows.Scan(&text))
			list = append(list, text)
		}
		require.NoError(t, rows.Err())
	} else {
		d.exec(t, "SET GLOBAL innodb_status_output_locks = 1")
		var text string
		require.NoError(t, d.admin.QueryRowContext(within(t, soon), "SHOW ENGINE INNODB STATUS").Scan(new(string), new(string), &text))
		in := strings.NewReplacer(
			" locks rec but not gap", ",REC_NOT_GAP", " locks gap before rec", ",GAP", " insert intention", ",INSERT_INTENTION", " waiting", " waits",
		)
		for _, found := range engineLock.FindAllStringSubmatch(text, -1) {
			if found[2] == d.name {
				list = append(list, strings.TrimSpace(strings.Join([]string{found[3], found[1], in.Replace(found[4])}, " ")))
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestStepsLockRowsAndNoGaps: what each step has locked when it commits. None has locked a gap, into which others
// insert. A join, a renewal, a burial and the end of a session lock the session's row, and nothing else does.
func TestStepsLockRowsAndNoGaps(t *testing.T) {
	t.Parallel()
	d := databaseOf(t, newServer(t))
	d.openSteps(t)
	d.exec(t, "CALL farsync_open('live', 3600000000)")
	d.exec(t, "CALL farsync_open('dead', 3600000000)")
	d.exec(t, "CALL farsync_create('/q', 'one', 1, 'live', 'exclusive', 1, NULL, 0)")
	d.exec(t, "CALL farsync_create('/q', 'two', 1, 'dead', 'exclusive', 1, NULL, 0)")
	d.exec(t, "UPDATE farsync_sessions SET deadline = 1 WHERE id = 'dead'")
	const (
		queue, entry, session = "farsync_queues PRIMARY X,REC_NOT_GAP", "farsync_entries PRIMARY X,REC_NOT_GAP", "farsync_sessions PRIMARY X,REC_NOT_GAP"
		shared                = "farsync_sessions PRIMARY S,REC_NOT_GAP"
		ofSession             = "farsync_entries farsync_entries_session X,REC_NOT_GAP"
	)
	for _, row := range []struct {
		call  string
		locks []string
		mysql []string // where it differs
	}{
		{call: "create_4('/q', 'new', 1, 'live', 'exclusive', 1, NULL, 0)", locks: []string{queue, shared}},
		{call: "create_4('/new', 'new', 1, 'live', 'exclusive', 1, NULL, 0)", locks: []string{shared}},
		{ // MySQL lists the lock of a row that was inserted once it is deleted
			call: "create_4('/q', 'new', 1, 'gone', 'exclusive', 1, NULL, 0)", locks: []string{queue}, mysql: []string{entry, queue},
		},
		{call: "create_4('/q', 'one', 1, 'live', 'exclusive', 1, NULL, 0)", locks: []string{queue}},
		{call: "renew_6('live')", locks: []string{session}},
		{call: "renew_6('gone')"},
		{call: "bury_one_3('dead', 9, @removed, @is_busy)", locks: []string{entry, "farsync_entries farsync_entries_queue X,REC_NOT_GAP", ofSession, session}},
		{call: "bury_one_3('live', 9, @removed, @is_busy)", locks: []string{session}}, // which it leaves at once
		{call: "replace('one', 1, 'read', NULL)", locks: []string{entry}},
		{call: "tell('one', 'ask')", locks: []string{entry}},
		{call: "write('/q', 'v', 0, 'one')", locks: []string{"farsync_entries PRIMARY S,REC_NOT_GAP", queue}},
		{call: "delete('one')", locks: []string{entry}},
		{call: "delete('gone')"},
		{ // where the engine removes the entries, and where the server does
			call: "end('live')", locks: []string{entry, "farsync_entries farsync_entries_session S,REC_NOT_GAP", session},
			mysql: []string{entry, ofSession, session},
		},
		{call: "end('gone')"},
		{call: "open_9('other', 1)"},
		{call: "ahead_2('/q', '', 9)"},
		{call: "owners('/q', '[]')"},
	} {
		t.Run(row.call, func(t *testing.T) {
			defer d.openStep(t, row.call)()
			want := row.locks
			if on.name == "MySQL" && row.mysql != nil {
				want = row.mysql
			}
			require.ElementsMatch(t, want, d.locks(t))
		})
	}
}

// join is the procedure that Stores join by.
const join = "create_4"

// A keeper is what a person does by hand that keeps a join waiting. At REPEATABLE READ, which is the default, a read
// that locks also locks the gaps between the rows that it has seen.
type keeper struct {
	name, statement string
}

// turnOfTheQueue keeps the row at which joins of "/kept" take turns.
var turnOfTheQueue = keeper{"the turn of the queue", "SELECT * FROM farsync_queues WHERE path = '/kept' FOR UPDATE"}

var keepers = []keeper{
	{"all gaps of the entries", "SELECT * FROM farsync_entries LOCK IN SHARE MODE"},
	{"the gap of a queue", "SELECT queue FROM farsync_entries FORCE INDEX (farsync_entries_queue) WHERE queue = '/kept' LOCK IN SHARE MODE"},
	{"the gap of a session", "SELECT session FROM farsync_entries FORCE INDEX (farsync_entries_session) WHERE session >= '' LOCK IN SHARE MODE"},
	turnOfTheQueue,
	{"the table of entries", "LOCK TABLES farsync_entries READ"},
	{"the table of queues", "LOCK TABLES farsync_queues WRITE"},
	{"the table of registers", "LOCK TABLES farsync_registers WRITE"},
}

// keep begins what keeps joins of "/kept" waiting, and returns what ends it.
func (d database) keep(t *testing.T, of keeper) (end func()) {
	t.Helper()
	conn, err := d.admin.Conn(within(t, soon))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	do := func(statement string) {
		_, err := conn.ExecContext(within(t, soon), statement)
		require.NoError(t, err)
	}
	do("START TRANSACTION")
	do(of.statement)
	return func() {
		do("UNLOCK TABLES")
		do("ROLLBACK")
	}
}

// waiting returns how many connections to the database wait for a lock on a row or on a table. The waits for a row are counted at one moment.
func waiting(t *testing.T, d database) (n int) {
	t.Helper()
	ids := []string{"0"}
	for _, p := range d.processes(t) {
		switch {
		case p["db"] != d.name:
		case strings.HasPrefix(p["State"], "Waiting for table"):
			n++
		default:
			ids = append(ids, p["Id"])
		}
	}
	return n + ask[int](t, d, "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_mysql_thread_id IN ("+
		strings.Join(ids, ", ")+")")
}

// lists has a value while nobody asks for the list of transactions. The server copies that list, and renews the copy only when nobody was
// given it for a tenth of a second: tests that ask side by side would keep it as it is.
var lists = func() chan time.Time {
	last := make(chan time.Time, 1)
	last <- time.Time{}
	return last
}()

// awaitWaiting waits until a connection does.
func awaitWaiting(t *testing.T, d database) {
	t.Helper()
	awaitList(t, func() bool { return waiting(t, d) > 0 })
}

// awaitList waits until the list of transactions, for which shows asks, is as it should be.
func awaitList(t *testing.T, shows func() bool) {
	t.Helper()
	require.Eventually(t, func() (is bool) {
		last := <-lists
		defer func() { lists <- last }()
		if time.Since(last) >= 150*time.Millisecond {
			is, last = shows(), time.Now()
		}
		return is
	}, soon, 10*time.Millisecond)
}

// TestRenewalBesideACreateThatWaits: whatever a join waits for, it keeps no renewal, and is done when it has what it
// has waited for.
func TestRenewalBesideACreateThatWaits(t *testing.T) {
	t.Parallel()
	for _, of := range keepers {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			_, in := d.session(t, d.dsn(), time.Hour)
			id := ask[string](t, d, "SELECT id FROM farsync_sessions")
			d.exec(t, "INSERT INTO farsync_queues VALUES ('/kept', 1)")
			end := d.keep(t, of)
			created := make(chan error, 1)
			go func() { // joined below; on a connection of the test's, for it waits longer than a renewal does
				_, err := d.admin.ExecContext(within(t, soon), fmt.Sprintf("CALL farsync_%s('/kept', 'kept', 1, ?, 'exclusive', 1, NULL, 0)", join), id)
				created <- err
			}()
			awaitWaiting(t, d)
			require.NoError(t, in.Renew(within(t, soon), nil))
			require.Empty(t, created)
			end()
			require.NoError(t, locktest.Got(t, created))
			require.Equal(t, 1, ask[int](t, d, "SELECT COUNT(*) FROM farsync_entries"))
		})
	}
}

// TestStoreKeepsWhatItHoldsWhileAJoinWaits, and tries again, for several times as long as its session lasts without a
// renewal.
func TestStoreKeepsWhatItHoldsWhileAJoinWaits(t *testing.T) {
	suite.Long(t, suite.MySQL, "waits for renewals of a TTL of 4 s, which must be in time")
	t.Parallel()
	for _, of := range keepers {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			const lasts = 4 * time.Second
			d := newDatabase(t)
			store := d.open(t, ttl(lasts))
			lease := lock(t, store, "/held")
			require.NoError(t, lock(t, store, "/kept").Release())
			end := d.keep(t, of)
			got := locktest.LockBehind(t, store, "/kept")
			select {
			case <-lease.Done():
			case <-time.After(4 * lasts):
			}
			require.NoError(t, lease.Err())
			require.Empty(t, got)
			end()
			require.NoError(t, locktest.Got(t, got).Release())
			require.NoError(t, lease.Release())
		})
	}
}
