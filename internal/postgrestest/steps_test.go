package postgrestest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// count returns what a query counts.
func (d database) count(t testing.TB, query string, args ...any) (n int) {
	require.NoError(t, d.admin.QueryRow(within(t, soon), query, args...).Scan(&n))
	return n
}

// awaitBlocked waits until a statement that contains the words waits for a lock. A commit that notifies waits for its
// turn among those of all databases of the server, which is a lock of an object: that says nothing.
func (d database) awaitBlocked(t testing.TB, words string) {
	require.Eventually(t, func() bool {
		return d.count(t, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event <> 'object' AND position($1 IN query) > 0`, words) > 0
	}, soon, time.Millisecond)
}

// TestDeadProcessIsBuriedWhileItsJoinWaits: the server may not notice that the client of a statement has gone.
func TestDeadProcessIsBuriedWhileItsJoinWaits(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, time.Hour)
	held := d.foreign(t, "/held", "dead")
	tx := d.begin(t)
	require.NoError(t, postgres.LockTx(within(t, soon), tx, "/busy"))
	ctx, cancel := context.WithCancel(within(t, soon))
	var join errgroup.Group
	join.Go(func() error {
		_, err := d.admin.Exec(ctx, "SELECT * FROM farsync_create('/busy', 'joins', 1, 'dead', 'exclusive', 1, NULL, 0)")
		return err
	})
	d.awaitBlocked(t, "farsync_create")
	d.exec(t, "UPDATE farsync_sessions SET deadline = 0 WHERE id = 'dead'")
	lease, err := farsync.NewMutex(store, "/held").TryLock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, lease.Release())
	require.Zero(t, d.count(t, "SELECT count(*) FROM farsync_entries WHERE id = $1", held.ID))
	require.NoError(t, tx.Rollback(within(t, soon)))
	require.NoError(t, join.Wait())
	require.Zero(t, d.count(t, "SELECT count(*) FROM farsync_entries"), "a session that is over gets no entry")
	cancel()
}

// TestHeadStaysUntilTheRegisterIsWritten: whoever is behind it would come in by the size of before.
func TestHeadStaysUntilTheRegisterIsWritten(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	head := d.foreign(t, "/permits", "other")
	tx := d.begin(t)
	var version int64
	require.NoError(t, tx.QueryRow(within(t, soon), "SELECT * FROM farsync_write('/permits', '5 5', 0, $1)", head.ID).Scan(&version))
	require.EqualValues(t, 1, version)
	other := d.begin(t)
	_, err := other.Exec(within(t, soon), "SET LOCAL lock_timeout = '100ms'")
	require.NoError(t, err)
	_, err = other.Exec(within(t, soon), "DELETE FROM farsync_entries WHERE id = $1", head.ID)
	refused, ok := errors.AsType[*pgconn.PgError](err)
	require.True(t, ok, err)
	require.Equal(t, "55P03", refused.Code, "the lock is not available")
	require.NoError(t, other.Rollback(within(t, soon)))
	require.NoError(t, tx.Commit(within(t, soon)))
	d.delete(t, head)
	require.Zero(t, d.count(t, "SELECT count(*) FROM farsync_write('/permits', '6 6', 1, $1)", head.ID))
}

// TestNewcomerIsNotShownWhatOthersAreRemoving: a session is over before all of its entries have gone.
func TestNewcomerIsNotShownWhatOthersAreRemoving(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, time.Hour)
	d.crowd(t, 5000)
	d.exec(t, "DELETE FROM farsync_sessions WHERE id = 'dead'")
	require.Equal(t, 4000, d.count(t, "SELECT count(*) FROM farsync_entries"))
	tx := d.begin(t)
	_, err := tx.Exec(within(t, soon), "SELECT farsync_sweep(1000)")
	require.NoError(t, err)
	var try errgroup.Group
	try.Go(func() error {
		lease, err := farsync.NewMutex(store, "/crowd").TryLock(within(t, soon))
		if err == nil {
			err = lease.Release()
		}
		return err
	})
	d.awaitBlocked(t, "farsync_bury")
	require.NoError(t, tx.Commit(within(t, soon)))
	require.NoError(t, try.Wait())
}

// TestCloseDoesNotEndWhatAllOthersHaveLeft: it has one attempt, and no more than a third of the TTL.
func TestCloseDoesNotEndWhatAllOthersHaveLeft(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, time.Hour)
	d.crowd(t, 5000)
	d.exec(t, "DELETE FROM farsync_sessions WHERE id = 'dead'")
	require.NoError(t, store.Close())
	require.GreaterOrEqual(t, d.count(t, "SELECT count(*) FROM farsync_entries"), 3000)
	require.Equal(t, 1, d.count(t, "SELECT count(*) FROM farsync_ended"))
}

// TestStatementsOfEarlierStores: each of them is called once, and has to leave nothing.
func TestStatementsOfEarlierStores(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	for _, statement := range []string{
		"SELECT farsync_bury()", "SELECT farsync_renew('lives')", "SELECT farsync_sweep() FROM farsync_bury(1)",
	} {
		d.exec(t, "INSERT INTO farsync_sessions VALUES ('lives', farsync_begin_1(3600000000), 3600000000) ON CONFLICT DO NOTHING")
		d.crowd(t, 5000)
		d.exec(t, "UPDATE farsync_sessions SET deadline = 0 WHERE id = 'dead'")
		d.exec(t, statement)
		require.Zero(t, d.count(t, "SELECT count(*) FROM farsync_entries"), statement)
		require.Zero(t, d.count(t, "SELECT count(*) FROM farsync_ended"), statement)
	}
}

// TestTriggersServeWhatFollowsAJoinAndALeave in one transaction: those two do without.
func TestTriggersServeWhatFollowsAJoinAndALeave(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	own, other := d.foreign(t, "/a", "own"), d.foreign(t, "/a", "other")
	notified := d.notified(t)
	require.Zero(t, notified())
	tx := d.begin(t)
	for _, statement := range []string{
		"SELECT farsync_join('/b', 'b.', 2, 'own', 'exclusive', 1, NULL, 0)",
		"INSERT INTO farsync_entries (id, queue, session) VALUES ('c', '/b', 'other')", // which takes a turn
		"SELECT farsync_leave('b.')",                              // tells other, which has no key
		"DELETE FROM farsync_entries WHERE id = '" + own.ID + "'", // and once more
		"INSERT INTO farsync_entries (id, queue, session) VALUES ('b.', '/b', 'own')",
	} {
		_, err := tx.Exec(within(t, soon), statement)
		require.NoError(t, err, statement)
	}
	require.NoError(t, tx.Commit(within(t, soon)))
	require.Equal(t, 2, notified())
	require.Equal(t, 3, d.count(t, "SELECT count(*) FROM farsync_entries WHERE revision > 1"))
	d.delete(t, other)
}

// TestMigrateBesideStoresThatClose: a deadlock would leave what they hold for a TTL.
func TestMigrateBesideStoresThatClose(t *testing.T) {
	suite.Long(t, suite.Postgres, "Stores race with migrations")
	t.Parallel()
	d := newServer(t)
	ctx, cancel := context.WithCancel(within(t, soon))
	defer cancel()
	var stores errgroup.Group
	for _, path := range []string{"/a", "/b", "/c"} {
		stores.Go(func() error {
			for ctx.Err() == nil {
				store, err := postgres.Open(within(t, soon), d.config(t), d.options(time.Minute))
				if err != nil {
					return err
				}
				if _, err = farsync.NewMutex(store, path).Lock(within(t, soon)); err == nil {
					err = store.Close()
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 60 {
		require.NoError(t, postgres.Migrate(within(t, soon), d.config(t).ConnConfig))
	}
	cancel()
	require.NoError(t, stores.Wait())
}

// kept begins a transaction that keeps an entry, as one with a guard does.
func (d database) kept(t testing.TB, entries ...driver.Entry) pgx.Tx {
	tx := d.begin(t)
	for _, e := range entries {
		_, err := tx.Exec(within(t, soon), "SELECT FROM farsync_entries WHERE id = $1 FOR SHARE", e.ID)
		require.NoError(t, err)
	}
	return tx
}

// TestMigrateBesideAGuard: what it waits for takes as long as the guard's transaction, and sessions are renewed meanwhile.
func TestMigrateBesideAGuard(t *testing.T) {
	suite.Long(t, suite.Postgres, "waits for renewals of a TTL of 1 s, which must be in time")
	t.Parallel()
	d := newServer(t)
	renewed := make(chan bool, 1)
	d.traced(t, time.Second, &farsync.Trace{Session: func(h farsync.TraceSession) {
		if h.State == farsync.StateConnected && !h.Opened {
			select {
			case renewed <- true:
			default:
			}
		}
	}})
	held := d.foreign(t, "/held", "other")
	guard := d.kept(t, held)
	var all errgroup.Group
	all.Go(func() error {
		_, err := d.admin.Exec(within(t, soon), "DELETE FROM farsync_entries WHERE id = $1", held.ID)
		return err
	})
	d.awaitBlocked(t, "DELETE FROM farsync_entries")
	all.Go(func() error { return postgres.Migrate(within(t, soon), d.config(t).ConnConfig) })
	d.awaitBlocked(t, "7236548104")
	for range 12 { // in three times the TTL
		select {
		case <-renewed:
		case <-time.After(soon):
			require.Fail(t, "the session is not renewed")
		}
	}
	require.NoError(t, guard.Commit(within(t, soon)))
	require.NoError(t, all.Wait())
}

// TestMigrateBesideAGuardAndAClose: a Store that closes has what a release waits for, and would wait for Migrate, which waits for the release.
func TestMigrateBesideAGuardAndAClose(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	entries := []driver.Entry{d.foreign(t, "/a", "closes"), d.foreign(t, "/b", "closes")}
	slices.SortFunc(entries, func(a, b driver.Entry) int { return strings.Compare(a.ID, b.ID) })
	guard := d.kept(t, entries[1])
	var all errgroup.Group
	exec := func(statement string, args ...any) {
		all.Go(func() error {
			_, err := d.admin.Exec(within(t, soon), statement, args...)
			return err
		})
	}
	exec("SELECT farsync_end('closes')")
	d.awaitBlocked(t, "farsync_end")
	exec("DELETE FROM farsync_entries WHERE id = $1", entries[0].ID)
	d.awaitBlocked(t, "DELETE FROM farsync_entries")
	all.Go(func() error { return postgres.Migrate(within(t, soon), d.config(t).ConnConfig) })
	d.awaitBlocked(t, "7236548104")
	require.NoError(t, guard.Commit(within(t, soon)))
	require.NoError(t, all.Wait())
}

// TestNewcomersThatWaitDoNotWaitForEachOther: guards keep entries of many sessions that are over.
func TestNewcomersThatWaitDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	var entries []driver.Entry
	for i := range 15 {
		entries = append(entries, d.foreign(t, "/kept", fmt.Sprint("dead-", i)))
	}
	guard := d.kept(t, entries...)
	d.exec(t, "DELETE FROM farsync_sessions")
	require.Equal(t, 15, d.count(t, "SELECT count(*) FROM farsync_ended"))
	times := 20
	if suite.More(t, suite.Postgres) {
		times = 200
	}
	var all errgroup.Group
	for range 3 {
		all.Go(func() error {
			for range times {
				if _, err := d.admin.Exec(within(t, soon), "SELECT farsync_bury(1000, true)"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	require.NoError(t, guard.Commit(within(t, soon)))
	require.Equal(t, 15, d.count(t, "SELECT farsync_bury(1000, true)"))
}
