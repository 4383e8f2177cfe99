package postgrestest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

func TestMigrateAgain(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	lease, err := farsync.NewMutex(d.open(t, time.Minute), "/migrate").Lock(within(t, soon))
	require.NoError(t, err)
	var all errgroup.Group
	for range 4 {
		all.Go(func() error { return postgres.Migrate(within(t, soon), d.config(t).ConnConfig) })
	}
	require.NoError(t, all.Wait())
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestOpenSaysWhatIsWrong, and does not take the server for one that does not answer.
func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	d.exec(t, "CREATE DATABASE bare")
	d.exec(t, "CREATE ROLE guest LOGIN")
	as := func(change func(*pgxpool.Config)) *pgxpool.Config {
		config := d.config(t)
		change(config)
		return config
	}
	for _, row := range []struct {
		name  string
		to    *pgxpool.Config
		words string
	}{
		{"no config", nil, "pgxpool.ParseConfig"},
		{"no tables", as(func(c *pgxpool.Config) { c.ConnConfig.Database = "bare" }), "in a program by Migrate"},
		{"no such database", as(func(c *pgxpool.Config) { c.ConnConfig.Database = "none" }), "does not exist"},
		{"no such user", as(func(c *pgxpool.Config) { c.ConnConfig.User = "none" }), "does not exist"},
		{"no rights", as(func(c *pgxpool.Config) { c.ConnConfig.User = "guest" }), "permission denied"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := postgres.Open(within(t, soon), row.to, nil)
			require.ErrorContains(t, err, "farsync: open postgres: ")
			require.ErrorContains(t, err, row.words)
			require.NotErrorIs(t, err, farsync.ErrUnavailable)
		})
	}
	s, err := postgres.NewService(d.config(t), nil)
	require.NoError(t, err, "no options are the zero ones")
	require.NoError(t, s.Close())
	_, err = postgres.Open(within(t, 10*time.Second), as(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}), nil)
	require.ErrorIs(t, err, farsync.ErrUnavailable, "it may be promoted")
	require.ErrorContains(t, err, "the server is read-only, as a replica is")
}

// TestServerThatBecomesReadOnly: a server that is not restarted keeps its connections. Once the server has refused a renewal, the Store renews by
// another connection, which may lead to the primary.
func TestServerThatBecomesReadOnly(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	config := d.config(t)
	config.ConnConfig.RuntimeParams["application_name"] = "renews"
	service, err := postgres.NewService(config, d.options(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, service.Close()) })
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(in.Drop)
	// The server reads its settings anew a moment after it was told to, and a session before its next statement.
	renewsUntil := func(is func(error) bool) {
		require.Eventually(t, func() bool { return is(in.Renew(within(t, soon), nil)) }, soon, time.Millisecond)
	}
	renewsUntil(func(err error) bool { return err == nil })
	by := on[int](t, d.server, "SELECT pid FROM pg_stat_activity WHERE application_name = 'renews' AND query LIKE '%farsync_renew(%'")
	set(t, d.server, "default_transaction_read_only = on")
	renewsUntil(func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "the server is read-only, as a replica is")
	})
	set(t, d.server, "default_transaction_read_only = off")
	renewsUntil(func(err error) bool { return err == nil })
	require.Eventually(t, func() bool {
		return !on[bool](t, d.server, fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = %d)", by))
	}, soon, time.Millisecond)
}

func TestMisuseOfEveryStore(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locktest.Mistaken{Open: func(ctx context.Context, options farsync.Options) (*farsync.Store, error) {
		return postgres.Open(ctx, d.config(t), &postgres.Options{Options: options})
	}, Opens: "farsync: open postgres: "}.Run(t)
}

// TestOpensThatAreGivenUp leaves no session.
func TestOpensThatAreGivenUp(t *testing.T) {
	suite.Long(t, suite.Postgres, "callers give up at random moments, 200 times")
	t.Parallel()
	d := newServer(t)
	locktest.RunOpens(t, func(ctx context.Context) (*farsync.Store, error) {
		return postgres.Open(ctx, d.config(t), &postgres.Options{Options: farsync.Options{TTL: 2 * time.Second}})
	}, func() (left int) {
		_, err := d.admin.Exec(within(t, soon), "SELECT farsync_bury()") // as each renewal does
		require.NoError(t, err)
		require.NoError(t, d.admin.QueryRow(within(t, soon), "SELECT count(*) FROM farsync_sessions").Scan(&left))
		return left
	})
}

