package mysqltest_test

import (
	"context"
	"database/sql"
	"flag"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

var (
	cuts  = flag.Int("cuts", 8, "holders that are cut off from the server")
	kills = flag.Int("kills", 3, "how often the server is killed and restarted")
)

// roughly has the tests that do harm to a server come one after the other: there are not eight such servers at once.
var roughly sync.Mutex

// roughDatabase returns a database on a server of t's own, to which t may do harm: what a test that fails leaves
// changed is no other's trouble. The server confirms a change when that is on the disk, as by default.
func roughDatabase(t *testing.T) database {
	t.Parallel()
	roughly.Lock()
	t.Cleanup(roughly.Unlock)
	return databaseOf(t, newServer(t, embedtest.Fsync(), embedtest.Clock()))
}

// setGlobal changes a setting of the server until t ends. Connections from then on have it.
func (d database) setGlobal(t *testing.T, name string, value any) {
	was := ask[string](t, d, "SELECT @@GLOBAL."+name)
	if _, isText := value.(string); isText {
		was = "'" + was + "'"
	}
	d.exec(t, "SET GLOBAL "+name+" = ?", value)
	t.Cleanup(func() {
		_, err := d.admin.Exec("SET GLOBAL " + name + " = " + was)
		require.NoError(t, err)
	})
}

// TestLeaseEndsBeforeTheNextHolderIsGranted: a holder that is cut off from the server has lost its lease, and has been told, before
// another gets the lock. Half of the holders are cut off from the server's answers only.
func TestLeaseEndsBeforeTheNextHolderIsGranted(t *testing.T) {
	suite.Long(t, suite.MySQL, "cuts holders with a TTL of 3 s off from the server")
	t.Parallel()
	const d = 3 * time.Second
	on := newDatabase(t)
	locktest.RunLosses(t, locktest.Losses{
		TTL: d, Holders: *cuts, Next: on.open(t, ttl(d)),
		Open: func(t *testing.T, i int) (*farsync.Store, func()) {
			proxy := embedtest.NewProxy(t, on.server.Endpoint())
			store := openAt(t, on.through(proxy.Addr()), ttl(d))
			t.Cleanup(proxy.Heal) // so that the Store is closed without waiting for an answer
			if i%2 == 0 {
				return store, proxy.Cut
			}
			return store, proxy.CutReplies
		},
	})
}

// TestKilledServerKeepsHoldersApart: clients lock and release while the server is killed and restarted, over and over. What was
// confirmed is there again, and tokens rise.
func TestKilledServerKeepsHoldersApart(t *testing.T) {
	suite.Long(t, suite.MySQL, "kills the server")
	d := roughDatabase(t)
	section := locktest.NewSection(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	var last farsync.Token
	for range 6 {
		store := d.open(t, ttl(20*time.Second))
		all.Go(func() {
			for ctx.Err() == nil {
				lease, err := farsync.NewMutex(store, "/killed").Lock(ctx)
				if err != nil {
					continue
				}
				leave := section.Enter(lease, 1)
				mu.Lock()
				if lease.Token() <= last && lease.Err() == nil {
					t.Errorf("token %d after %d", lease.Token(), last)
				}
				last = max(last, lease.Token())
				mu.Unlock()
				leave()
				_ = lease.Release() // carried out in the background if it is not answered
			}
		})
	}
	for range *kills {
		before, _ := section.Visits()
		require.Eventually(t, func() bool {
			now, _ := section.Visits()
			return now > before+3
		}, 2*soon, time.Millisecond)
		d.server.Kill()
		require.NoError(t, d.server.Restart(within(t, soon)))
	}
	cancel()
	all.Wait()
	visits, _ := section.Visits()
	t.Logf("%d grants over %d restarts, %d overlaps", visits, *kills, len(section.Overlaps()))
}

// TestNobodyWaitsForWhatAHungServerKeeps: the server hangs for most of a TTL, and goes on with renewals of sessions that their clients have lost.
func TestNobodyWaitsForWhatAHungServerKeeps(t *testing.T) {
	suite.Long(t, suite.MySQL, "stops the server for most of a TTL of 15 s")
	d := roughDatabase(t)
	locktest.RunHung(t, locktest.Hung{
		Open: func(t *testing.T, o farsync.Options) *farsync.Store { return d.open(t, &mysql.Options{Options: o}) },
		TTL:  locktest.HungTTL, Long: time.Minute, Freeze: d.server.Pause, Resume: d.server.Resume,
	})
}

// TestStoppedServerStopsNoCaller.
func TestStoppedServerStopsNoCaller(t *testing.T) {
	suite.Long(t, suite.MySQL, "stops the server")
	d := roughDatabase(t)
	locktest.RunFrozen(t, locktest.Frozen{
		Open:   func(t *testing.T, of time.Duration) *farsync.Store { return d.open(t, ttl(of)) },
		Long:   3 * 2 * soon, // a third of it is more than a hang
		Short:  3 * time.Second,
		Freeze: d.server.Pause,
		Resume: d.server.Resume,
		Late:   soon,
	})
}

// TestClockThatIsSet: by less than two thirds of the TTL, forward or back, it gives no lock to two, and tokens rise. By more, while
// the holder is cut off, it does. A guard keeps them apart also then.
func TestClockThatIsSet(t *testing.T) {
	suite.Long(t, suite.MySQL, "sets the server's clock")
	d := roughDatabase(t)
	const of = 8 * time.Second
	t.Cleanup(func() { require.NoError(t, d.server.StepClock(0)) })
	store, other := d.open(t, ttl(of)), d.open(t, ttl(of))
	first := lock(t, store, "/clock")
	for _, by := range []time.Duration{of / 2, -of} {
		require.NoError(t, d.server.StepClock(by))
		d.exec(t, "CALL farsync_bury('[]')")
		_, err := farsync.NewMutex(other, "/clock").TryLock(within(t, soon))
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.NoError(t, first.Err())
	}
	require.NoError(t, first.Release())
	second := lock(t, other, "/clock")
	require.Greater(t, second.Token(), first.Token(), "revisions go on from the last")
	require.NoError(t, second.Release())

	proxy := embedtest.NewProxy(t, d.server.Endpoint())
	far := openAt(t, d.through(proxy.Addr()), ttl(time.Hour)) // so long that it cannot have ended by itself
	cut := lock(t, far, "/clock")
	proxy.Cut()
	t.Cleanup(proxy.Heal)
	tx := d.begin(t)
	require.NoError(t, mysql.Guard(within(t, soon), tx, cut))
	require.NoError(t, d.server.StepClock(2*time.Hour))
	got := locktest.LockBehind(t, other, "/clock")
	locktest.AwaitQueue(t, d.open(t, ttl(of)), "/clock", 2)
	d.exec(t, "CALL farsync_bury('[]')")
	require.Empty(t, got, "the guarded transaction goes on")
	require.NoError(t, tx.Commit())
	next := locktest.Got(t, got)
	require.NoError(t, cut.Err(), "it knows of nothing")
	require.Greater(t, next.Token(), cut.Token())
	late := d.begin(t)
	require.ErrorIs(t, mysql.Guard(within(t, soon), late, cut), farsync.ErrLost)
	require.NoError(t, next.Release())
}

// TestQueueThatWasRemovedUnderAClockThatIsBehind: none that joins comes before what is there.
func TestQueueThatWasRemovedUnderAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	_, in := d.session(t, d.dsn(), time.Hour)
	first := exclusive(t, in, "/removed")
	d.exec(t, "UPDATE farsync_entries SET revision = revision + ?", time.Hour.Microseconds()) // of a clock that was ahead
	d.exec(t, "DELETE FROM farsync_queues")
	for n := range 2 {
		v, err := in.Create(within(t, soon), driver.Entry{
			Queue: "/removed", ID: in.NewID("/removed", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
		}, 0)
		require.NoError(t, err)
		require.Len(t, v.Entries, 1+n)
		require.Equal(t, first.ID, v.Entries[0].ID)
	}
}

// TestSettingsOfTheServerMakeNoDifference, nor do those of the DSN.
func TestSettingsOfTheServerMakeNoDifference(t *testing.T) {
	suite.Long(t, suite.MySQL, "changes the settings of a server of its own")
	d := roughDatabase(t)
	for name, value := range map[string]any{
		on.isolation: "SERIALIZABLE", "autocommit": 0, "time_zone": "+05:45", "wait_timeout": 5, "collation_server": "utf8mb4_german2_ci",
		"sql_mode": "ANSI,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,NO_ZERO_DATE,ONLY_FULL_GROUP_BY", "completion_type": "CHAIN",
		"foreign_key_checks": 0,
	} {
		d.setGlobal(t, name, value)
	}
	fresh := bareDatabase(t, d.server)
	dsn := fresh.dsn() + "?multiStatements=true&clientFoundRows=true&parseTime=true&loc=Local&time_zone=%27-03%3A00%27&autocommit=0&rejectReadOnly=true"
	require.NoError(t, mysql.Migrate(within(t, soon), dsn))
	one, two := openAt(t, dsn, ttl(10*time.Second)), openAt(t, dsn, ttl(10*time.Second))
	first := lock(t, one, "/set")
	got := locktest.LockBehind(t, two, "/set")
	locktest.AwaitQueue(t, one, "/set", 2)
	require.NoError(t, first.Release())
	second := locktest.Got(t, got)
	require.Greater(t, second.Token(), first.Token())
	require.NoError(t, second.Release())

	w, err := farsync.NewRWMutex(one, "/rw").Lock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, w.Release())
	permits := farsync.NewSemaphore(one, "/permits", 3)
	p, err := permits.Acquire(within(t, soon), 2)
	require.NoError(t, err)
	_, err = farsync.NewSemaphore(two, "/permits", 3).TryAcquire(within(t, soon), 2)
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.NoError(t, p.Release())
}

// TestWhatIsTakenBackLetsNoneIn: at READ UNCOMMITTED a plain look sees a DELETE before its COMMIT, which may never come.
func TestWhatIsTakenBackLetsNoneIn(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	_, in := d.session(t, d.dsn()+"?"+on.isolation+"=%27READ-UNCOMMITTED%27", time.Hour)
	first, second := exclusive(t, in, "/dirty"), exclusive(t, in, "/dirty")
	tx := d.begin(t)
	_, err := tx.ExecContext(within(t, soon), "DELETE FROM farsync_entries WHERE id = ?", first.ID)
	require.NoError(t, err)
	v, err := in.Ahead(within(t, soon), second, true)
	require.NoError(t, err)
	require.Len(t, v.Entries, 1)
	require.Equal(t, first.ID, v.Entries[0].ID)
	require.NoError(t, tx.Rollback())
}

// TestTooManyConnections are waited for, and what is held is renewed.
func TestTooManyConnections(t *testing.T) {
	suite.Long(t, suite.MySQL, "fills a server of its own")
	d := roughDatabase(t)
	store := d.open(t, ttl(10*time.Second))
	lease := lock(t, store, "/many")
	d.setGlobal(t, "max_connections", 10)
	var conns []*sql.Conn
	full := connect(t, d.dsn())
	for {
		c, err := full.Conn(within(t, soon))
		if err != nil {
			require.ErrorContains(t, err, "Too many connections")
			break
		}
		conns = append(conns, c)
	}
	openHears(t, d.dsn(), "Too many connections")
	require.NoError(t, lease.Err())
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
	require.NoError(t, full.Close())
	require.NoError(t, lease.Release())
	require.NoError(t, lock(t, d.open(t, nil), "/many").Release())
}

// A listened is a driver that calls heard when an attempt to open a session fails with words of the server.
type listened struct {
	driver.Service
	words string
	heard func()
}

func (l listened) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := l.Service.Open(ctx, ttl)
	if err != nil && strings.Contains(err.Error(), l.words) {
		l.heard()
	}
	return in, err
}

