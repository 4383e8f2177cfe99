package postgrestest_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// TestStoresDoWithTheRoomThatThereIs: a server of 14 connections has room for five Stores at two each, for one more,
// and for the test's own.
func TestStoresDoWithTheRoomThatThereIs(t *testing.T) {
	t.Parallel()
	d := newServer(t, embedtest.Setting("max_connections = 14"))
	locktest.RunNarrow(t, locktest.Narrow{
		Open: func(ctx context.Context, options farsync.Options) (*farsync.Store, error) {
			return postgres.Open(ctx, d.config(t), &postgres.Options{Options: options})
		},
		Stores: 5,
		Says:   "max_connections=14",
	})
}

// TestRenewalFindsAConnection: others have taken all that the server has room for, and then the place of the connection that has renewed the
// session as well. The session is renewed by the connection of the calls, of which one stands behind a locked row just then, and
// others wait for their turn.
func TestRenewalFindsAConnection(t *testing.T) {
	t.Parallel()
	d := newServer(t, embedtest.Setting("max_connections = 14"))
	service, in, pids := d.withTwo(t, time.Hour)
	tx := d.begin(t)
	require.NoError(t, postgres.LockTx(within(t, soon), tx, "/row"))
	ctx, cancel := context.WithCancel(within(t, soon))
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			for ctx.Err() == nil {
				// A reader has no key. A call that has one gives it back, and is given up with its connection if that takes a tenth of a second.
				_, _ = in.Create(ctx, driver.Entry{Queue: "/row", ID: in.NewID("/row", driver.Read, 1), Kind: driver.Read, Units: 1}, 0)
			}
		})
	}
	d.awaitBlocked(t, "farsync_")
	fill, empty := d.filled(t)
	require.ErrorContains(t, fill(), "too many clients")
	require.NoError(t, in.Renew(within(t, soon), nil))
	require.Equal(t, pids, d.pids(t))
	d.exec(t, "SELECT pg_terminate_backend($1, 60000)", pids[0])
	require.ErrorContains(t, fill(), "too many clients")
	_ = in.Renew(within(t, soon), nil) // it may be told of the lost connection
	for range 2 {
		require.NoError(t, in.Renew(within(t, soon), nil))
		require.Equal(t, pids[1:], d.pids(t))
	}
	cancel()
	calls.Wait()
	empty()
	require.NoError(t, tx.Rollback(within(t, soon)))
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
}

// TestCallThatWaitedForALockKeepsItsConnection, with the key and without: a server without room might have no other.
func TestCallThatWaitedForALockKeepsItsConnection(t *testing.T) {
	t.Parallel()
	for _, kind := range []driver.Kind{driver.Read, driver.Exclusive} {
		t.Run(kind.String(), func(t *testing.T) {
			if kind == driver.Exclusive {
				suite.Long(t, suite.Postgres, "the server has a tenth of a second to take the key back")
			}
			t.Parallel()
			d := newDatabase(t)
			service, in, pids := d.withTwo(t, time.Minute)
			tx := d.begin(t)
			require.NoError(t, postgres.LockTx(within(t, soon), tx, "/row"))
			create := func() error {
				_, err := in.Create(within(t, soon), driver.Entry{Queue: "/row", ID: in.NewID("/row", kind, 1), Kind: kind, Units: 1}, 0)
				return err
			}
			require.ErrorContains(t, create(), "lock timeout")
			require.Equal(t, pids, d.pids(t))
			var locks int
			require.NoError(t, d.admin.QueryRow(within(t, soon), "SELECT count(*) FROM pg_locks WHERE pid = ANY($1) AND locktype = 'advisory'", pids).Scan(&locks))
			require.Zero(t, locks, "keys that are left")
			require.NoError(t, tx.Rollback(within(t, soon)))
			require.NoError(t, create())
			require.Equal(t, pids, d.pids(t))
			require.NoError(t, in.Close(within(t, soon)))
			require.NoError(t, service.Close())
		})
	}
}

// withTwo opens a session with two connections, which are both there, the older first.
func (d database) withTwo(t *testing.T, ttl time.Duration) (service driver.Service, in driver.Session, pids []int32) {
	service = d.twoOf(t)
	in, err := service.Open(within(t, soon), ttl)
	require.NoError(t, err)
	_, err = in.List(within(t, soon), "/row", 1)
	require.NoError(t, err)
	pids = d.pids(t)
	require.Len(t, pids, 2)
	return service, in, pids
}

// filled takes the connections that the server has room for, each time that fill is called, until empty is. The operator
// has had one before.
func (d database) filled(t *testing.T) (fill func() error, empty func()) {
	d.exec(t, "SELECT 1")
	var others []*pgx.Conn
	return func() (err error) {
			for err == nil {
				var conn *pgx.Conn
				if conn, err = pgx.ConnectConfig(within(t, soon), d.config(t).ConnConfig); err == nil {
					others = append(others, conn)
				}
			}
			return err
		}, func() {
			for _, conn := range others {
				require.NoError(t, conn.Close(within(t, soon)))
			}
		}
}

