package postgrestest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

// two opens a Store with two connections, which the server knows by a name.
func (d database) two(t testing.TB, ttl time.Duration, change ...func(*pgxpool.Config)) *farsync.Store {
	options := d.options(ttl)
	options.Connections = 2
	config := d.config(t)
	config.ConnConfig.RuntimeParams["application_name"] = "two"
	for _, f := range change {
		f(config)
	}
	store, err := postgres.Open(within(t, soon), config, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// twoOf is two for the service of a Store.
func (d database) twoOf(t testing.TB) driver.Service {
	options := d.options(0)
	options.Connections = 2
	config := d.config(t)
	config.ConnConfig.RuntimeParams["application_name"] = "two"
	service, err := postgres.NewService(config, options)
	require.NoError(t, err)
	return service
}

// pids are the server processes of that Store, the oldest first.
func (d database) pids(t testing.TB) (list []int32) {
	require.NoError(t, d.admin.QueryRow(within(t, soon),
		"SELECT coalesce(array_agg(pid ORDER BY backend_start), '{}') FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'two'").Scan(&list))
	return list
}

// reads has a Store wait for a reader's lock, for which it listens, behind the holder.
func (d database) reads(t testing.TB, store *farsync.Store, path string) (holder *farsync.Lease, got chan *farsync.Lease) {
	holder, err := farsync.NewRWMutex(d.open(t, time.Hour), path).Lock(within(t, soon))
	require.NoError(t, err)
	got = locktest.Behind(t, farsync.NewRWMutex(store, path).RLock)
	locktest.AwaitQueue(t, store, path, 2)
	return holder, got
}

// listening waits until another connection of a Store listens than that of a server process, and returns its own.
func (d database) listening(t testing.TB, other int32) (pid int32) {
	require.Eventually(t, func() bool {
		pid = 0
		err := d.admin.QueryRow(within(t, soon),
			"SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'two' AND query LIKE 'LISTEN %' AND pid <> $1", other).Scan(&pid)
		return err == nil
	}, soon, time.Millisecond)
	return pid
}

// TestRenewalInAStormOfNotifications: they come faster than the session stops to listen. A renewal has its connection all the same.
func TestRenewalInAStormOfNotifications(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	service := d.twoOf(t)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	ahead := d.foreign(t, "/storm", "other")
	v, err := in.Create(within(t, soon), driver.Entry{Queue: "/storm", ID: in.NewID("/storm", driver.Read, 1), Kind: driver.Read, Units: 1}, 0)
	require.NoError(t, err)
	stood, gone := make(chan struct{}), make(chan error, 1)
	go func() { // joined below
		_, err := in.Watch(within(t, 2*soon), v.Self, []driver.Target{{What: driver.Gone, Entry: ahead}}, sync.OnceFunc(func() { close(stood) }))
		gone <- err
	}()
	locktest.Got(t, stood)
	require.Len(t, d.pids(t), 2)
	ctx, cancel := context.WithCancel(t.Context())
	var storm errgroup.Group
	storm.Go(func() error {
		for ctx.Err() == nil {
			if _, err := d.admin.Exec(ctx, "SELECT pg_notify('farsync_' || id, 'nothing') FROM farsync_sessions"); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
	for range 50 {
		require.NoError(t, in.Renew(within(t, soon), nil))
	}
	cancel()
	require.NoError(t, storm.Wait())
	d.delete(t, ahead)
	require.NoError(t, locktest.Got(t, gone))
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
}

// TestListensAgainOnceItsConnectionIsLost: the next renewal, which would make another, is long in coming.
func TestListensAgainOnceItsConnectionIsLost(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	holder, got := d.reads(t, d.two(t, time.Hour), "/lost")
	first := d.listening(t, 0)
	d.exec(t, "SELECT pg_terminate_backend($1)", first)
	d.listening(t, first)
	require.NoError(t, holder.Release())
	require.NoError(t, locktest.Got(t, got).Release())
}

// TestCallersOwnNotificationsAreNone: a config that says what is to be done with notifications is one of a program
// that has them elsewhere.
func TestCallersOwnNotificationsAreNone(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	aside := func(c *pgxpool.Config) { c.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {} }
	holder, got := d.reads(t, d.two(t, time.Hour, aside), "/aside/two")
	d.listening(t, 0)
	require.NoError(t, holder.Release())
	require.NoError(t, locktest.Got(t, got).Release())
	config := d.config(t)
	aside(config)
	store, err := postgres.Open(within(t, soon), config, d.options(time.Hour))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	holder, got = d.reads(t, store, "/aside")
	require.NoError(t, holder.Release())
	require.NoError(t, locktest.Got(t, got).Release())
}

// TestCloseWaitsForARenewal that is under way, and for its connection.
func TestCloseWaitsForARenewal(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	service, in, _ := d.withTwo(t, time.Hour)
	tx := d.begin(t)
	_, err := tx.Exec(within(t, soon), "LOCK TABLE farsync_sessions")
	require.NoError(t, err)
	renewed, closed := make(chan error, 1), make(chan error, 1)
	go func() { renewed <- in.Renew(within(t, soon), nil) }() // joined below, as the next
	d.awaitBlocked(t, "farsync_renew")
	go func() { closed <- service.Close() }()
	require.Eventually(t, func() bool { return len(d.pids(t)) == 1 }, soon, time.Millisecond, "the connection of the calls is closed")
	require.NoError(t, tx.Rollback(within(t, soon)))
	require.NoError(t, locktest.Got(t, renewed))
	require.NoError(t, locktest.Got(t, closed))
	require.Eventually(t, func() bool { return len(d.pids(t)) == 0 }, soon, time.Millisecond)
	in.Drop()
}
