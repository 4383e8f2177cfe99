package recipe_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A Try names who is in its way, in one look.
func TestTryNamesTheHolder(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		g := newGate(a)
		first := w.granted(w.startGate(g))
		second := w.start(b)
		w.ResetCount()
		_, err := recipe.Acquire(w.Context(), c, new(trying(exclusive)))
		require.ErrorIs(w, err, recipe.ErrLocked)
		require.EqualError(w, err, `locked: held by "client-1"`)
		require.Equal(w, 1, w.Count())
		_, err = g.TryAcquire(w.Context())
		require.ErrorIs(w, err, recipe.ErrLocked)
		require.EqualError(w, err, `locked: held in this process, by "client-1"`)
		require.Equal(w, 1, w.Count(), "nothing was asked")
		behind := w.startGate(newGate(c))
		w.release(first)
		third := w.startGate(g)
		_, err = g.TryAcquire(w.Context())
		require.EqualError(w, err, `locked: waited for in this process, behind "client-3"`)
		w.release(w.granted(second))
		w.release(w.granted(behind))
		w.release(w.granted(third))
		read, write := exclusive, exclusive
		read.Kind, write.Kind = driver.Read, driver.Write
		reader := w.granted(w.startFor(a, read))
		writer := w.startFor(b, write)
		_, err = recipe.Acquire(w.Context(), c, new(trying(read)))
		require.EqualError(w, err, `locked: waited for by "client-2"`)
		_, err = recipe.Acquire(w.Context(), c, new(trying(write)))
		require.EqualError(w, err, `locked: held by "client-1"`)
		w.release(reader)
		w.release(w.granted(writer))
		permit := recipe.Request{Queue: queue, Kind: driver.Permit, Units: 2, Size: 2}
		all := w.granted(w.startFor(a, permit))
		permit.Units = 1
		_, err = recipe.Acquire(w.Context(), c, new(trying(permit)))
		require.EqualError(w, err, `locked: held by "client-1"`)
		w.release(all)
	})
}
