package postgrestest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

var (
	cuts      = flag.Int("cuts", 8, "holders that are cut off from the server")
	disasters = flag.Int("disasters", 2, "times that each disaster befalls a server while a lock is held")
)

const faultTTL = 3 * time.Second

// through returns the database as a client sees it that can be cut off from the server.
func (d database) through(t testing.TB) (database, *embedtest.Proxy) {
	to := d.config(t).ConnConfig // the first, where the URL has several
	proxy := embedtest.NewProxy(t, fmt.Sprint(to.Host, ":", to.Port))
	d.url = urlOf(proxy.Addr())
	return d, proxy
}

// urlOf leads to that of some servers which can be written to.
func urlOf(hosts string) string {
	return (&url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: hosts, Path: "/postgres",
		RawQuery: "sslmode=disable&target_session_attrs=read-write",
	}).String()
}

// TestLeaseEndsBeforeTheNextHolderIsGranted: a holder that is cut off from the server has lost its lease, and has been told,
// before another gets the lock. Every second one is cut off from the server's replies only: it goes on hearing from it for a while.
func TestLeaseEndsBeforeTheNextHolderIsGranted(t *testing.T) {
	suite.Long(t, suite.Postgres, "cuts holders with a TTL of 3 s off from the server")
	t.Parallel()
	d := newServer(t, embedtest.Setting("max_connections = 400"))
	locktest.RunLosses(t, locktest.Losses{
		TTL: faultTTL, Holders: *cuts, Next: d.open(t, faultTTL),
		Open: func(t *testing.T, i int) (*farsync.Store, func()) {
			to, proxy := d.through(t)
			store := to.open(t, faultTTL)
			t.Cleanup(proxy.Heal) // so that the Store is closed without waiting for an answer
			if i%2 == 0 {
				return store, proxy.Cut
			}
			return store, proxy.CutReplies
		},
	})
}

// outlived has a holder cut off, and then a disaster. At once others want the lock, one of them since before. None may enter while the
// holder is inside and has not been told that its lease has ended, and tokens must not go back. It is done over and over.
func outlived(t *testing.T, begin func(*testing.T) (d database, befall func())) {
	overlaps, visits := atomic.Int64{}, atomic.Int64{}
	t.Run("trial", func(t *testing.T) {
		for i := range *disasters {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				section := locktest.NewSection(t, 1)
				d, befall := begin(t)
				d.outlive(t, section, befall)
				n, _ := section.Visits()
				visits.Add(int64(n))
				overlaps.Add(int64(len(section.Overlaps())))
			})
		}
	})
	t.Logf("%d times: %d visits, %d overlaps", *disasters, visits.Load(), overlaps.Load())
	require.Zero(t, overlaps.Load())
}

func (d database) outlive(t *testing.T, section *locktest.Section, befall func()) {
	to, proxy := d.through(t)
	holder := to.open(t, faultTTL)
	t.Cleanup(proxy.Heal)
	stores := []*farsync.Store{d.open(t, faultTTL), d.open(t, faultTTL)}
	lease := lock(t, holder, "/fault")
	leave := section.Enter(lease, 1)
	proxy.Cut()
	var others sync.WaitGroup
	for _, store := range stores {
		others.Go(func() {
			for held := 0; held < 3; {
				next, err := farsync.NewMutex(store, "/fault").Lock(within(t, soon))
				if err != nil {
					t.Errorf("the lock is not free again: %v", err)
					return
				}
				if next.Token() <= lease.Token() {
					t.Errorf("token %d after %d", next.Token(), lease.Token())
				}
				section.Visit(t.Context(), next, 1)
				// On a machine that is busy with other things a session may run out at any time.
				if err := next.Release(); err == nil {
					held++
				} else if !errors.Is(err, farsync.ErrLost) && !errors.Is(err, farsync.ErrUnavailable) {
					t.Error(err)
					return
				}
			}
		})
	}
	befall()
	<-lease.Done()
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	others.Wait()
	leave()
}

// TestKilledServerKeepsHoldersApart: with fsync, and synchronous_commit as it is unless changed, what was answered is still there.
func TestKilledServerKeepsHoldersApart(t *testing.T) {
	suite.Long(t, suite.Postgres, "kills the server")
	t.Parallel()
	outlived(t, func(t *testing.T) (database, func()) {
		d := newServer(t, embedtest.Fsync())
		return d, func() {
			d.server.Kill()
			require.NoError(t, d.server.Restart(within(t, soon)))
		}
	})
}

