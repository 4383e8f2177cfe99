package postgrestest_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/sqlstore"
	"github.com/farsync/farsync/postgres"
)

// waits has a session of its own wait for a permit, and returns what it waits with and how that ends.
func (p *permits) waits(units int64) (driver.Session, driver.Entry, <-chan error) {
	s := p.session()
	v := p.join(s, units)
	stood, done := p.watch(s, v)
	<-stood
	return s, v.Self, done
}

// TestPermitIsToldThatAnEntryOfAnotherKindHasGone, however many units fit beside as many as that has.
func TestPermitIsToldThatAnEntryOfAnotherKindHasGone(t *testing.T) {
	t.Parallel()
	p := newPermits(t, newDatabase(t), "/kinds")
	holder := p.session()
	_, err := holder.SetRegister(within(t, soon), p.queue, "3 3", 1, driver.Entry{})
	require.NoError(t, err)
	p.join(holder, 1)
	other := p.foreign(t, p.queue, "other")
	s, w, done := p.waits(1)
	p.delete(t, other)
	require.NoError(t, <-done)
	p.granted(s, w)
}

// TestPermitBehindAnotherKindIsToldOfBothThatGo: what is next behind the one is no permit, and about to go.
func TestPermitBehindAnotherKindIsToldOfBothThatGo(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	for name, row := range map[string]struct {
		units int64
		next  string
		goes  string
	}{
		"a permit":           {2, "", "DELETE FROM farsync_entries WHERE queue = $1 AND kind = 'permit' AND units = 2"},
		"a mutex with a key": {1, "SELECT farsync_join($1, 'key.', 1, 'mutex', 'exclusive', 1, NULL, 0)", "SELECT farsync_leave('key.') WHERE $1 <> ''"},
	} {
		p := newPermits(t, d, "/"+name)
		p.join(p.session(), row.units)
		if row.next != "" {
			p.exec(t, "INSERT INTO farsync_sessions VALUES ('mutex', farsync_begin_5(3600000000), 3600000000)")
			p.exec(t, row.next, p.queue)
		}
		other := p.foreign(t, p.queue, "other")
		s, w, done := p.waits(1)
		first := p.deleting(other)
		second := p.begin(t)
		_, err := second.Exec(within(t, soon), row.goes, p.queue)
		require.NoError(t, err)
		require.NoError(t, first.Commit(within(t, soon)))
		require.NoError(t, second.Commit(within(t, soon)))
		require.NoError(t, <-done, name)
		p.granted(s, w)
	}
}

// TestPermitIsToldWhileItsOwnDeletionIsUndone: room comes while its entry is locked, and the transaction that has locked it fails.
func TestPermitIsToldWhileItsOwnDeletionIsUndone(t *testing.T) {
	t.Parallel()
	p := newPermits(t, newDatabase(t), "/undone")
	holder := p.session()
	held := p.join(holder, 2)
	s, w, done := p.waits(1)
	undone := p.deleting(w)
	_, _, err := holder.Delete(within(t, soon), held.Self)
	require.NoError(t, err)
	require.NoError(t, undone.Rollback(within(t, soon)))
	require.NoError(t, <-done)
	p.granted(s, w)
}

// TestPermitIsToldThatItHasGone, also where nothing is ahead any more by the time at which it goes.
func TestPermitIsToldThatItHasGone(t *testing.T) {
	t.Parallel()
	p := newPermits(t, newDatabase(t), "/gone")
	holder := p.session()
	held := p.join(holder, 2)
	s, w, done := p.waits(1)
	tx := p.begin(t)
	_, err := tx.Exec(within(t, soon), "SELECT FROM farsync_entries WHERE id = $1 FOR UPDATE", w.ID)
	require.NoError(t, err)
	_, _, err = holder.Delete(within(t, soon), held.Self)
	require.NoError(t, err)
	_, err = tx.Exec(within(t, soon), "DELETE FROM farsync_entries WHERE id = $1", w.ID)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(within(t, soon)))
	require.NoError(t, <-done)
	_, err = s.Ahead(within(t, soon), w, true)
	require.ErrorIs(t, err, driver.ErrGone)
}

