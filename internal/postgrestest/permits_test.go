package postgrestest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// TestStatementsOfAPermit: one that has to wait takes four statements, to join, to look once it listens, to look when it is told, and to leave, and one
// notification, with 8 or with 64 waiters. It writes nothing in order to wait.
func TestStatementsOfAPermit(t *testing.T) {
	suite.Long(t, suite.Postgres, "counts the statements of a crowd, while leases that are held for 3 s begin to listen")
	t.Parallel()
	d := newServer(t, embedtest.Setting("max_connections = 300"))
	busy := new(requests)
	busy.areExact(t)
	const size, most = 8, 64
	stores := make([]*farsync.Store, most)
	for i := range stores {
		stores[i] = d.counted(t, busy)
		defer func() { _ = stores[i].Close() }()
		lease, err := farsync.NewSemaphore(stores[i], fmt.Sprint("/first/", i), 1).Acquire(within(t, soon), 1) // as in TestStatementsOfALock
		require.NoError(t, err)
		require.NoError(t, lease.Release())
	}
	notified := d.notified(t)
	acquire := func(s *farsync.Store) (*farsync.Lease, error) {
		return farsync.NewSemaphore(s, "/traffic", size).Acquire(within(t, time.Minute), 1)
	}
	var held []*farsync.Lease
	for range size {
		lease, err := acquire(stores[0])
		require.NoError(t, err)
		held = append(held, lease)
	}
	require.Zero(t, notified())
	for _, waiters := range []int{8, most} {
		before := busy.n.Load()
		granted := make(chan *farsync.Lease, waiters)
		var all errgroup.Group
		for _, store := range stores[:waiters] {
			all.Go(func() error {
				lease, err := acquire(store)
				granted <- lease
				return err
			})
		}
		require.Eventually(t, func() bool { return busy.n.Load() == before+2*int64(waiters) }, 3*soon, time.Millisecond, "join, look")
		require.Zero(t, notified(), "to wait tells none")
		require.Zero(t, d.count(t, "SELECT count(*) FROM farsync_watches"))
		for range waiters {
			require.NoError(t, held[0].Release())
			held = append(held[1:], <-granted)
		}
		require.NoError(t, all.Wait())
		require.Equal(t, waiters, notified(), "the one that is let in")
		require.EqualValues(t, 4*waiters, busy.n.Load()-before)
	}
	for _, lease := range held {
		require.NoError(t, lease.Release())
	}
}

// permits is a semaphore of two units, and sessions of it.
type permits struct {
	database
	t       *testing.T
	queue   string
	service driver.Service
}

func newPermits(t *testing.T, d database, queue string) *permits {
	p := &permits{d, t, queue, d.service(t)}
	t.Cleanup(func() { _ = p.service.Close() })
	_, err := p.session().SetRegister(within(t, soon), queue, "2 2", 0, driver.Entry{})
	require.NoError(t, err)
	return p
}

func (p *permits) session() driver.Session {
	s, err := p.service.Open(within(p.t, soon), time.Hour)
	require.NoError(p.t, err)
	p.t.Cleanup(s.Drop)
	return s
}

func (p *permits) join(s driver.Session, units int64) driver.View {
	v, err := s.Create(within(p.t, soon), driver.Entry{
		Queue: p.queue, ID: s.NewID(p.queue, driver.Permit, units), Kind: driver.Permit, Units: units,
	}, 0)
	require.NoError(p.t, err)
	return v
}

// watch waits for the turn of what has joined, in a goroutine. The end of the Watch comes from done.
func (p *permits) watch(s driver.Session, v driver.View) (stood <-chan struct{}, done <-chan error) {
	require.Len(p.t, v.Entries, 1)
	require.False(p.t, v.All)
	require.Greater(p.t, v.Entries[0].Units, int64(2), "it is not granted")
	stands, ended := make(chan struct{}), make(chan error, 1)
	go func() { // joined by who receives from done
		ended <- p.watchOnce(s, v, func() { close(stands) })
	}()
	return stands, ended
}

