package mysqltest_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

func TestCrowds(t *testing.T) {
	suite.Long(t, suite.MySQL, "crowds of ten thousand, beside sessions of a TTL of 1 s")
	t.Parallel()
	locktest.RunCrowds(t, func(t testing.TB) locktest.Crowded {
		d := newDatabase(t)
		return locktest.Crowded{Many: on.crowd, Open: func(t testing.TB, of time.Duration) *farsync.Store {
			return d.open(t, ttl(of))
		}, Crowd: d.crowd, Adopt: func(t testing.TB) {
			d.exec(t, "UPDATE farsync_entries SET session = (SELECT id FROM farsync_sessions WHERE id <> 'dead')")
		}, Dies: func(t testing.TB) {
			d.exec(t, "UPDATE farsync_sessions SET deadline = 1 WHERE id = 'dead'")
		}}
	})
}

func (d database) crowd(t testing.TB, n int) {
	d.exec(t, "INSERT IGNORE INTO farsync_sessions VALUES ('dead', ?, 1000000)", time.Now().Add(time.Hour).UnixMicro())
	d.exec(t, "INSERT IGNORE INTO farsync_queues VALUES ('/crowd', 0)")
	d.exec(t, fmt.Sprintf(`INSERT INTO farsync_entries (id, queue, session, kind, revision)
		SELECT UUID(), '/crowd', 'dead', 'exclusive', last + seq FROM farsync_queues, %s WHERE path = '/crowd'`, numbers(n)))
	d.exec(t, "UPDATE farsync_queues SET last = last + ? WHERE path = '/crowd'", n)
}

