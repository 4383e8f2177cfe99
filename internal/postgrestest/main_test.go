package postgrestest_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

// What the tests of every store share.
const soon = locktest.Soon

var within = locktest.Within

func TestMain(m *testing.M) {
	holdInstead()
	locktest.AtOnce(8)
	embedtest.Main(m)
}

// A database is one of a server, with farsync's tables.
type database struct {
	server *embedtest.PostgresServer
	admin  *pgxpool.Pool
	url    string          // for clients
	listen *pgx.ConnConfig // the option of every Store
}

func newDatabase(t testing.TB, options ...embedtest.Option) database {
	return databaseOn(t, embedtest.Postgres(t, options...))
}

func databaseOn(t testing.TB, server *embedtest.PostgresServer) database {
	d := database{server: server, url: server.URL()}
	require.NoError(t, postgres.Migrate(within(t, soon), d.config(t).ConnConfig))
	config := d.config(t)
	// Where a test gives the role another level, the server may refuse a statement because of those that run beside it.
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed"
	admin, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	d.admin = admin
	return d
}

// config returns the settings of a client.
func (d database) config(t testing.TB) *pgxpool.Config {
	return configOf(t, d.url)
}

func configOf(t testing.TB, url string) *pgxpool.Config {
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	return config
}

func (d database) options(ttl time.Duration) *postgres.Options {
	return &postgres.Options{Options: farsync.Options{TTL: ttl}, Listen: d.listen}
}

func (d database) open(t testing.TB, ttl time.Duration) *farsync.Store { return d.traced(t, ttl, nil) }

// traced is open for a Store with a Trace.
func (d database) traced(t testing.TB, ttl time.Duration, trace *farsync.Trace) *farsync.Store {
	options := d.options(ttl)
	options.Trace = trace
	store, err := postgres.Open(within(t, soon), d.config(t), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func (d database) service(t testing.TB) driver.Service {
	s, err := postgres.NewService(d.config(t), d.options(0))
	require.NoError(t, err)
	return s
}

// exec runs a statement as an operator does.
func (d database) exec(t testing.TB, statement string, args ...any) int64 {
	done, err := d.admin.Exec(within(t, soon), statement, args...)
	require.NoError(t, err)
	return done.RowsAffected()
}

func (d database) delete(t *testing.T, e driver.Entry) {
	require.EqualValues(t, 1, d.exec(t, "DELETE FROM farsync_entries WHERE id = $1", e.ID))
}

// foreign adds an entry in a session of another program; of none if that is nil.
func (d database) foreign(t *testing.T, queue string, session any) driver.Entry {
	if session != nil {
		d.exec(t, "INSERT INTO farsync_sessions VALUES ($1, farsync_now() + 3600000000, 1000000) ON CONFLICT DO NOTHING", session)
	}
	e := driver.Entry{Queue: queue, ID: rand.Text()}
	d.exec(t, "INSERT INTO farsync_entries (id, queue, session, kind) VALUES ($1, $2, $3, 'other')", e.ID, queue, session)
	return e
}

// expire ends the session that has an entry with this ID, as one is ended that has not been renewed.
func (d database) expire(t *testing.T, id string) {
	require.EqualValues(t, 1, d.exec(t,
		"DELETE FROM farsync_sessions WHERE id = (SELECT session FROM farsync_entries WHERE id = $1)", id))
}
