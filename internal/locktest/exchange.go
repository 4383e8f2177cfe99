package locktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// An Exchange makes a service another one, or an earlier state of itself, while a lock is held there.
type Exchange struct {
	// Open returns a Store of its own. It is called before the exchange for the holder and for a waiter, and after it
	// for a newcomer.
	Open func(t *testing.T) *farsync.Store
	// Do is the exchange.
	Do func(t *testing.T)
	// Overlap lets the next be granted before the holder is told.
	Overlap bool
	// Falls lets tokens begin anew.
	Falls bool
	// Says are words of the holder's error.
	Says []string
}

// RunExchange makes sure that the holder is told, that the waiter and a newcomer have their turns in what the service
// is now, neither before the holder was told, with tokens that rise, and that the Store of the holder stays usable.
func RunExchange(t *testing.T, x Exchange) {
	const path = "/exchanged"
	holder, waiter := x.Open(t), x.Open(t)
	lease := Lock(t, holder, path)
	section := NewSection(t, 1)
	leave := func() {}
	if !x.Overlap {
		leave = section.Enter(lease, 1)
	}
	waits := LockBehind(t, waiter, path)
	AwaitQueue(t, holder, path, 2)

	x.Do(t)
	began := time.Now()
	comes := LockBehind(t, x.Open(t), path)
	highest := lease.Token()
	for range 2 {
		var next *farsync.Lease
		var of string
		select {
		case next = <-waits:
			of = "the waiter"
		case next = <-comes:
			of = "the newcomer"
		case <-time.After(Soon):
			require.FailNow(t, "neither the waiter nor the newcomer was granted the lock")
		}
		told := lease.Err()
		after := time.Since(began).Round(time.Millisecond)
		t.Logf("%s is granted the lock after %v, and the holder knows: %v", of, after, told)
		if !x.Overlap {
			require.ErrorIs(t, told, farsync.ErrLost, "%s holds, and the holder was not told", of)
		}
		section.Visit(t.Context(), next, 1)
		if !x.Falls {
			assert.Greater(t, next.Token(), highest, of)
			highest = next.Token()
		}
		require.NoError(t, giveBack(next))
	}
	Ended(t, lease)
	leave()
	t.Logf("Done is closed within %v: %v", time.Since(began).Round(time.Millisecond), lease.Err())
	x.told(t, lease)
	again := Lock(t, holder, path)
	if !x.Falls {
		assert.Greater(t, again.Token(), highest)
	}
	require.NoError(t, giveBack(again))
}

// HolderIsTold is what RunExchange asks of the holder, with nobody who waits or comes.
func HolderIsTold(t *testing.T, x Exchange) {
	t.Helper()
	lease := Lock(t, x.Open(t), "/exchanged")
	x.Do(t)
	Ended(t, lease)
	x.told(t, lease)
}

// told requires that a lease which has ended was lost, and that its error has the words of the exchange.
func (x *Exchange) told(t *testing.T, lease *farsync.Lease) {
	t.Helper()
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	for _, words := range x.Says {
		require.ErrorContains(t, lease.Err(), words)
	}
	_ = lease.Release() // of what is not held any more
}

// RunEmptied removes the sessions, and then the entries, from the tables of a database under a holder. Tokens rise, whatever
// the rows of the queues say.
func RunEmptied(t *testing.T, open func(t *testing.T) *farsync.Store, run func(t *testing.T, statement string)) {
	HolderIsTold(t, Exchange{Open: open, Do: func(t *testing.T) { run(t, "DELETE FROM farsync_sessions") }})
	RunExchange(t, Exchange{
		Open: open,
		Do: func(t *testing.T) {
			run(t, "DELETE FROM farsync_entries")
			run(t, "UPDATE farsync_queues SET last = 1") // as in a backup
		},
		Overlap: true,
	})
}
