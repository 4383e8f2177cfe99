package mysqltest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

func TestMigrateAgain(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	lease := lock(t, d.open(t, ttl(time.Minute)), "/migrate")
	var all errgroup.Group
	for range 4 {
		all.Go(func() error { return mysql.Migrate(within(t, soon), d.dsn()) })
	}
	require.NoError(t, all.Wait())
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestMigrateAtOnce: programs that start together on a new database.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	d := bareDatabase(t, newDatabase(t).server)
	var all errgroup.Group
	for range 4 {
		all.Go(func() error { return mysql.Migrate(within(t, soon), d.dsn()) })
	}
	require.NoError(t, all.Wait())
	require.NoError(t, lock(t, d.open(t, nil), "/migrate").Release())
}

// TestOpenSaysWhatIsWrong, and does not take the server for one that does not answer.
func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	bare := bareDatabase(t, d.server)
	guest, routines := "g"+d.name[:8], "r"+d.name[:8]
	d.exec(t, "CREATE USER "+guest)
	d.exec(t, "CREATE USER "+routines)
	d.exec(t, "GRANT EXECUTE ON "+d.name+".* TO "+routines)
	as := func(user string) string { return user + "@tcp(" + d.server.Endpoint() + ")/" + d.name }
	for _, row := range []struct{ name, dsn, words string }{
		{"no DSN", "", "No database selected"},
		{"not a DSN", "mysql://root@localhost/test", "default addr"},
		{"no tables", bare.dsn(), "in a program by Migrate"},
		{"no such database", d.server.DSN("none"), "Unknown database"},
		{"no such user", as("none"), "Access denied"},
		{"a wrong password", as("root:wrong"), "Access denied"},
		{"no rights", as(guest), "denied"},
		{"no rights to the tables", as(routines), "denied"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.dsn == "" {
				row.dsn = d.server.DSN("")
			}
			_, err := mysql.Open(within(t, soon), row.dsn, nil)
			require.ErrorContains(t, err, "farsync: open mysql: ")
			require.ErrorContains(t, err, row.words)
			require.NotErrorIs(t, err, farsync.ErrUnavailable)
		})
	}
}

func TestMisuseOfEveryStore(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locktest.Mistaken{Open: func(ctx context.Context, options farsync.Options) (*farsync.Store, error) {
		return mysql.Open(ctx, d.dsn(), &mysql.Options{Options: options})
	}, Opens: "farsync: open mysql: "}.Run(t)
}

// TestOpensThatAreGivenUp leaves no session.
func TestOpensThatAreGivenUp(t *testing.T) {
	suite.Long(t, suite.MySQL, "callers give up at random moments, 200 times")
	t.Parallel()
	d := newDatabase(t)
	locktest.RunOpens(t, func(ctx context.Context) (*farsync.Store, error) {
		return mysql.Open(ctx, d.dsn(), ttl(2*time.Second))
	}, func() int {
		require.NoError(t, d.open(t, ttl(2*time.Second)).Close()) // its renewals remove what has run out
		d.exec(t, "CALL farsync_bury('[]')")
		return ask[int](t, d, "SELECT COUNT(*) FROM farsync_sessions")
	})
}

// TestServerThatDies: what is held is held still when the server is back within the TTL, and what waited is served.
func TestServerThatDies(t *testing.T) {
	suite.Long(t, suite.MySQL, "kills the server")
	t.Parallel()
	d := databaseOf(t, newServer(t, embedtest.Fsync()))
	lease := lock(t, d.open(t, ttl(time.Minute)), "/dies")
	other := d.open(t, ttl(time.Minute))
	got := locktest.LockBehind(t, other, "/dies")
	locktest.AwaitQueue(t, other, "/dies", 2)
	for range 3 {
		d.server.Kill()
		require.NoError(t, d.server.Restart(within(t, soon)))
	}
	require.NoError(t, lease.Err())
	require.Empty(t, got)
	_ = lease.Release() // if it is not answered yet, it is carried out in the background
	next := locktest.Got(t, got)
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Release())
}