// TestCallThatGivesUpEndsNoOther: the server has cancelled the statement by the time its caller is answered, and cancels nothing that comes after
// it by the same connection.
func TestCallThatGivesUpEndsNoOther(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	service := d.twoOf(t)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	tx := d.begin(t)
	require.NoError(t, postgres.LockTx(within(t, soon), tx, "/row"))
	var took []time.Duration
	for i := range 100 {
		kind := []driver.Kind{driver.Exclusive, driver.Read}[i%2] // with the key and without
		ctx, cancel := context.WithCancel(within(t, soon))
		failed := make(chan error, 1)
		go func() { // joined below
			for { // each waits for half a second at most; the statement that is seen to be blocked may still be an earlier one
				_, err := in.Create(ctx, driver.Entry{Queue: "/row", ID: in.NewID("/row", kind, 1), Kind: kind, Units: 1}, 0)
				if err == nil || ctx.Err() != nil {
					failed <- err
					return
				}
			}
		}()
		d.awaitBlocked(t, "farsync_")
		began := time.Now()
		cancel()
		require.Error(t, locktest.Got(t, failed))
		took = append(took, time.Since(began))
		_, err = in.List(within(t, soon), "/row", 1)
		require.NoError(t, err)
	}
	slices.Sort(took)
	t.Logf("a call that gives up returns after %v, and after %v at most", took[len(took)/2], took[len(took)-1])
	require.NoError(t, tx.Rollback(within(t, soon)))
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
}

// TestFewConnectionsServeAll: a Store with two takes no third, whatever its callers do, and one with fewer is refused.
func TestFewConnectionsServeAll(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	options := d.options(time.Hour)
	options.Connections = 1
	_, err := postgres.Open(within(t, soon), d.config(t), options)
	require.ErrorContains(t, err, "option Connections is 1")
	options.Connections = 2
	config := d.config(t)
	config.ConnConfig.RuntimeParams["application_name"] = "few"
	store, err := postgres.Open(within(t, soon), config, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	locktest.RunFew(t, store, d.open(t, time.Hour))
	// A connection may have gone with an attempt that was given up, and one has taken its place. The server still counts the first until
	// the process that served it has noticed that nobody is there.
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, d.admin.QueryRow(within(t, soon),
			"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'few'").Scan(&n))
		return n <= 2
	}, soon, time.Millisecond)
}

// givesUp has a call give up once its connection has begun to be made.
func givesUp(t *testing.T, in driver.Session, began <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t, soon))
	failed := make(chan error, 1)
	go func() { // joined below
		_, err := in.List(ctx, "/row", 1)
		failed <- err
	}()
	locktest.Got(t, began)
	cancel()
	require.Error(t, locktest.Got(t, failed))
}

// TestConnectionThatComesTooLateIsNotOneMore: a call gives up while its connection is being made, and the next has another. Both are made.
func TestConnectionThatComesTooLateIsNotOneMore(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	options := d.options(0)
	options.Connections = 2
	config := d.config(t)
	config.ConnConfig.RuntimeParams["application_name"] = "two"
	var slow atomic.Bool
	began, goes, made := make(chan struct{}), make(chan struct{}), make(chan struct{}, 3)
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if slow.CompareAndSwap(true, false) {
			close(began)
			<-goes
		}
		return dial(ctx, network, address)
	}
	config.ConnConfig.ConnectTimeout = soon
	config.AfterConnect = func(context.Context, *pgx.Conn) error {
		made <- struct{}{}
		return nil
	}
	service, err := postgres.NewService(config, options)
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	locktest.Got(t, made)
	slow.Store(true)
	givesUp(t, in, began)
	_, err = in.List(within(t, soon), "/row", 1)
	require.NoError(t, err)
	require.Len(t, d.pids(t), 2)
	locktest.Got(t, made)
	close(goes)
	locktest.Got(t, made) // the server has three
	require.Eventually(t, func() bool { return len(d.pids(t)) == 2 }, soon, time.Millisecond)
	_, err = in.List(within(t, soon), "/row", 1)
	require.NoError(t, err)
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
}