// TestPermitIsToldBehindOneWhoseDeletionIsUndone: what leaves the queue and stays after all takes no other's turn.
func TestPermitIsToldBehindOneWhoseDeletionIsUndone(t *testing.T) {
	t.Parallel()
	p := newPermits(t, newDatabase(t), "/stays")
	holder := p.session()
	first, second := p.join(holder, 1), p.join(holder, 1)
	s, w, done := p.waits(2)
	undone := p.deleting(first.Self)
	_, _, err := holder.Delete(within(t, soon), second.Self)
	require.NoError(t, err)
	require.NoError(t, <-done, "in vain")
	require.NoError(t, undone.Rollback(within(t, soon)))
	v, err := s.Ahead(within(t, soon), w, true)
	require.NoError(t, err)
	v.Self = w
	stood, done := p.watch(s, v)
	<-stood
	_, _, err = holder.Delete(within(t, soon), first.Self)
	require.NoError(t, err)
	require.NoError(t, <-done)
	p.granted(s, w)
}

// TestPermitWaitsForNoGuard: a guard delays the release of a permit, but not the look of the permit that waits behind it.
func TestPermitWaitsForNoGuard(t *testing.T) {
	t.Parallel()
	p := newPermits(t, newDatabase(t), "/guarded")
	holder := p.session()
	held := p.join(holder, 2)
	one, two := p.begin(t), p.begin(t)
	require.NoError(t, postgres.Guard(within(t, soon), one, heldBy(held.Self)))
	require.NoError(t, postgres.Guard(within(t, soon), two, heldBy(held.Self)))
	var release errgroup.Group
	release.Go(func() error {
		_, _, err := holder.Delete(within(t, soon), held.Self)
		return err
	})
	p.awaitBlocked(t, "DELETE FROM farsync_entries")
	s, w, done := p.waits(1)
	require.NoError(t, one.Commit(within(t, soon)))
	require.NoError(t, two.Commit(within(t, soon)))
	require.NoError(t, release.Wait())
	require.NoError(t, <-done)
	p.granted(s, w)
}

func heldBy(e driver.Entry) held { return held{e} }

// TestPermitBehindAStray is refused, with the ID of the stray.
func TestPermitBehindAStray(t *testing.T) {
	t.Parallel()
	p := newPermits(t, newDatabase(t), "/stray")
	p.exec(t, "INSERT INTO farsync_entries (id, queue, kind, units) VALUES ('no-one-s', $1, 'permit', 1)", p.queue)
	p.join(p.session(), 1)
	s := p.session()
	_, done := p.watch(s, p.join(s, 1))
	err := <-done
	require.ErrorIs(t, err, sqlstore.ErrStray)
	require.ErrorContains(t, err, "no-one-s")
}

// TestSessionThatEndsTellsThePermitsThatItLetsIn, and none that holds already, nor one that has to wait on.
func TestSessionThatEndsTellsThePermitsThatItLetsIn(t *testing.T) {
	t.Parallel()
	p := newPermits(t, newDatabase(t), "/ends")
	holder := p.session()
	_, err := holder.SetRegister(within(t, soon), p.queue, "5 5", 1, driver.Entry{})
	require.NoError(t, err)
	ends := p.session()
	for _, s := range []driver.Session{holder, ends, holder, ends, holder} {
		p.join(s, 1)
	}
	s, w, done := p.waits(2)
	last := p.session()
	stood, waits := p.watch(last, p.join(last, 1))
	<-stood
	notified := p.notified(t)
	require.Zero(t, notified())
	require.NoError(t, ends.Close(within(t, soon)))
	require.NoError(t, <-done)
	p.granted(s, w)
	require.Equal(t, 1, notified())
	require.Empty(t, waits)
	_, _, err = s.Delete(within(t, soon), w)
	require.NoError(t, err)
	require.NoError(t, <-waits)
}