// replicated returns a database whose clients know a replica of it, too.
func replicated(t *testing.T) (d database, replica *embedtest.PostgresServer) {
	d = newServer(t)
	replica = embedtest.PostgresReplica(t, d.server)
	d.url = urlOf(d.server.Endpoint() + "," + replica.Endpoint())
	return d, replica
}

// on runs a statement on a server and returns what it says.
func on[T any](t testing.TB, server *embedtest.PostgresServer, statement string) (says T) {
	conn, err := pgx.Connect(within(t, soon), server.URL())
	require.NoError(t, err)
	defer conn.Close(within(t, soon))
	require.NoError(t, conn.QueryRow(within(t, soon), statement).Scan(&says))
	return says
}

// set changes a setting of a server that runs.
func set(t testing.TB, server *embedtest.PostgresServer, setting string) {
	conn, err := pgx.Connect(within(t, soon), server.URL())
	require.NoError(t, err)
	defer conn.Close(within(t, soon))
	_, err = conn.Exec(within(t, soon), "ALTER SYSTEM SET "+setting)
	require.NoError(t, err)
	_, err = conn.Exec(within(t, soon), "SELECT pg_reload_conf()")
	require.NoError(t, err)
}

// TestSynchronousReplicaKeepsHoldersApart: it has all that was answered, and is promoted when the server has died. Stores whose
// config names both go on with it.
func TestSynchronousReplicaKeepsHoldersApart(t *testing.T) {
	suite.Long(t, suite.Postgres, "kills the server, and promotes a replica")
	t.Parallel()
	outlived(t, func(t *testing.T) (database, func()) {
		d, replica := replicated(t)
		set(t, d.server, "synchronous_standby_names = '*'")
		require.Eventually(t, func() bool {
			return on[bool](t, d.server, "SELECT EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync')")
		}, soon, 10*time.Millisecond)
		return d, func() {
			d.server.Kill()
			require.True(t, on[bool](t, replica, "SELECT pg_promote()"))
		}
	})
}

// cutOff has a replica receive what the server has written by now, and no more.
func cutOff(t *testing.T, server, replica *embedtest.PostgresServer) {
	written := on[string](t, server, "SELECT pg_current_wal_lsn()::text")
	require.Eventually(t, func() bool {
		return on[bool](t, replica, "SELECT pg_last_wal_replay_lsn() >= '"+written+"'::pg_lsn")
	}, soon, 10*time.Millisecond)
	set(t, replica, "primary_conninfo = ''")
	require.Eventually(t, func() bool {
		return !on[bool](t, replica, "SELECT EXISTS (SELECT 1 FROM pg_stat_wal_receiver)")
	}, soon, 10*time.Millisecond)
}

// TestStaleReplicaThatIsPromotedMayHaveTwoHold: it has not heard of the lock, and is promoted while the holder relies on it. Tokens
// rise by the clock, and the guard of the lease that was lost commits nothing.
func TestStaleReplicaThatIsPromotedMayHaveTwoHold(t *testing.T) {
	suite.Long(t, suite.Postgres, "kills the server, and promotes a replica")
	t.Parallel()
	d, replica := replicated(t)
	other := d.open(t, faultTTL)
	require.NoError(t, lock(t, other, "/stale").Release())
	cutOff(t, d.server, replica)
	lease := lock(t, d.open(t, time.Hour), "/stale")
	d.server.Kill()
	require.True(t, on[bool](t, replica, "SELECT pg_promote()"))
	next := lock(t, other, "/stale")
	require.NoError(t, lease.Err(), "it has not been told: two hold")
	require.Greater(t, next.Token(), lease.Token())
	for _, row := range []struct {
		lease *farsync.Lease
		err   error
	}{{lease, farsync.ErrLost}, {next, nil}} {
		conn, err := pgx.Connect(within(t, soon), replica.URL())
		require.NoError(t, err)
		tx, err := conn.Begin(within(t, soon))
		require.NoError(t, err)
		require.ErrorIs(t, postgres.Guard(within(t, soon), tx, row.lease), row.err)
		require.NoError(t, tx.Rollback(within(t, soon)))
		require.NoError(t, conn.Close(within(t, soon)))
	}
	require.NoError(t, next.Release())
}