// TestConnectionThatComesLateIsNotAThird: a call gives up while its connection is being made. By the time it is made the server has refused the Store
// another, which is to go on with two: one renews the session, and a call that stands behind a locked row has the other.
func TestConnectionThatComesLateIsNotAThird(t *testing.T) {
	t.Parallel()
	d := newServer(t, embedtest.Setting("max_connections = 20"))
	config := d.config(t)
	config.MaxConns = 4
	config.ConnConfig.RuntimeParams["application_name"] = "two"
	var slow atomic.Bool
	began, goes := make(chan struct{}), make(chan struct{})
	config.AfterConnect = func(context.Context, *pgx.Conn) error {
		if slow.CompareAndSwap(true, false) {
			close(began)
			<-goes
		}
		return nil
	}
	service, err := postgres.NewService(config, d.options(0))
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	slow.Store(true)
	givesUp(t, in, began)
	tx := d.begin(t)
	require.NoError(t, postgres.LockTx(within(t, soon), tx, "/row"))
	created := make(chan error, 1)
	go func() { // joined below
		_, err := in.Create(within(t, 2*soon), driver.Entry{Queue: "/row", ID: in.NewID("/row", driver.Read, 1), Kind: driver.Read, Units: 1}, 0)
		created <- err
	}()
	d.awaitBlocked(t, "farsync_create")
	require.Len(t, d.pids(t), 3)
	fill, empty := d.filled(t)
	require.ErrorContains(t, fill(), "too many clients")
	_, err = in.List(within(t, soon), "/row", 1)
	require.ErrorContains(t, err, "too many clients")
	require.Len(t, d.pids(t), 3)
	close(goes)
	require.Eventually(t, func() bool { return len(d.pids(t)) == 2 }, soon, time.Millisecond)
	require.NoError(t, tx.Rollback(within(t, soon)))
	require.NoError(t, locktest.Got(t, created))
	_, err = in.List(within(t, soon), "/row", 1)
	require.NoError(t, err)
	require.Len(t, d.pids(t), 2)
	empty()
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
}

// TestKeyGivesWayToACallThatCameFirst: of three calls the first creates its entry with the only place that calls have,
// for which the others wait already when the entry is to keep it as the place of its key. Nobody comes after them who
// would ask for it, and no renewal is due that would give it up.
func TestKeyGivesWayToACallThatCameFirst(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	service := d.twoOf(t)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	for n := range 50 {
		var calls errgroup.Group
		for i := range 3 {
			calls.Go(func() error {
				queue := fmt.Sprint("/first/", n, "/", i)
				_, err := in.Create(within(t, soon), driver.Entry{
					Queue: queue, ID: in.NewID(queue, driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
				}, 0)
				return err
			})
		}
		require.NoError(t, calls.Wait())
	}
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
}

// TestKeysThatWaitGiveUpTheirConnections once the server has little room: calls wait with them, each for as long as another holds, and go on to
// wait without.
func TestKeysThatWaitGiveUpTheirConnections(t *testing.T) {
	t.Parallel()
	d := newServer(t, embedtest.Setting("max_connections = 30"))
	config := d.config(t)
	config.MaxConns = 8
	config.ConnConfig.RuntimeParams["application_name"] = "two"
	service, err := postgres.NewService(config, d.options(0))
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	config = d.config(t)
	config.MaxConns = 8
	holders, err := postgres.NewService(config, d.options(0))
	require.NoError(t, err)
	holder, err := holders.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	join := func(in driver.Session, queue string) driver.Entry {
		v, err := in.Create(within(t, soon), driver.Entry{Queue: queue, ID: in.NewID(queue, driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1}, 0)
		require.NoError(t, err)
		return v.Self
	}
	const waiters = 3
	var ahead []driver.Entry
	gone := make(chan error, waiters)
	for i := range waiters {
		queue := fmt.Sprint("/keys/", i)
		first := join(holder, queue)
		ahead = append(ahead, first)
		self := join(in, queue)
		ctx := within(t, 2*soon)
		go func() { // joined below
			for {
				_, err := in.Watch(ctx, self, []driver.Target{{What: driver.Gone, Entry: first}}, func() {})
				if err == nil || ctx.Err() != nil {
					gone <- err
					return
				} // an attempt for which the server was slow is followed by another, as by a Store
			}
		}()
	}
	require.Eventually(t, func() bool {
		return d.count(t, `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE a.application_name = 'two' AND l.locktype = 'advisory' AND NOT l.granted`) == waiters
	}, soon, time.Millisecond)
	require.Greater(t, len(d.pids(t)), waiters)
	fill, empty := d.filled(t)
	require.ErrorContains(t, fill(), "too many clients")
	require.Eventually(t, func() bool {
		// Each renewal has the Store ask how much room there is, now and then. A slow server may answer one too late.
		require.NoError(t, in.Renew(within(t, soon), nil))
		return len(d.pids(t)) <= 2
	}, soon, time.Millisecond)
	for _, e := range ahead {
		_, found, err := holder.Delete(within(t, soon), e)
		require.NoError(t, err)
		require.True(t, found)
		require.NoError(t, locktest.Got(t, gone))
	}
	empty()
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, holder.Close(within(t, soon)))
	require.NoError(t, service.Close())
	require.NoError(t, holders.Close())
}
