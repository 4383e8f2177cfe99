//nolint:forbidigo // time is that of a bubble
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

var replaceable = recipe.Request{Queue: queue, Kind: driver.Exclusive, Units: 1, Replaceable: true}

// unavailable waits until the try has failed because of the service, and returns how long it has taken.
func (w *world) unavailable(t *try, began time.Time) time.Duration {
	w.Helper()
	<-t.done
	require.ErrorIs(w, t.err, recipe.ErrUnavailable)
	return t.at.Sub(began)
}

func TestReplaceableRequestLeavesAServiceThatIsSilent(t *testing.T) {
	for _, fault := range []farsynctest.Fault{farsynctest.Silence(false), farsynctest.Silence(true), farsynctest.LoseRequest, farsynctest.LoseReply} {
		inBubble(t, func(w *world) {
			s := w.open()
			w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				if op.Kind == farsynctest.Create {
					return fault
				}
				return farsynctest.None
			})
			began := time.Now()
			require.Equal(w, ttl/10, w.unavailable(w.startFor(s, replaceable), began))
			w.SetFault(nil)
			time.Sleep(ttl)
			require.Empty(w, w.Entries(queue), "what may have been made is removed")
			w.release(w.granted(w.startFor(s, replaceable)))
		})
	}
}

func TestReplaceableRequestWaitsForOthersWhileItsStoreIsConnected(t *testing.T) {
	inBubble(t, func(w *world) {
		holder, s := w.start(w.open()), w.open()
		waiting := w.startFor(s, replaceable)
		time.Sleep(10 * ttl)
		require.False(w, waiting.returned())
		w.release(w.granted(holder))
		w.granted(waiting)
		w.release(waiting)

		holder = w.start(s)
		other := w.open()
		waiting = w.startFor(other, replaceable)
		w.Partition(other, true)
		began := time.Now()
		require.LessOrEqual(w, w.unavailable(waiting, began), ttl/2, "a renewal, and the wait for its answer")
		require.NotEqual(w, recipe.Connected, other.State())

		// Until it is Connected again nothing is asked for.
		w.ResetCount()
		again := w.startFor(other, replaceable)
		require.True(w, again.returned())
		require.ErrorIs(w, again.err, recipe.ErrUnavailable)
		time.Sleep(2 * ttl)
		require.Equal(w, recipe.Lost, other.State())
		again = w.startFor(other, replaceable)
		require.True(w, again.returned())
		require.ErrorIs(w, again.err, recipe.ErrUnavailable)
		w.Partition(other, false)
		time.Sleep(ttl)
		again = w.startFor(other, replaceable)
		require.False(w, again.returned(), "the other holds")
		w.release(w.granted(holder))
		w.release(w.granted(again))
	})
}

// The end of the caller's ctx and that of the Store are told as what they are.
func TestReplaceableRequestIsGivenUp(t *testing.T) {
	inBubble(t, func(w *world) {
		holder, s := w.start(w.open()), w.open()
		waiting := w.startFor(s, replaceable)
		waiting.cancel()
		w.settle()
		require.ErrorIs(w, waiting.err, context.Canceled)
		require.NotErrorIs(w, waiting.err, recipe.ErrUnavailable)
		waiting = w.startFor(s, replaceable)
		require.NoError(w, s.Close())
		w.settle()
		require.ErrorIs(w, waiting.err, recipe.ErrClosed)
		require.NotErrorIs(w, waiting.err, recipe.ErrUnavailable)
		w.release(w.granted(holder))
	})
}

func TestReplaceableRequestLeavesAServiceThatGrantsNothing(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		began := time.Now()
		w.Restart(ttl)
		time.Sleep(ttl / 2) // for a renewal
		require.Equal(w, recipe.Recovering, s.State())
		patient := w.start(s)
		require.False(w, patient.returned())
		behind := w.startFor(s, replaceable)
		w.release(w.finally(patient))
		require.Equal(w, ttl, time.Since(began))
		w.release(w.finally(behind))
		w.Restart(ttl)
		time.Sleep(ttl / 2)
		require.Zero(w, w.unavailable(w.startFor(s, replaceable), time.Now()))
		time.Sleep(ttl / 2)
		w.release(w.granted(w.startFor(s, replaceable)))
	})
}