// TestClockThatIsSetForwardByLess than what is left of the TTL ends no session of a client that is connected.
func TestClockThatIsSetForwardByLess(t *testing.T) {
	suite.Long(t, suite.Postgres, "sets the server's clock")
	t.Parallel()
	d := newServer(t, embedtest.Clock())
	store := d.open(t, time.Minute)
	lease := lock(t, store, "/clock")
	require.NoError(t, d.server.StepClock(30*time.Second))
	other := d.open(t, time.Minute)
	_, err := farsync.NewMutex(other, "/clock").TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
	next := lock(t, other, "/clock")
	require.Greater(t, next.Token(), lease.Token())
}

// TestClockThatIsSetForwardEndsSessionsEarly: by more than a TTL, while a holder is cut off. Another is granted the lock before the holder's
// lease has ended: two hold. A token that is checked, or a guard, refuses the old one.
func TestClockThatIsSetForwardEndsSessionsEarly(t *testing.T) {
	suite.Long(t, suite.Postgres, "sets the server's clock")
	t.Parallel()
	d := newServer(t, embedtest.Clock())
	to, proxy := d.through(t)
	store := to.open(t, time.Hour) // so long that the lease cannot have ended by itself
	t.Cleanup(proxy.Heal)
	lease := lock(t, store, "/clock")
	proxy.Cut()
	require.NoError(t, d.server.StepClock(time.Hour+time.Minute))
	next := lock(t, d.open(t, faultTTL), "/clock")
	require.NoError(t, lease.Err(), "it knows of nothing")
	require.Greater(t, next.Token(), lease.Token())
	tx := d.begin(t)
	require.ErrorIs(t, postgres.Guard(within(t, soon), tx, lease), farsync.ErrLost)
	require.NoError(t, postgres.Guard(within(t, soon), tx, next))
	require.NoError(t, tx.Commit(within(t, soon)))
}

// TestClockThatIsSetBack by a TTL ends no lease and gives no lock to two, and tokens rise. The lock of a client that has died stays
// for a TTL longer.
func TestClockThatIsSetBack(t *testing.T) {
	suite.Long(t, suite.Postgres, "sets the server's clock")
	t.Parallel()
	d := newServer(t, embedtest.Clock())
	to, proxy := d.through(t)
	dead := lock(t, to.open(t, faultTTL), "/dead")
	t.Cleanup(proxy.Heal)
	store := d.open(t, faultTTL)
	before := lock(t, store, "/kept")
	require.NoError(t, before.Release())
	proxy.Cut()
	require.NoError(t, d.server.StepClock(-faultTTL))
	next := lock(t, store, "/dead")
	require.ErrorIs(t, dead.Err(), farsync.ErrLost)
	require.Greater(t, next.Token(), dead.Token())
	again := lock(t, store, "/kept")
	require.Greater(t, again.Token(), before.Token(), "revisions go on from the last")
	require.NoError(t, again.Release())
}

// A flow is a connection that a device on the way has forgotten once it is lost: what is sent goes nowhere, and nothing says so.
type flow struct {
	net.Conn
	lost  atomic.Bool
	moves bool // nobody is where the server was, when it is lost
}

// nowhere is where nobody answers.
var nowhere = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5432}

func (f *flow) RemoteAddr() net.Addr {
	if f.moves && f.lost.Load() {
		return nowhere
	}
	return f.Conn.RemoteAddr()
}

func (f *flow) Write(p []byte) (int, error) {
	if f.lost.Load() {
		return len(p), nil
	}
	return f.Conn.Write(p)
}

// flows are those of a config.
type flows struct {
	move bool
	mu   sync.Mutex
	all  []*flow
}

// forget has the connections of a config be some that can be lost.
func forget(config *pgxpool.Config, move bool) *flows {
	of := &flows{move: move}
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == nowhere.String() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		f := &flow{Conn: conn, moves: of.move}
		of.mu.Lock()
		defer of.mu.Unlock()
		of.all = append(of.all, f)
		return f, nil
	}
	return of
}

func (of *flows) count() int {
	of.mu.Lock()
	defer of.mu.Unlock()
	return len(of.all)
}

// lose loses those that there are.
func (of *flows) lose() {
	of.mu.Lock()
	defer of.mu.Unlock()
	for _, f := range of.all {
		f.lost.Store(true)
	}
}