// openHears opens a Store until the server has said words, and checks that the error, of a caller who gives up then, has them.
func openHears(t *testing.T, dsn, words string) {
	t.Helper()
	service, err := mysql.NewService(dsn, nil)
	require.NoError(t, err)
	ctx, giveUp := context.WithCancel(within(t, soon))
	defer giveUp()
	_, err = farsync.Open(ctx, listened{service, words, giveUp}, nil)
	require.ErrorIs(t, err, farsync.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, words)
}

// TestReadOnlyServerIsWaitedFor: a replica may be promoted.
func TestReadOnlyServerIsWaitedFor(t *testing.T) {
	suite.Long(t, suite.MySQL, "makes a server of its own read-only")
	d := roughDatabase(t)
	user := "u" + d.name[:8]
	d.exec(t, "CREATE USER "+user)
	d.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON "+d.name+".* TO "+user)
	dsn := user + "@tcp(" + d.server.Endpoint() + ")/" + d.name
	store := openAt(t, dsn, ttl(20*time.Second))
	d.exec(t, "SET GLOBAL read_only = 1")
	openHears(t, dsn, "read-only")
	got := locktest.LockBehind(t, store, "/read-only")
	require.Empty(t, got)
	d.exec(t, "SET GLOBAL read_only = 0")
	require.NoError(t, locktest.Got(t, got).Release())
}

