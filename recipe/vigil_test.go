//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

// A person removes the entry of a lock that has been held for a while: its holder is told at once, not when it releases.
func TestLongHoldIsToldThatItsEntryIsGone(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		g := newGate(a)
		first, second := w.granted(w.startGate(g)), w.start(b)
		time.Sleep(ttl)
		w.ResetCount()
		require.True(w, w.Touch(w.Entries(queue)[0].ID))
		w.settle()
		require.NoError(w, first.hold.Err(), "an event is a hint")
		w.Delete(w.Entries(queue)[0].ID)
		w.settle()
		require.ErrorIs(w, first.hold.Err(), recipe.ErrLost)
		<-first.hold.Life().Done()
		require.Empty(w, first.hold.Entries())
		_, err := first.hold.Again()
		require.ErrorIs(w, err, recipe.ErrLost)
		w.granted(second)
		_, err = g.TryAcquire(w.Context())
		require.ErrorIs(w, err, recipe.ErrLocked)
		w.release(second)
		third := w.granted(w.startGate(g))
		require.ErrorIs(w, first.hold.Release(), recipe.ErrLost)
		require.NoError(w, third.hold.Err())
		w.release(third)
	})
}

// The entry of a lock is gone as soon as that is granted, as at a server that has taken over without it. Its holder is
// told once it has held for as long as an entry is watched after, and half as long again at most.
func TestHoldWhoseEntryGoesAtOnceIsToldInTime(t *testing.T) {
	// The time since the session first held anything.
	for held := time.Duration(0); held < 5*time.Second; held += 100 * time.Millisecond {
		inBubble(t, func(w *world) {
			a := w.open()
			w.release(w.granted(w.start(a)))
			time.Sleep(held)
			first := w.granted(w.start(a))
			w.Delete(w.Entries(queue)[0].ID)
			time.Sleep(min(ttl/3, 3*time.Second) - time.Millisecond)
			w.settle()
			require.NoError(w, first.hold.Err(), "shorter holds never pay for a watch")
			time.Sleep(min(ttl/3, 3*time.Second)/2 + 2*time.Millisecond)
			w.settle()
			require.ErrorIs(w, first.hold.Err(), recipe.ErrLost)
			require.ErrorIs(w, first.hold.Release(), recipe.ErrLost)
		})
	}
}

// All turns on the grant end with it.
func TestAllHoldsOfAnEntryAreToldThatItIsGone(t *testing.T) {
	inBubble(t, func(w *world) {
		read := gateFor(w.open(), recipe.Request{Queue: queue, Kind: driver.Read, Units: 1})
		readers := []*try{w.startGate(read), w.startGate(read), w.startGate(read)}
		require.Len(w, w.Entries(queue), 1)
		time.Sleep(ttl)
		w.Delete(w.Entries(queue)[0].ID)
		w.settle()
		for _, r := range readers {
			require.ErrorIs(w, w.granted(r).hold.Err(), recipe.ErrLost)
			require.ErrorIs(w, r.hold.Release(), recipe.ErrLost)
		}
	})
}

// A writer that has become a reader is watched as that.
func TestDowngradedHoldIsWatchedOn(t *testing.T) {
	inBubble(t, func(w *world) {
		h := w.writer(w.open())
		time.Sleep(ttl)
		require.NoError(w, h.Change(w.Context(), driver.Read, nil))
		time.Sleep(ttl)
		require.NoError(w, h.Err())
		w.Delete(w.Entries(queue)[0].ID)
		w.settle()
		require.ErrorIs(w, h.Err(), recipe.ErrLost)
		require.ErrorIs(w, h.Release(), recipe.ErrLost)
	})
}

// The answer to a downgrade is lost. The watch on the writer's entry sees that go, which is not the end of the hold.
func TestDowngradeWithoutAnAnswerIsNoRemoval(t *testing.T) {
	inBubble(t, func(w *world) {
		h := w.writer(w.open())
		time.Sleep(ttl)
		w.SetFault(func(op storetest.Op) storetest.Fault {
			if op.Kind == storetest.Replace || op.Kind == storetest.Find {
				return storetest.LoseReply
			}
			return storetest.None
		})
		changed := make(chan error, 1)
		go func() { changed <- h.Change(w.Context(), driver.Read, nil) }()
		w.settle()
		require.True(w, w.Touch(w.Entries(queue)[0].ID)) // as where the one node is removed for the other
		w.settle()
		w.SetFault(nil)
		require.NoError(w, <-changed)
		require.NoError(w, h.Release())
	})
}

// A short hold costs nothing more than before, a long one a watch.
func TestWhatALongHoldCosts(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		for _, row := range []struct {
			held    time.Duration
			watches int
		}{{time.Second, 0}, {25 * time.Second, 1}} {
			w.ResetCount()
			first := w.granted(w.start(s))
			time.Sleep(row.held)
			w.release(first)
			require.Equal(w, row.watches, w.Count(storetest.Watch))
			require.Zero(w, w.Count(storetest.Find))
			require.Equal(w, 2+row.watches, w.Count()-w.Count(storetest.Renew))
		}
	})
}

// A watch that the service refuses ends nothing.
func TestLongHoldThatMayNotBeWatched(t *testing.T) {
	inBubble(t, func(w *world) {
		w.SetFault(func(op storetest.Op) storetest.Fault {
			if op.Kind == storetest.Watch || op.Kind == storetest.Find {
				return storetest.Refuse(errRefused)
			}
			return storetest.None
		})
		first := w.granted(w.start(w.open()))
		time.Sleep(10 * ttl)
		require.Less(w, w.Count(), 100)
		w.release(first)
	})
}