func (p *permits) watchOnce(s driver.Session, v driver.View, stands func()) error {
	on := []driver.Target{{Entry: v.Entries[0]}, {What: driver.Registered, Entry: driver.Entry{Queue: p.queue, Version: v.Register.Version}}}
	_, err := s.Watch(within(p.t, soon), v.Self, on, stands)
	return err
}

// watchUntilGranted watches as a Store does: a Watch that waits for what is just leaving returns after a while.
func (p *permits) watchUntilGranted(s driver.Session, v driver.View) (done <-chan error) {
	ended := make(chan error, 1)
	go func() { // joined by who receives from done
		for {
			err := p.watchOnce(s, v, func() {})
			var now driver.View
			if err == nil {
				now, err = s.Ahead(within(p.t, soon), v.Self, true)
			}
			if err != nil || len(now.Entries) == 0 || now.Entries[0].Units == 0 {
				ended <- err
				return
			}
		}
	}()
	return ended
}

// granted requires that a look shows it.
func (p *permits) granted(s driver.Session, e driver.Entry) {
	v, err := s.Ahead(within(p.t, soon), e, true)
	require.NoError(p.t, err)
	require.True(p.t, len(v.Entries) == 0 || v.Entries[0].Units == 0)
}

// deleting deletes an entry in a transaction that is still to be committed.
func (p *permits) deleting(e driver.Entry) pgx.Tx {
	tx, err := p.admin.Begin(within(p.t, soon))
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(p.t.Context())) })
	_, err = tx.Exec(within(p.t, soon), "DELETE FROM farsync_entries WHERE id = $1", e.ID)
	require.NoError(p.t, err)
	return tx
}

// TestPermitIsToldOfTwoThatGoTogether: neither of those that leave sees that the other has left, and only both let it in.
func TestPermitIsToldOfTwoThatGoTogether(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	for n := range 10 {
		p := newPermits(t, d, fmt.Sprint("/together/", n))
		holder, waiter := p.session(), p.session()
		a, b := p.join(holder, 1), p.join(holder, 1)
		w := p.join(waiter, 2)
		stood, done := p.watch(waiter, w)
		<-stood
		first, second := p.deleting(a.Self), p.deleting(b.Self)
		if n%2 == 0 {
			first, second = second, first
		}
		require.NoError(t, first.Commit(within(t, soon)))
		require.NoError(t, second.Commit(within(t, soon)))
		require.NoError(t, <-done)
		p.granted(waiter, w.Self)
	}
}

// TestPermitThatComesWhileAnotherGoes: who leaves has looked for whom that lets in before it could see the permit.
func TestPermitThatComesWhileAnotherGoes(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	for n := range 10 {
		p := newPermits(t, d, fmt.Sprint("/comes/", n))
		holder, waiter := p.session(), p.session()
		a, b := p.join(holder, 1), p.join(holder, 1)
		first := p.deleting(a.Self)
		w := p.join(waiter, 1+int64(n%2)) // one that needs the room of both, too
		var done <-chan error
		if w.Self.Units == 1 {
			done = p.watchUntilGranted(waiter, w)
			p.awaitBlocked(t, "farsync_turned")
		} else {
			var stood <-chan struct{}
			stood, done = p.watch(waiter, w)
			<-stood
		}
		require.NoError(t, first.Commit(within(t, soon)))
		if w.Self.Units == 2 {
			_, _, err := holder.Delete(within(t, soon), b.Self)
			require.NoError(t, err)
		}
		require.NoError(t, <-done)
		p.granted(waiter, w.Self)
	}
}

// TestPermitIsToldOfASizeThatGrows: it has not asked.
func TestPermitIsToldOfASizeThatGrows(t *testing.T) {
	t.Parallel()
	p := newPermits(t, newDatabase(t), "/grows")
	holder, waiter := p.session(), p.session()
	p.join(holder, 2)
	w := p.join(waiter, 1)
	stood, done := p.watch(waiter, w)
	<-stood
	_, err := holder.SetRegister(within(t, soon), p.queue, "2 3", w.Register.Version, driver.Entry{})
	require.NoError(t, err)
	require.NoError(t, <-done)
	p.granted(waiter, w.Self)
}