// TestReadOnlyServerStopsAdministratorsToo: read_only does not stop them by itself, and another server may have become the primary.
func TestReadOnlyServerStopsAdministratorsToo(t *testing.T) {
	suite.Long(t, suite.MySQL, "changes the settings of a server of its own")
	d := roughDatabase(t)
	service, in := d.session(t, d.dsn(), time.Hour)
	d.setGlobal(t, "read_only", 1)
	d.exec(t, "CREATE TABLE written (n int)") // it may do what it likes
	_, open := service.Open(within(t, soon), time.Hour)
	_, create := in.Create(within(t, soon), driver.Entry{
		Queue: "/read-only", ID: in.NewID("/read-only", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
	}, 0)
	for _, err := range []error{open, create, in.Renew(within(t, soon), nil)} {
		require.ErrorContains(t, err, "read-only")
		require.Equal(t, driver.NotDone, service.Outcome(err))
	}
}

// TestLockedRowsAreNotDone: a step that meets a deadlock, or waits for a row for too long, was rolled back, and says so.
func TestLockedRowsAreNotDone(t *testing.T) {
	suite.Long(t, suite.MySQL, "a deadlock has to come before a wait for a row ends after 1 s")
	t.Parallel()
	d := newDatabase(t)
	service, err := mysql.NewService(d.dsn(), nil)
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), time.Minute)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = in.Close(context.WithoutCancel(t.Context()))
		require.NoError(t, service.Close())
	})
	create := func() (driver.View, error) {
		return in.Create(within(t, soon), driver.Entry{Queue: "/q", ID: in.NewID("/q", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1}, 0)
	}
	v, err := create()
	require.NoError(t, err)

	// The other transaction has the head, and more to lose; then each wants what the other has.
	d.exec(t, "CREATE TABLE heavy (n int)")
	tx := d.begin(t)
	for range 20 {
		_, err = tx.ExecContext(within(t, soon), "INSERT INTO heavy VALUES (1), (2), (3)")
		require.NoError(t, err)
	}
	_, err = tx.ExecContext(within(t, soon), "SELECT 1 FROM farsync_entries WHERE id = ? FOR UPDATE", v.Self.ID)
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() { // joined below
		_, err := in.SetRegister(within(t, soon), "/q", "value", 0, v.Self)
		failed <- err
	}()
	require.Eventually(t, func() bool {
		return running(t, d, "%farsync_entries%LOCK IN SHARE MODE%") > 0
	}, soon, time.Millisecond)
	_, err = tx.ExecContext(within(t, soon), "SELECT last FROM farsync_queues WHERE path = '/q' FOR UPDATE")
	require.NoError(t, err)
	err = locktest.Got(t, failed)
	require.ErrorContains(t, err, "Deadlock")
	require.Equal(t, driver.NotDone, service.Outcome(err))

	_, err = create() // the row is still locked
	require.ErrorContains(t, err, "Lock wait timeout")
	require.Equal(t, driver.NotDone, service.Outcome(err))
	require.NoError(t, in.Renew(within(t, soon), nil))
	require.NoError(t, tx.Rollback())
	_, err = in.SetRegister(within(t, soon), "/q", "value", 0, v.Self)
	require.NoError(t, err)
	require.Equal(t, 1, ask[int](t, d, "SELECT COUNT(*) FROM farsync_entries"))
}

