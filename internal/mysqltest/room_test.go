package mysqltest_test

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/mysql"
)

// TestStoresDoWithTheRoomThatThereIs: a server of 13 connections, and one more for an administrator, has room for
// five Stores at two each, for one more, and for the test's own.
func TestStoresDoWithTheRoomThatThereIs(t *testing.T) {
	d := roughDatabase(t)
	d.setGlobal(t, "max_connections", 13)
	locktest.RunNarrow(t, locktest.Narrow{
		Open: func(ctx context.Context, options farsync.Options) (*farsync.Store, error) {
			return mysql.Open(ctx, d.dsn(), &mysql.Options{Options: options})
		},
		Stores: 5,
		Says:   "max_connections=13",
	})
}

// TestRenewalFindsAConnection: others have taken all that the server has room for, and then the place of the connection that has renewed the
// session as well. The session is renewed by the connection of the calls, of which one stands behind a locked row just then, and
// others wait for their turn.
func TestRenewalFindsAConnection(t *testing.T) {
	d := roughDatabase(t)
	user := d.user(t)
	service, in, connections := user.two(t)
	tx := d.begin(t)
	require.NoError(t, mysql.LockTx(within(t, soon), tx, "/row"))
	ctx, cancel := context.WithCancel(within(t, soon))
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			for ctx.Err() == nil {
				_, _ = in.Create(ctx, driver.Entry{Queue: "/row", ID: in.NewID("/row", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1}, 0)
			}
		})
	}
	awaitWaiting(t, d)
	d.setGlobal(t, "max_connections", 12)
	fill, empty := d.filled(t)
	require.ErrorContains(t, fill(), "Too many connections")
	require.NoError(t, in.Renew(within(t, soon), nil))
	require.Equal(t, connections, user.connections(t))
	d.exec(t, "KILL "+connections[0])
	require.Eventually(t, func() bool { return !slices.Contains(user.connections(t), connections[0]) }, soon, time.Millisecond)
	require.ErrorContains(t, fill(), "Too many connections")
	for range 2 {
		require.NoError(t, in.Renew(within(t, soon), nil))
		require.Equal(t, connections[1:], user.connections(t))
	}
	cancel()
	calls.Wait()
	empty()
	require.NoError(t, tx.Rollback())
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
}

// filled takes the connections that the server has room for, each time that fill is called, until empty is.
func (d database) filled(t *testing.T) (fill func() error, empty func()) {
	full := connect(t, d.dsn())
	var others []*sql.Conn
	return func() (err error) {
			for err == nil {
				var conn *sql.Conn
				if conn, err = full.Conn(within(t, soon)); err == nil {
					others = append(others, conn)
				}
			}
			return err
		}, func() {
			for _, conn := range others {
				require.NoError(t, conn.Close())
			}
			require.NoError(t, full.Close())
		}
}

// TestResetKeepsWhatRenews: a session that is to use new connections keeps what the server would not give back.
func TestResetKeepsWhatRenews(t *testing.T) {
	d := roughDatabase(t)
	service, err := mysql.NewService(d.dsn(), nil)
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	d.setGlobal(t, "max_connections", 12)
	fill, empty := d.filled(t)
	require.ErrorContains(t, fill(), "Too many connections")
	_, err = in.Find(within(t, soon), driver.Entry{Queue: "/kept", ID: "none"})
	require.ErrorContains(t, err, "Too many connections")
	in.Reset()
	require.ErrorContains(t, fill(), "Too many connections")
	require.NoError(t, in.Renew(within(t, soon), nil))
	empty()
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
}

// TestFewConnectionsServeAll: a Store with two takes no third, whatever its callers do, and one with fewer is refused.
func TestFewConnectionsServeAll(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	_, err := mysql.Open(within(t, soon), d.dsn(), &mysql.Options{Connections: 1})
	require.ErrorContains(t, err, "option Connections is 1")
	user := d.user(t)
	options := ttl(time.Hour)
	options.Connections = 2
	few := openAt(t, user.dsn, options)
	locktest.RunFew(t, few, d.open(t, ttl(time.Hour)))
	// One is missing where a server was so slow that an attempt was given up: its connection goes with it, and is made anew for a call
	// that needs it.
	require.LessOrEqual(t, len(user.connections(t)), 2)
}

// A userOf is a user of a database, whom its tests tell from others.
type userOf struct {
	database

	name, dsn string
}

func (d database) user(t *testing.T) userOf {
	name := "f" + d.name[:8]
	d.exec(t, "CREATE USER "+name)
	d.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON "+d.name+".* TO "+name)
	return userOf{d, name, name + "@tcp(" + d.server.Endpoint() + ")/" + d.name}
}

// two opens a session with two connections, which are both there, the older first.
func (u userOf) two(t *testing.T) (service driver.Service, in driver.Session, connections []string) {
	service, err := mysql.NewService(u.dsn, &mysql.Options{Connections: 2})
	require.NoError(t, err)
	in, err = service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	_, err = in.List(within(t, soon), "/row", 1)
	require.NoError(t, err)
	connections = u.connections(t)
	require.Len(t, connections, 2)
	return service, in, connections
}

// connections are those of the user, the oldest first.
func (u userOf) connections(t *testing.T) (ids []string) {
	for _, p := range u.processes(t) {
		if p["User"] == u.name {
			ids = append(ids, p["Id"])
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return ids
}

// TestCallThatWaitedForARowKeepsItsConnection: a server without room might have no other. What the call has done before it waited is rolled back.
func TestCallThatWaitedForARowKeepsItsConnection(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	user := d.user(t)
	service, in, connections := user.two(t)
	tx := d.begin(t)
	require.NoError(t, mysql.LockTx(within(t, soon), tx, "/row"))
	e := driver.Entry{Queue: "/row", ID: in.NewID("/row", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1}
	_, err := in.Create(within(t, soon), e, 0)
	require.ErrorContains(t, err, "Lock wait timeout")
	require.Equal(t, driver.NotDone, service.Outcome(err))
	require.Equal(t, connections, user.connections(t))
	for _, id := range connections {
		awaitList(t, func() bool {
			return ask[int](t, d, "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = ?", id) == 0
		})
	}
	require.NoError(t, tx.Rollback())
	_, err = in.Create(within(t, soon), e, 1)
	require.NoError(t, err)
	require.Equal(t, connections, user.connections(t))
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
}