// TestWaiterWhoseConnectionsWereForgotten: it has stood, and is told by another connection that it may hold. Its look must not be waited for until
// it would look again by itself, half a minute later.
func TestWaiterWhoseConnectionsWereForgotten(t *testing.T) {
	suite.Long(t, suite.Postgres, "loses connections beside a TTL of 3 s")
	t.Parallel()
	d := newServer(t)
	holder, err := farsync.NewSemaphore(d.open(t, time.Minute), "/permits", 1).Acquire(within(t, soon), 1)
	require.NoError(t, err)
	config := d.config(t)
	flows := forget(config, false)
	options := d.options(faultTTL)
	options.Listen = d.config(t).ConnConfig
	store, err := postgres.Open(within(t, soon), config, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	waiting := locktest.Behind(t, func(ctx context.Context) (*farsync.Lease, error) {
		return farsync.NewSemaphore(store, "/permits", 1).Acquire(ctx, 1)
	})
	require.Eventually(t, func() bool {
		return d.count(t, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'") > 0 && d.count(t, "SELECT count(*) FROM farsync_watches") > 0
	}, soon, time.Millisecond)
	flows.lose()
	require.NoError(t, holder.Release())
	require.NoError(t, locktest.Got(t, waiting).Release())
}

// TestServerThatHasMoved: where it was nobody answers, nor to what cancels statements there. Those that wait for that leave room in the pool to
// renew the session where the server is now.
func TestServerThatHasMoved(t *testing.T) {
	suite.Long(t, suite.Postgres, "loses connections beside a TTL of 3 s")
	t.Parallel()
	d := newServer(t)
	config := d.config(t)
	config.MaxConns = 1 // and one more, to renew
	flows := forget(config, true)
	store, err := postgres.Open(within(t, soon), config, d.options(faultTTL))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	lease := locktest.Lock(t, store, "/moved")
	ctx, cancel := context.WithCancel(within(t, time.Minute))
	defer cancel()
	var others sync.WaitGroup
	for i := range 8 {
		others.Go(func() {
			m := farsync.NewMutex(store, fmt.Sprint("/others/", i))
			for ctx.Err() == nil {
				if other, err := m.Lock(ctx); err == nil {
					_ = other.Release()
				}
			}
		})
	}
	require.Eventually(t, func() bool { return flows.count() >= 2 }, soon, time.Millisecond)
	flows.lose()
	later := time.Now().Add(3 * faultTTL)
	require.Eventually(t, func() bool { return lease.Err() != nil || lease.Deadline().After(later) }, soon, time.Millisecond)
	require.NoError(t, lease.Err())
	cancel()
	others.Wait()
	require.NoError(t, lease.Release())
}

// TestConnectionsThatWereForgotten: all connections of a Store that holds are forgotten on the way, more of them than a TTL has renewals. New
// ones are not, so the lease lives on.
func TestConnectionsThatWereForgotten(t *testing.T) {
	suite.Long(t, suite.Postgres, "loses connections beside a TTL of 3 s")
	t.Parallel()
	const connections = 12
	d := newServer(t)
	config := d.config(t)
	config.MaxConns, config.MinIdleConns = connections, connections
	flows := forget(config, false)
	store, err := postgres.Open(within(t, soon), config, d.options(faultTTL))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	lease := locktest.Lock(t, store, "/forgotten")
	require.Eventually(t, func() bool { return flows.count() >= connections }, soon, time.Millisecond)
	flows.lose()
	later := time.Now().Add(3 * faultTTL)
	require.Eventually(t, func() bool { return lease.Err() != nil || lease.Deadline().After(later) }, soon, time.Millisecond)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestCloseOverBrokenConnections: a Store whose connections were reset a moment ago ends its session all the same, by a new one. (A
// reader keeps no connection of its own, as the holder of a mutex does.)
func TestCloseOverBrokenConnections(t *testing.T) {
	suite.Long(t, suite.Postgres, "resets the connections of a Store")
	t.Parallel()
	d := newServer(t)
	to, proxy := d.through(t)
	store := to.open(t, time.Minute)
	_, err := farsync.NewRWMutex(store, "/broken").RLock(within(t, soon))
	require.NoError(t, err)
	proxy.Reset()
	require.NoError(t, store.Close())
	require.Zero(t, d.count(t, "SELECT count(*) FROM farsync_entries"))
}