// TestRequestsOfALock: a free lock takes one request and its release another, and Stores that hold and wait for nothing send nothing but
// renewals. One that waits is served with about as many requests among 64 as among 8: TestLooksDoNotGrowWithTheQueue of sqlstore
// counts them where the machine has no part in it.
func TestRequestsOfALock(t *testing.T) {
	suite.Long(t, suite.MySQL, "counts the requests of a crowd that polls")
	d := roughDatabase(t)
	var last int
	since := func() int {
		now := d.status(t, "Questions")
		defer func() { last = now }()
		return now - last - 1 // that
	}
	store := d.open(t, ttl(time.Hour))
	require.NoError(t, lock(t, store, "/traffic").Release())
	d.setGlobal(t, "max_connections", 600)
	stores := make([]*farsync.Store, 64)
	for i := range stores {
		stores[i] = d.open(t, ttl(time.Hour))
	}
	const times = 20
	onDisk := d.status(t, "Created_tmp_disk_tables")
	since()
	for range times {
		require.NoError(t, lock(t, store, "/traffic").Release())
	}
	require.Equal(t, 2*times, since())
	require.Equal(t, onDisk, d.status(t, "Created_tmp_disk_tables"), "no step makes a table on the disk of the server")

	each := map[int]float64{}
	for _, waiters := range []int{2, 8, 64} {
		lease := lock(t, store, "/traffic")
		var all sync.WaitGroup
		for _, store := range stores[:waiters] {
			got := locktest.LockBehind(t, store, "/traffic")
			all.Go(func() {
				if err := locktest.Got(t, got).Release(); err != nil {
					t.Error(err)
				}
			})
		}
		require.Eventually(t, func() bool {
			return ask[int](t, d, "SELECT COUNT(*) FROM farsync_entries") == waiters+1
		}, soon, time.Millisecond)
		since()
		begun := time.Now()
		require.NoError(t, lease.Release())
		all.Wait()
		each[waiters] = float64(since()) / float64(waiters)
		t.Logf("%d waiters: %.1f requests each once the lock is free, %.0f/s", waiters, each[waiters], float64(waiters)/time.Since(begun).Seconds())
	}
	require.Less(t, each[64], 3*each[8])
}