// TestNextPermitIsLookedForSoon, where nothing notifies: what holds beside others does not count as being ahead of it.
func TestNextPermitIsLookedForSoon(t *testing.T) {
	t.Parallel()
	p := newPermits(t, newDatabase(t), "/looks")
	text, err := os.ReadFile("../../postgres/statements.sql")
	require.NoError(t, err)
	s := p.session()
	for range 2 {
		p.join(s, 1)
	}
	looks := func(target sqlstore.Target) (is int) {
		t.Helper()
		var moved bool
		require.NoError(t, p.admin.QueryRow(within(t, soon), sqlstore.Statements(string(text))["poll"][0],
			sqlstore.Array([]sqlstore.Target{target})).Scan(new(string), &moved, &is))
		require.False(t, moved)
		return is
	}
	for ahead := range 3 {
		e := p.join(s, 1).Self
		require.Equal(t, ahead, looks(sqlstore.Target{Name: e.ID, What: "granted", ID: e.ID, Queue: p.queue}))
	}
	var version int64
	require.NoError(t, p.admin.QueryRow(within(t, soon), "SELECT version FROM farsync_registers WHERE queue = $1", p.queue).Scan(&version))
	require.Equal(t, 4, looks(sqlstore.Target{What: "registered", Queue: p.queue, Version: version}), "another size is not expected for long")
}

// TestPermitOfAnEarlierVersion: a client of an earlier version writes a row for the entry that it waits for, and is notified when that goes.
func TestPermitOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	p := newPermits(t, newDatabase(t), "/earlier")
	holder := p.session()
	held := p.join(holder, 2).Self
	earlier := p.session()
	e := p.join(earlier, 1).Self
	conn := p.connection(t)
	_, err := conn.Exec(within(t, soon), "LISTEN "+pgx.Identifier{"farsync_" + e.Session}.Sanitize())
	require.NoError(t, err)
	targets := sqlstore.Array([]sqlstore.Target{{Name: held.ID, What: "gone", ID: held.ID, Queue: p.queue, Kind: "permit", Version: 1}})
	require.Equal(t, 1, p.count(t, "SELECT count(*) FROM farsync_sight($1, $2, $3) WHERE NOT moved AND NOT next AND NOT stray",
		targets, p.queue, e.Revision))
	p.exec(t, "SELECT farsync_watch($1, $2, $3, $4)", targets, p.queue, e.Revision, e.Session)
	p.delete(t, held)
	told := map[string]bool{}
	for !told[held.ID] {
		note, err := conn.WaitForNotification(within(t, soon))
		require.NoError(t, err)
		told[note.Payload] = true
	}
}

// TestReleaseDoesNotStandBehindJoins: while another client has the turns of four queues, a session with four connections sends one join of each of
// three, and deletes entries of a queue by the fourth connection.
func TestReleaseDoesNotStandBehindJoins(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	of, err := postgres.NewService(d.with(t, func(c *pgxpool.Config) { c.MaxConns = 4 }), d.options(0))
	require.NoError(t, err)
	in, err := of.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(in.Drop)
	join := func(ctx context.Context, queue string, kind driver.Kind) (driver.View, error) {
		e := driver.Entry{Queue: queue, ID: in.NewID(queue, kind, 1), Kind: kind, Units: 1}
		if kind == driver.Permit {
			e.Size = 1
		}
		return in.Create(ctx, e, 0)
	}
	var held []driver.Entry
	for range 4 {
		v, err := join(within(t, soon), "/kept/0", driver.Permit)
		require.NoError(t, err)
		held = append(held, v.Self)
	}
	// What stands in line for a turn is not always seen to wait: it lets go of its place there several times a second.
	const joining = `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND state = 'active' AND query ~ 'farsync_(create|join|enter)' AND pid <> pg_backend_pid()`
	turns := d.begin(t)
	ctx, leave := context.WithCancel(t.Context())
	var joins sync.WaitGroup
	for queues := range 4 {
		queue := fmt.Sprint("/kept/", queues)
		_, err = turns.Exec(within(t, soon), "SELECT farsync_turn($1)", queue)
		require.NoError(t, err)
		for i := range 4 {
			joins.Go(func() { _, _ = join(ctx, queue, []driver.Kind{driver.Exclusive, driver.Permit}[i%2]) })
		}
		sent := min(queues+1, 3)
		require.Eventually(t, func() bool { return d.count(t, joining) == sent }, soon, time.Millisecond)
	}
	for _, e := range held {
		_, is, err := in.Delete(within(t, soon), e)
		require.NoError(t, err)
		require.True(t, is)
		require.Equal(t, 3, d.count(t, joining))
	}
	leave()
	joins.Wait()
	require.NoError(t, turns.Rollback(within(t, soon)))
}
