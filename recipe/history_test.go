//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

// shown returns the oldest entry of a queue, with its session.
func (w *world) shown(s *recipe.Store, path string) driver.Entry {
	w.Helper()
	list, _, err := recipe.Queue{Store: s, Path: path}.List(w.Context(), 1)
	require.NoError(w, err)
	require.NotEmpty(w, list)
	return list[0]
}

// A release that the service has answered is undone. The entry is found with the next renewal. What the Store holds and what waits in it stays
// as it is. A service that does not go back is not asked.
func TestReleaseThatIsUndoneIsDoneAgain(t *testing.T) {
	for _, kind := range []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Permit, driver.Candidate} {
		t.Run(kind.String(), func(t *testing.T) {
			inBubble(t, func(w *world) {
				a, b := w.open(), w.open()
				r, other := exclusive, exclusive
				r.Kind, other.Queue = kind, "/other"
				if kind == driver.Permit {
					r.Size = 1
				}
				w.anchor(a)
				ahead := w.granted(w.startFor(b, other))
				waits := w.startFor(a, other)
				held := w.granted(w.startFor(a, r))
				undone := w.shown(a, queue)
				if kind == driver.Write { // whose entry has another ID at the service then
					require.NoError(w, held.hold.Change(w.Context(), driver.Read, nil))
					undone = w.shown(a, queue)
				}
				w.release(held)
				time.Sleep(10 * ttl)
				require.Zero(w, w.Count(farsynctest.Owned))

				w.Revive(undone)
				began := time.Now()
				if kind == driver.Read {
					r.Kind = driver.Write
				}
				next := w.finally(w.startFor(b, r))
				require.LessOrEqual(w, time.Since(began), ttl/4+time.Millisecond)
				time.Sleep(10 * ttl)
				require.Equal(w, 4, w.Count(farsynctest.Owned), "two of each Store")
				w.release(next)
				w.release(ahead)
				w.release(w.granted(waits))
			})
		})
	}
}

// A join whose answer does not come stands at the service and is known to no caller. It is no entry that stands again.
func TestJoinUnderWayIsNotTakenForOneThatStandsAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		w.release(w.granted(w.start(a)))
		var silent atomic.Bool
		silent.Store(true)
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Create && op.Client == "client-1" && silent.Load() {
				return farsynctest.LoseReply
			}
			return farsynctest.None
		})
		joins := w.start(a)
		stands := w.shown(b, queue)
		w.history()
		time.Sleep(5 * ttl)
		require.Positive(w, w.Count(farsynctest.Owned))
		require.False(w, joins.returned())
		silent.Store(false)
		w.finally(joins)
		require.Equal(w, stands.ID, w.shown(b, queue).ID)
		w.release(joins)
	})
}

// history has the service go back to a state that is the same.
func (w *world) history() {
	s := w.open()
	held := w.granted(w.startFor(s, recipe.Request{Queue: "/back", Kind: driver.Exclusive, Units: 1}))
	e := w.shown(s, "/back")
	w.release(held)
	w.Revive(e)
	w.Delete(e.ID)
	require.NoError(w, s.Close())
}

// Where each renewal shows another history, as where connections lead to several servers in turn, the Store looks once a TTL.
func TestHistoryThatChangesAllTheTimeIsLookedAtOnceATTL(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.open()
		w.anchor(a)
		for range 100 {
			w.history()
			time.Sleep(ttl / 4)
		}
		require.InDelta(w, 25, w.Count(farsynctest.Owned), 2)
	})
}

// A look that finds no answer is made until there is one.
func TestLookAfterServiceHasGoneBackIsRepeated(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		held := w.granted(w.start(a))
		e := w.shown(a, queue)
		w.release(held)
		w.Revive(e)
		refused := farsynctest.Refuse(errRefused)
		owned := plan(farsynctest.Owned, farsynctest.LoseReply, farsynctest.LoseRequest, refused, refused, farsynctest.LoseReply)
		deleted := plan(farsynctest.Delete, refused, farsynctest.LoseRequest, farsynctest.LoseReply)
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Owned {
				return owned(op)
			}
			return deleted(op)
		})
		w.release(w.finally(w.start(b)))
	})
}

// What a session notes of its entries is gone with them, however they have gone.
func TestEntriesThatHaveGoneAreForgotten(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		settled := func() {
			w.Helper()
			time.Sleep(2 * ttl)
			w.settle()
			require.Zero(w, a.Made())
		}
		w.release(w.granted(w.start(a)))
		settled()
		gate := gateFor(a, exclusive)
		for range 3 { // handed over, and given up
			one, two, three := w.startGate(gate), w.startGate(gate), w.startGate(gate)
			require.Positive(w, a.Made())
			three.cancel()
			w.release(w.finally(one))
			w.release(w.finally(two))
		}
		settled()
		ahead := w.granted(w.start(b))
		for _, try := range []*try{w.start(a), w.startGate(gate)} { // given up behind another
			try.cancel()
			w.settle()
			require.Error(w, try.err)
		}
		_, err := recipe.Acquire(w.Context(), a, new(trying(exclusive)))
		require.ErrorIs(w, err, recipe.ErrLocked)
		w.release(ahead)
		settled()
		for _, fault := range []farsynctest.Fault{
			farsynctest.LoseRequest, farsynctest.LoseReply, farsynctest.Late(3), farsynctest.Refuse(errRefused),
		} {
			for _, kind := range []farsynctest.OpKind{farsynctest.Create, farsynctest.Delete, farsynctest.Ahead} {
				w.SetFault(plan(kind, fault, fault))
				if try := w.start(a); !try.returned() {
					<-try.done
					if try.err == nil {
						_ = try.hold.Release()
					}
				} else if try.err == nil {
					_ = try.hold.Release()
				}
				w.SetFault(nil)
				w.busy(a, 5)
				settled()
			}
		}
		lost := w.granted(w.start(a)) // its entry is removed by another
		w.Delete(w.Entries(queue)[0].ID)
		time.Sleep(ttl)
		require.ErrorIs(w, lost.hold.Release(), recipe.ErrLost)
		settled()
		declared := recipe.Request{Queue: "/permits", Kind: driver.Permit, Units: 1, Size: 2}
		w.release(w.granted(w.startFor(a, declared)))
		declared.Size = 3 // is declared anew
		w.release(w.finally(w.startFor(b, declared)))
		settled()
	})
}
