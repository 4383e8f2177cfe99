//go:build unix

package sqlite

import (
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/machine"
	"github.com/farsync/farsync/internal/sqlstore"
)

// step runs a statement in one transaction, as a session does, and returns the first column of its rows.
func (s *session) step(t *testing.T, statement string, args ...any) []string {
	t.Helper()
	rows, err := sqlstore.Collect(within(t, soon), s.Write, func(rows sqlstore.Rows) (text string, err error) {
		if statement == "renew" || statement == "open" {
			return text, rows.Scan(&text, new(string))
		}
		return text, rows.Scan(&text)
	}, statement, args...)
	require.NoError(t, err)
	return rows
}

// crowd puts a session into the file that has entries in a queue.
func (o operator) crowd(t *testing.T, session, queue, kind string, n int) {
	o.exec(t, "INSERT OR IGNORE INTO farsync_sessions VALUES (?, ?, ?, 1000000, 1)", session, machine.Boot(), machine.Clock()+int64(time.Hour))
	o.exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 WHERE ?1 > 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		INSERT INTO farsync_entries (id, queue, session, kind) SELECT hex(randomblob(16)), ?2, ?3, ?4 FROM n`, n, queue, session, kind)
}

func (o operator) ask(t *testing.T, question string, args ...any) (answer int) {
	require.NoError(t, o.db.QueryRowContext(within(t, soon), question, args...).Scan(&answer))
	return answer
}

func (o operator) runsOut(t *testing.T, session string) {
	require.EqualValues(t, 1, o.exec(t, "UPDATE farsync_sessions SET deadline = ? WHERE id = ?", machine.Clock()-1, session))
}

// TestTransactionRemovesAThousandEntries at most, the newest, whichever statement ends the session. While one runs all other
// sessions wait to write their renewals.
func TestTransactionRemovesAThousandEntries(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"exclusive", "permit"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file := newFile(t)
			in, by, admin := newSessionIn(t, file, nil), newSessionIn(t, file, nil), newOperator(t, file)
			left := func(want int) {
				t.Helper()
				require.Equal(t, want, admin.ask(t, "SELECT count(*) FROM farsync_entries"))
				require.Equal(t, 1, admin.ask(t, "SELECT coalesce(min(revision), 0) = (SELECT coalesce(min(revision), 0) FROM oldest) FROM farsync_entries"))
			}
			admin.exec(t, "INSERT INTO farsync_registers VALUES ('/crowd', '9000 9000', 1)")
			admin.crowd(t, "dead", "/crowd", kind, 3500)
			admin.exec(t, "CREATE TABLE oldest AS SELECT min(revision) AS revision FROM farsync_entries")
			require.Empty(t, in.step(t, "bury", "[]"), "it lives")
			left(3500)
			admin.runsOut(t, "dead")
			require.Equal(t, []string{in.ID, in.ID}, in.step(t, "renew", in.ID))
			require.Equal(t, []string{"other", "other"}, by.step(t, "open", "other", int64(time.Hour), true))
			left(3500)
			require.Equal(t, 1, admin.ask(t, "SELECT deadline = 0 FROM farsync_sessions WHERE id = 'dead'"))
			for _, n := range []int{2500, 1500, 500} {
				require.Equal(t, []string{"more"}, in.step(t, "bury", "[]"))
				left(n)
			}
			require.Empty(t, in.step(t, "bury", "[]"))
			require.Zero(t, admin.ask(t, "SELECT count(*) FROM farsync_entries"))
			require.Zero(t, admin.ask(t, "SELECT count(*) FROM farsync_sessions WHERE id = 'dead'"))
			require.Equal(t, []string{in.ID}, in.step(t, "renew", in.ID))

			admin.exec(t, "DROP TABLE oldest")
			admin.crowd(t, in.ID, "/crowd", kind, 2500)
			admin.crowd(t, "beside", "/crowd", kind, 1)
			admin.exec(t, "CREATE TABLE oldest AS SELECT min(revision) AS revision FROM farsync_entries")
			require.Equal(t, []string{in.ID, in.ID}, in.step(t, "end", in.ID))
			left(2501)
			for _, n := range []int{1501, 501} {
				require.Equal(t, []string{in.ID}, in.step(t, "rest", in.ID))
				left(n)
			}
			require.Empty(t, in.step(t, "rest", in.ID))
			require.Equal(t, 1, admin.ask(t, "SELECT count(*) FROM farsync_entries WHERE session = 'beside'"))
			require.Zero(t, admin.ask(t, "SELECT count(*) FROM farsync_sessions WHERE id = ?", in.ID))
		})
	}
}

// TestSessionThatIsOver while its entries are being removed: nothing brings it back, not even the boot of another kernel, and no
// entry joins in it. A guard refuses what it held.
func TestSessionThatIsOver(t *testing.T) {
	t.Parallel()
	for _, boot := range []string{machine.Boot(), "another"} {
		t.Run(boot, func(t *testing.T) {
			t.Parallel()
			file := newFile(t)
			in, by, admin := newSessionIn(t, file, nil), newSessionIn(t, file, nil), newOperator(t, file)
			first, err := in.Create(within(t, soon), driver.Entry{Queue: "/held", ID: rand.Text(), Kind: driver.Exclusive, Units: 1}, 0)
			require.NoError(t, err)
			admin.crowd(t, in.ID, "/crowd", "exclusive", 1500)
			admin.runsOut(t, in.ID)
			require.Equal(t, []string{"more"}, by.step(t, "bury", "[]"))
			admin.exec(t, "UPDATE farsync_sessions SET boot = ? WHERE id = ?", boot, in.ID)
			require.Equal(t, []string{by.ID, by.ID}, by.step(t, "renew", by.ID))
			require.Equal(t, 501, admin.ask(t, "SELECT count(*) FROM farsync_entries"))
			_, err = in.Find(within(t, soon), first.Self)
			require.NoError(t, err, "the oldest goes last")

			user := newAccount(t, file)
			require.ErrorIs(t, user.guarded(held{first.Self}, 1), farsync.ErrLost)
			_, err = in.Create(within(t, soon), driver.Entry{Queue: "/more", ID: rand.Text(), Kind: driver.Exclusive, Units: 1}, 0)
			require.ErrorIs(t, err, sqlstore.ErrExpired)
			permit := driver.Entry{Queue: "/more", ID: rand.Text(), Kind: driver.Permit, Units: 1, Size: 1}
			_, err = in.Create(within(t, soon), permit, 0)
			require.ErrorIs(t, err, sqlstore.ErrExpired)
			require.ErrorIs(t, in.Renew(within(t, soon), nil), sqlstore.ErrExpired)
			require.Equal(t, 0, admin.ask(t, "SELECT deadline FROM farsync_sessions WHERE id = ?", in.ID))
			for admin.ask(t, "SELECT count(*) FROM farsync_entries") > 0 { // what a renewal has no time for is for the next
				require.NoError(t, by.Renew(within(t, soon), nil))
			}
			require.Equal(t, 1, admin.ask(t, "SELECT count(*) FROM farsync_sessions"))
		})
	}
}

// TestBurialThatBreaksOff between two steps, for its process has died, is gone on with by whoever comes next.
func TestBurialThatBreaksOff(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(t *testing.T, s *farsync.Store, file string){
		"a Try": func(t *testing.T, s *farsync.Store, _ string) {
			lease, err := farsync.NewMutex(s, "/crowd").TryLock(within(t, soon))
			require.NoError(t, err)
			require.NoError(t, lease.Release())
		},
		"a list": func(t *testing.T, s *farsync.Store, _ string) {
			list, err := s.Participants(within(t, soon), "/crowd")
			require.NoError(t, err)
			require.Empty(t, list)
		},
		"an Open": func(t *testing.T, _ *farsync.Store, file string) { newStore(t, file, nil) },
		"a renewal": func(t *testing.T, _ *farsync.Store, file string) {
			require.NoError(t, newSessionIn(t, file, nil).Renew(within(t, soon), nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := newFile(t)
			store := newStore(t, file, ttl(time.Hour))
			by, admin := newSessionIn(t, file, nil), newOperator(t, file)
			admin.crowd(t, "dead", "/crowd", "exclusive", 3000)
			admin.runsOut(t, "dead")
			require.Equal(t, []string{"more"}, by.step(t, "bury", "[]"))
			require.Equal(t, 2000, admin.ask(t, "SELECT count(*) FROM farsync_entries"))
			next(t, store, file)
			for (name == "an Open" || name == "a renewal") && admin.ask(t, "SELECT count(*) FROM farsync_entries") > 0 {
				next(t, store, file) // each has time for some steps
			}
			require.Zero(t, admin.ask(t, "SELECT count(*) FROM farsync_entries"))
			require.Zero(t, admin.ask(t, "SELECT count(*) FROM farsync_sessions WHERE id = 'dead'"))
		})
	}
}

// TestNewcomersBesideABurial see nothing of the session, from its first step on: one of them gets the lock, and the others
// are told of that one.
func TestNewcomersBesideABurial(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	admin := newOperator(t, file)
	stores := make([]*farsync.Store, 4)
	for i := range stores {
		stores[i] = newStore(t, file, ttl(time.Hour))
	}
	closing := newSessionIn(t, file, nil)
	admin.crowd(t, "dead", "/crowd", "exclusive", 1500)
	admin.crowd(t, closing.ID, "/crowd", "exclusive", 1500)
	admin.runsOut(t, "dead")
	closing.step(t, "end", closing.ID)
	var all sync.WaitGroup
	errs := make([]error, len(stores))
	leases := make([]*farsync.Lease, len(stores))
	for i, s := range stores {
		all.Go(func() { leases[i], errs[i] = farsync.NewMutex(s, "/crowd").TryLock(within(t, soon)) })
	}
	all.Go(func() { _ = closing.End(within(t, soon)) })
	all.Wait()
	held := 0
	for i, err := range errs {
		if err == nil {
			held++
			require.NoError(t, leases[i].Release())
			continue
		}
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.NotRegexp(t, "[0-9A-F]{32}", err.Error(), "what it is behind is an entry of the crowd")
	}
	require.Equal(t, 1, held)
}

// TestWaitersBetweenWhatGoes are served in their order, one at a time, while several sessions remove what is ahead of them.
func TestWaitersBetweenWhatGoes(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	admin := newOperator(t, file)
	stores := make([]*farsync.Store, 5) // of one, goroutines would hand the lock on to one another
	for i := range stores {
		stores[i] = newStore(t, file, ttl(time.Hour))
	}
	admin.crowd(t, "dead", "/crowd", "exclusive", 1)
	served := make(chan int)
	var holds sync.Mutex
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			lease, err := farsync.NewMutex(s, "/crowd").Lock(within(t, soon))
			switch {
			case err != nil:
				t.Error(err)
			case !holds.TryLock():
				t.Error("two hold")
			default:
				holds.Unlock()
			}
			served <- i
			if err == nil {
				err = lease.Release()
			}
			if err != nil {
				t.Error(err)
			}
		})
		for admin.ask(t, "SELECT count(*) FROM farsync_entries WHERE session NOT IN ('dead', 'gone')") < i+1 {
		}
		admin.crowd(t, []string{"dead", "gone"}[i%2], "/crowd", "exclusive", 500)
	}
	bury := []*session{newSessionIn(t, file, nil), newSessionIn(t, file, nil)}
	admin.runsOut(t, "dead")
	admin.runsOut(t, "gone")
	for _, s := range bury {
		all.Go(func() {
			for left := 1; left > 0; left = admin.ask(t, "SELECT count(*) FROM farsync_sessions WHERE id IN ('dead', 'gone')") {
				if err := s.Renew(within(t, soon), nil); err != nil { // it has time for some steps
					t.Error(err)
				}
			}
		})
	}
	for i := range stores {
		require.Equal(t, i, <-served)
	}
	all.Wait()
}