// buryOnce does what a Store does to end sessions that have run out, once, and returns the rows that it shows.
func (d database) buryOnce(t *testing.T) (shown []string) {
	t.Helper()
	rows, err := d.admin.QueryContext(within(t, soon), "CALL "+buries)
	require.NoError(t, err)
	for rows.Next() {
		var text string
		require.NoError(t, rows.Scan(&text))
		shown = append(shown, text)
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	return shown
}

// TestBurialRemovesAThousandEntries at most, and says that there are more. The session cannot be renewed any more from
// the first time on. A renewal of another session removes as many.
func TestBurialRemovesAThousandEntries(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	left := func() int { return ask[int](t, d, "SELECT COUNT(*) FROM farsync_entries") }
	d.crowd(t, 3500)
	require.Empty(t, d.buryOnce(t), "it lives")
	d.exec(t, "UPDATE farsync_sessions SET deadline = 1 WHERE id = 'dead'")
	require.Equal(t, []string{"more"}, d.buryOnce(t))
	require.Equal(t, 2500, left())
	require.Equal(t, 0, ask[int](t, d, "SELECT deadline FROM farsync_sessions"))
	d.exec(t, "CALL farsync_open('live', 3600000000)")
	d.exec(t, "CALL farsync_renew_7('live')")
	require.Equal(t, 1500, left())
	require.Equal(t, []string{"more"}, d.buryOnce(t))
	require.Equal(t, 500, left())
	require.Empty(t, d.buryOnce(t))
	require.Equal(t, "live", ask[string](t, d, "SELECT GROUP_CONCAT(id) FROM farsync_sessions"))
	require.Zero(t, left())
}

// TestBurialLocksWhatItRemoves and no other entry of the session, in any index.
func TestBurialLocksWhatItRemoves(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.openSteps(t)
	d.crowd(t, 2500)
	d.exec(t, "UPDATE farsync_sessions SET deadline = 1 WHERE id = 'dead'")
	defer d.openStep(t, "bury_one_3('dead', 1000, @removed, @is_busy)")()
	for _, index := range []string{"PRIMARY", "farsync_entries_queue", "farsync_entries_session"} {
		other, err := d.admin.BeginTx(within(t, soon), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		require.NoError(t, err)
		var free int
		require.NoError(t, other.QueryRowContext(within(t, soon), `SELECT COUNT(*) FROM farsync_entries FORCE INDEX (`+index+`)
			WHERE id >= '' AND queue = '/crowd' AND session = 'dead' FOR UPDATE SKIP LOCKED`).Scan(&free))
		require.NoError(t, other.Rollback())
		require.Equal(t, 1500, free, index)
	}
}

// TestWhatIsLeftIsEndedBeforeWhatGuardsKeep: a step looks at 64 sessions, and guards keep more.
func TestWhatIsLeftIsEndedBeforeWhatGuardsKeep(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.die(t, 70)
	d.crowd(t, 2500)
	d.exec(t, "UPDATE farsync_sessions SET deadline = 1 WHERE id = 'dead'")
	tx := d.keepDead(t)
	for len(d.buryOnce(t)) > 0 {
	}
	require.Equal(t, 70, ask[int](t, d, "SELECT COUNT(*) FROM farsync_entries"))
	require.Equal(t, 70, ask[int](t, d, "SELECT COUNT(*) FROM farsync_sessions"))
	require.NoError(t, tx.Commit())
	for len(d.buryOnce(t)) > 0 {
	}
	require.Zero(t, ask[int](t, d, "SELECT COUNT(*) FROM farsync_sessions"))
}

// TestTryBesideWhatEndsASession: the transaction of another client has locked the row of a session that has run out. It
// ends the session, renews it, or creates an entry. Until that transaction ends nobody knows whether the entries of the
// session hold, so a Try does not say that they do.
func TestTryBesideWhatEndsASession(t *testing.T) {
	t.Parallel()
	const locked = "SELECT 1 FROM farsync_sessions WHERE id = 'dead' "
	for _, row := range []struct {
		name, begins, ends string
		want               error
	}{
		{"it is ended", locked + "FOR UPDATE", "DELETE FROM farsync_sessions WHERE id = 'dead'", nil},
		{"some of it is removed", locked + "FOR UPDATE", "UPDATE farsync_sessions SET deadline = 0 WHERE id = 'dead'", nil},
		{"it is renewed", locked + "FOR UPDATE", "UPDATE farsync_sessions SET deadline = deadline * 2 WHERE id = 'dead'", farsync.ErrLocked},
		{"it creates an entry", locked + "LOCK IN SHARE MODE", "DO 0", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			store := d.open(t, ttl(time.Hour))
			service, in := d.session(t, d.dsn(), time.Hour)
			d.crowd(t, 3)
			// It has run out by a moment, so that twice the deadline is far ahead.
			d.exec(t, "UPDATE farsync_sessions SET deadline = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) WHERE id = 'dead'")
			tx := d.begin(t)
			_, err := tx.ExecContext(within(t, soon), row.begins)
			require.NoError(t, err)

			_, err = farsync.NewMutex(store, "/crowd").TryLock(within(t, 300*time.Millisecond))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, farsync.ErrLocked)
			_, err = in.Ahead(within(t, soon), driver.Entry{Queue: "/crowd", Kind: driver.Exclusive, Units: 1}, true)
			require.Equal(t, driver.NotDone, service.Outcome(err), err)
			v, err := in.List(within(t, soon), "/crowd", 0)
			require.NoError(t, err)
			require.Len(t, v.Entries, 3, "a list decides nothing")
			require.NoError(t, lock(t, store, "/other").Release())

			tried := make(chan error, 1)
			go func() { // joined below
				lease, err := farsync.NewMutex(store, "/crowd").TryLock(within(t, soon))
				if err == nil {
					err = lease.Release()
				}
				tried <- err
			}()
			_, err = tx.ExecContext(within(t, soon), row.ends)
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
			require.ErrorIs(t, locktest.Got(t, tried), row.want)
		})
	}
}

// TestTryBesideAGuardSaysLockedWhileOthersEnd: a guard keeps the entry of a session that has died, and a Try says at once
// that it is locked. The row of another session is locked as well, which has no entry in the queue.
func TestTryBesideAGuardSaysLockedWhileOthersEnd(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, ttl(time.Hour))
	d.die(t, 2)
	for _, statement := range []string{
		"SELECT 1 FROM farsync_entries WHERE id = 'entry-1' LOCK IN SHARE MODE", "SELECT 1 FROM farsync_sessions WHERE id = 'dead-2' FOR UPDATE",
	} {
		_, err := d.begin(t).ExecContext(within(t, soon), statement)
		require.NoError(t, err)
	}
	for range 3 {
		_, err := farsync.NewMutex(store, "/dead/1").TryLock(within(t, soon))
		require.ErrorIs(t, err, farsync.ErrLocked)
	}
}