// TestServerThatDies: what is held is held still when the server is back within the TTL, and what waited is served.
func TestServerThatDies(t *testing.T) {
	suite.Long(t, suite.Postgres, "kills the server")
	t.Parallel()
	d := newServer(t, embedtest.Fsync())
	lease, err := farsync.NewMutex(d.open(t, time.Minute), "/dies").Lock(within(t, soon))
	require.NoError(t, err)
	got := make(chan *farsync.Lease, 1)
	store := d.open(t, time.Minute)
	other := farsync.NewMutex(store, "/dies")
	go func() {
		lease, err := other.Lock(within(t, time.Minute))
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	for list, err := store.Participants(within(t, soon), "/dies"); len(list) < 2; list, err = store.Participants(within(t, soon), "/dies") {
		require.NoError(t, err)
	}
	for range 3 {
		d.server.Kill()
		require.NoError(t, d.server.Restart(within(t, soon)))
	}
	require.NoError(t, lease.Err())
	require.Empty(t, got)
	_ = lease.Release() // if the pool has no good connection yet, it is removed in the background
	next := <-got
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Release())
}

// TestIdleStoresListenToNothing, nor does a lock that no other wants notify: a connection that listens costs the server
// processor time at every notification. Nothing but a lock that is held for 3 seconds listens for its own end.
func TestIdleStoresListenToNothing(t *testing.T) {
	suite.Long(t, suite.Postgres, "counts what listens before 3 s have passed")
	t.Parallel()
	d := newServer(t)
	ears := func() (n int) {
		require.NoError(t, d.admin.QueryRow(within(t, soon),
			"SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'").Scan(&n))
		return n
	}
	stores := make([]*farsync.Store, 30)
	for i := range stores {
		stores[i] = d.open(t, 10*time.Second)
	}
	require.Zero(t, ears())
	since := time.Now()
	lease, err := farsync.NewMutex(stores[0], "/idle").Lock(within(t, soon))
	require.NoError(t, err)
	listening := func(waiters int) {
		n := ears()
		if time.Since(since) > 2*time.Second && n > waiters { // on a busy machine
			n--
		}
		require.Equal(t, waiters, n)
	}
	listening(0)
	got := make(chan error, 1)
	go func() {
		next, err := farsync.NewMutex(stores[1], "/idle").Lock(within(t, soon))
		if err == nil {
			err = next.Release()
		}
		got <- err
	}()
	for ears() == 0 {
		require.Empty(t, got)
	}
	listening(1)
	require.NoError(t, lease.Release())
	require.NoError(t, <-got)
	for ears() > 0 { // a second or so
		require.NoError(t, t.Context().Err())
	}
}

// TestMigrateBesideStores: tables are brought up to date while Stores use them, which wait meanwhile and lose nothing.
func TestMigrateBesideStores(t *testing.T) {
	suite.Long(t, suite.Postgres, "Stores race with migrations")
	t.Parallel()
	d := newServer(t)
	kept, err := farsync.NewMutex(d.open(t, 10*time.Second), "/kept").Lock(within(t, soon))
	require.NoError(t, err)
	var all errgroup.Group
	migrated := make(chan struct{})
	all.Go(func() error {
		defer close(migrated)
		for range 40 {
			if err := postgres.Migrate(within(t, soon), d.config(t).ConnConfig); err != nil {
				return err
			}
		}
		return nil
	})
	section := locktest.NewSection(t, 1)
	for range 3 {
		mu := farsync.NewMutex(d.open(t, 10*time.Second), "/used")
		all.Go(func() error {
			for {
				lease, err := mu.Lock(within(t, soon))
				if err != nil {
					return err
				}
				section.Visit(t.Context(), lease, 1)
				if err := lease.Release(); err != nil {
					return err
				}
				select {
				case <-migrated:
					return nil
				default:
				}
			}
		})
	}
	require.NoError(t, all.Wait())
	require.NoError(t, kept.Err())
	require.NoError(t, kept.Release())
}