// TestSettingsOfTheDSNMakeNoDifference, in whatever case their names are: to the server that makes none.
func TestSettingsOfTheDSNMakeNoDifference(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{
		"completion_type=1", "completion_type=2", "Completion_Type=%27CHAIN%27", "foreign_key_checks=0", "FOREIGN_KEY_CHECKS=0", "AUTOCOMMIT=0",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			for range 4 { // settings are sent in no order
				store := openAt(t, d.dsn()+"?"+setting, ttl(20*time.Second))
				other := d.open(t, ttl(20*time.Second))
				lease := lock(t, store, "/set")
				_, err := farsync.NewMutex(other, "/set").TryLock(within(t, soon))
				require.ErrorIs(t, err, farsync.ErrLocked)
				require.NoError(t, lease.Err())
				require.NoError(t, lease.Release())
				require.NoError(t, lock(t, other, "/set").Release())
				_ = lock(t, store, "/kept")
				require.NoError(t, store.Close())
				require.Zero(t, ask[int](t, d, "SELECT COUNT(*) FROM farsync_entries"), "the end of a session is that of its entries")
				require.NoError(t, other.Close())
			}
		})
	}
}

// TestCharactersOfTheDSNMakeNoDifference: in its set the server would take the backslash that the client puts before a quote for half of a
// letter, and what follows for a statement.
func TestCharactersOfTheDSNMakeNoDifference(t *testing.T) {
	t.Parallel()
	for charset, half := range map[string]string{"gbk": "\xbf", "sjis": "\x83", "cp932": "\x83", "big5": "\xa5", "utf8mb4": "\xbf"} {
		t.Run(charset, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			_, in := d.session(t, d.dsn()+"?charset="+charset, time.Hour)
			value := []byte(half + "', 1); -- ")
			v, err := in.Create(within(t, soon), driver.Entry{
				Queue: "/characters", ID: in.NewID("/characters", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1, Value: value,
			}, 0)
			require.NoError(t, err)
			_, err = in.Tell(within(t, soon), v.Self, "für dich")
			require.NoError(t, err)
			e, err := in.Find(within(t, soon), v.Self)
			require.NoError(t, err)
			require.Equal(t, value, e.Value)
			words, err := in.Heard(within(t, soon), v.Self)
			require.NoError(t, err)
			require.Equal(t, "für dich", words)
		})
	}
}
