package recipe_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

// The last hold has been released, and the removal is under way: nothing is left to enter again.
func TestAgainWhileTheGrantIsGivenUp(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first := w.granted(w.startGate(newGate(a)))
		w.SetFault(faults(farsynctest.Delete, 1, farsynctest.Delay(time.Second)))
		released := make(chan error, 1)
		go func() { released <- first.hold.Release() }()
		w.settle()
		again, err := first.hold.Again()
		require.Equal(w, recipe.ErrReleased, err)
		require.Nil(w, again)
		require.NoError(w, <-released)
		w.release(w.granted(w.start(b)))
	})
}

// A grant of no gate, as that of a caller who holds other locks, is entered again as any other.
func TestAgainOnAGrantOfItsOwn(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first := w.granted(w.start(a))
		again, err := first.hold.Again()
		require.NoError(w, err)
		next := w.start(b)
		require.NoError(w, first.hold.Release())
		third, err := first.hold.Again()
		require.NoError(w, err, "the turn is not over")
		require.NoError(w, again.Release())
		w.settle()
		require.NoError(w, third.Err())
		require.False(w, next.returned())
		require.NoError(w, third.Release())
		_, err = first.hold.Again()
		require.Equal(w, recipe.ErrReleased, err)
		w.release(w.granted(next))
	})
}

// The turn has been handed to another goroutine, on the same entry: its owner before cannot enter beside that.
func TestAgainAfterTheTurnWasHandedOff(t *testing.T) {
	inBubble(t, func(w *world) {
		g := newGate(w.open())
		first, second := w.granted(w.startGate(g)), w.startGate(g)
		require.NoError(w, first.hold.Release())
		w.granted(second)
		revision, turn := second.hold.Token()
		of, _ := first.hold.Token()
		require.Equal(w, of, revision)
		require.Equal(w, 1, turn)
		again, err := first.hold.Again()
		require.Equal(w, recipe.ErrReleased, err)
		require.Nil(w, again)
		w.release(second)
	})
}

// A Proclaim after one of unknown outcome finds the value that it wants. The other may still come, and must not count.
func TestLateProclaimAfterTheSameValue(t *testing.T) {
	for _, second := range []farsynctest.Fault{farsynctest.None, farsynctest.LoseRequest, farsynctest.LoseReply, farsynctest.Late(1)} {
		inBubble(t, func(w *world) {
			a := w.open()
			leader := w.granted(w.startFor(a, recipe.Request{
				Queue: queue, Kind: driver.Candidate, Units: 1, Value: []byte("this"),
			}))
			w.SetFault(plan(farsynctest.Replace, farsynctest.Late(10), second))
			ctx, cancel := context.WithTimeout(w.Context(), time.Nanosecond)
			defer cancel()
			require.ErrorIs(w, leader.hold.Change(ctx, driver.Candidate, []byte("that")), recipe.ErrUncertain)
			require.NoError(w, leader.hold.Change(w.Context(), driver.Candidate, []byte("this")))
			w.busy(a, 20)
			require.Equal(w, "this", string(w.Entries(queue)[0].Value))
			w.release(leader)
		})
	}
}

// A hold whose entry was found to be gone is lost. It is in no other's way, also before it is released.
func TestTryAfterTheEntryWasFoundGone(t *testing.T) {
	inBubble(t, func(w *world) {
		g := gateFor(w.open(), recipe.Request{Queue: queue, Kind: driver.Write, Units: 1})
		first := w.granted(w.startGate(g))
		w.Delete(first.hold.Entries()[0].ID)
		require.ErrorIs(w, first.hold.Change(w.Context(), driver.Read, nil), recipe.ErrLost)
		second, err := g.TryAcquire(w.Context())
		require.NoError(w, err)
		require.ErrorIs(w, first.hold.Release(), recipe.ErrLost)
		require.NoError(w, second.Err())
		require.NoError(w, second.Release())
	})
}
