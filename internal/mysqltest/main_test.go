package mysqltest_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // registers the driver
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/mysql"
)

// What the tests of every store share.
const soon = locktest.Soon

var (
	within = locktest.Within
	lock   = locktest.Lock
)

func TestMain(m *testing.M) {
	embedtest.Child()
	if dsn := os.Getenv(holderVariable); dsn != "" {
		if err := hold(context.Background(), dsn, os.Getenv(holderPath)); err != nil {
			panic(err)
		}
		return
	}
	locktest.AtOnce(8)
	os.Exit(runOnEach(m))
}

// A database is one of a server, with farsync's tables.
type database struct {
	server server
	name   string
	admin  *sql.DB
}

// newDatabase returns a database of t's own, with farsync's tables.
func newDatabase(t testing.TB) database {
	t.Helper()
	return databaseOf(t, serverOf(t, shared))
}

func databaseOf(t testing.TB, on server) database {
	t.Helper()
	d := bareDatabase(t, on)
	require.NoError(t, mysql.Migrate(within(t, soon), d.dsn()))
	return d
}

func bareDatabase(t testing.TB, on server) database {
	t.Helper()
	d := database{server: on, name: "t" + strings.ToLower(rand.Text()), admin: connect(t, on.DSN(""))}
	d.exec(t, "CREATE DATABASE "+d.name)
	d.admin = connect(t, d.dsn())
	return d
}

// connect returns connections as a program has them, closed by t.
func connect(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (d database) dsn() string { return d.server.DSN(d.name) }

// through is dsn by another address.
func (d database) through(address string) string { return "root@tcp(" + address + ")/" + d.name }

func ttl(d time.Duration) *mysql.Options { return &mysql.Options{Options: farsync.Options{TTL: d}} }

func (d database) open(t testing.TB, options *mysql.Options) *farsync.Store {
	t.Helper()
	return openAt(t, d.dsn(), options)
}

func openAt(t testing.TB, dsn string, options *mysql.Options) *farsync.Store {
	t.Helper()
	store, err := mysql.Open(within(t, soon), dsn, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// exec runs a statement as an operator does, and returns how many rows it has changed.
func (d database) exec(t testing.TB, statement string, args ...any) int64 {
	t.Helper()
	done, err := d.admin.ExecContext(within(t, soon), statement, args...)
	require.NoError(t, err)
	n, err := done.RowsAffected()
	require.NoError(t, err)
	return n
}

// ask returns the only value that a statement shows.
func ask[T any](t testing.TB, d database, statement string, args ...any) (v T) {
	t.Helper()
	require.NoError(t, d.admin.QueryRowContext(within(t, soon), statement, args...).Scan(&v))
	return v
}

// running returns how many connections to the database run a statement like that now. innodb_trx would tell what waits, but is a copy
// that is not renewed while it is read again within a tenth of a second.
func running(t testing.TB, d database, like string) (n int) {
	t.Helper()
	for _, p := range d.processes(t) {
		if p["db"] == d.name && inOrder(p["Info"], strings.Split(like, "%")) {
			n++
		}
	}
	return n
}

// processes are those of the server, each with the columns of SHOW PROCESSLIST. information_schema.processlist fails on MySQL while a
// statement of any database has bytes that are no text.
func (d database) processes(t testing.TB) (all []map[string]string) {
	t.Helper()
	rows, err := d.admin.QueryContext(within(t, soon), "SHOW FULL PROCESSLIST")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	columns, err := rows.Columns()
	require.NoError(t, err)
	row := make([]any, len(columns))
	for i := range row {
		row[i] = new(sql.RawBytes)
	}
	for rows.Next() {
		require.NoError(t, rows.Scan(row...))
		p := map[string]string{}
		for i, name := range columns {
			p[name] = string(*row[i].(*sql.RawBytes))
		}
		all = append(all, p)
	}
	require.NoError(t, rows.Err())
	return all
}

func inOrder(text string, words []string) bool {
	for _, word := range words {
		_, rest, found := strings.Cut(text, word)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

func (d database) delete(t *testing.T, e driver.Entry) {
	require.EqualValues(t, 1, d.exec(t, "DELETE FROM farsync_entries WHERE id = ?", e.ID))
}

// foreign adds an entry in a session of another program, as docs/wire-sql.md has it.
func (d database) foreign(t *testing.T, queue string) driver.Entry {
	const session = "another program's"
	d.exec(t, `INSERT IGNORE INTO farsync_sessions VALUES (?,
		TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + 3600000000, 1000000)`, session)
	e := driver.Entry{Queue: queue, ID: rand.Text()}
	d.exec(t, "CALL farsync_create(?, ?, 1, ?, 'other', 1, NULL, 0)", queue, e.ID, session)
	return e
}

// stray adds an entry of no session.
func (d database) stray(t *testing.T, queue string) driver.Entry {
	e := d.foreign(t, queue)
	require.EqualValues(t, 1, d.exec(t, "UPDATE farsync_entries SET session = NULL WHERE id = ?", e.ID))
	return e
}

// expire ends the session that has an entry with this ID, as one is ended that has not been renewed.
func (d database) expire(t testing.TB, id string) {
	require.EqualValues(t, 1, d.exec(t,
		"DELETE FROM farsync_sessions WHERE id = (SELECT session FROM farsync_entries WHERE id = ?)", id))
}
