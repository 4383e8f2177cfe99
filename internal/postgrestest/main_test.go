package postgrestest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"strings"
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
	embedtest.Child()
	os.Exit(shared.Run(m))
}

// shared is the server of all tests that do it no harm. Each has a database of its own.
var shared = &locktest.Shared[*embedtest.PostgresServer]{
	Start: func(ctx context.Context, dir string) (*embedtest.PostgresServer, error) {
		// The server may run as another user, who has to get there.
		if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // nothing is to be kept from anyone
			return nil, err
		}
		return embedtest.StartPostgres(ctx, dir+"/server", embedtest.Setting("max_connections = 600"))
	},
}

// A database is one of a server, with farsync's tables.
type database struct {
	server *embedtest.PostgresServer // nil: one that others use as well
	admin  *pgxpool.Pool
	url    string          // for clients
	listen *pgx.ConnConfig // the option of every Store
}

// newDatabase returns a database of t's own on the server that tests share. Roles, settings and the number of
// connections are the server's: a test of those takes newServer.
func newDatabase(t testing.TB) database {
	server, err := shared.Get()
	if errors.Is(err, embedtest.ErrNoPostgres) && os.Getenv("FARSYNC_REQUIRE_SERVERS") != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	conn, err := pgx.Connect(within(t, soon), server.URL())
	require.NoError(t, err)
	name := "t" + strings.ToLower(rand.Text())
	_, err = conn.Exec(within(t, soon), "CREATE DATABASE "+name)
	require.NoError(t, err)
	require.NoError(t, conn.Close(within(t, soon)))
	to, err := url.Parse(server.URL())
	require.NoError(t, err)
	to.Path = "/" + name
	return database{url: to.String()}.migrated(t)
}

// newServer returns the database of a server of t's own.
func newServer(t testing.TB, options ...embedtest.Option) database {
	server := embedtest.Postgres(t, options...)
	return database{server: server, url: server.URL()}.migrated(t)
}

func (d database) migrated(t testing.TB) database {
	config := d.config(t)
	config.ConnConfig.ConnectTimeout = soon // a busy server may take longer than the 5 s of a user
	require.NoError(t, postgres.Migrate(within(t, soon), config.ConnConfig))
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
