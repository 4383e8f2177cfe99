//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/nested"
	"github.com/farsync/farsync/recipe"
)

// inLine returns a request for a path that waits in the path's line.
func inLine(path string, k driver.Kind) recipe.Request {
	return recipe.Request{Queue: path, Kind: k, Units: 1, Line: true}
}

// A request handler makes a value for each request, out of a path that is data.
func TestRequestsForOnePathShareALine(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		first := w.granted(w.startFor(s, inLine(queue, driver.Exclusive)))
		second := w.startFor(s, inLine(queue, driver.Exclusive))
		require.Len(w, w.Entries(queue), 1, "the second waits in this process")
		_, err := recipe.Acquire(w.Context(), s, new(trying(inLine(queue, driver.Exclusive))))
		require.ErrorIs(w, err, recipe.ErrLocked)
		w.release(first)
		require.Equal(w, 1, turnOf(w.granted(second).hold), "it has the next turn on the same entry")
		w.release(second)
		require.Zero(w, s.LinesInUse())
	})
}

// What does not agree is apart: it would be served by an entry that says something else than it asks for.
func TestLinesOfRequestsThatDiffer(t *testing.T) {
	other := inLine(queue, driver.Exclusive)
	other.Replaceable = true
	valued := inLine(queue, driver.Exclusive)
	valued.Value = []byte("one")
	alone := exclusive
	for what, r := range map[string]recipe.Request{
		"a request that can be replaced":      other,
		"a request with a value":              valued,
		"a request that waits in no line":     alone,
		"a request of another kind to write":  inLine("/rw", driver.Read),
		"a request for another path, of data": inLine("/q2", driver.Exclusive),
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(w *world) {
				s := w.open()
				before := inLine(queue, driver.Exclusive)
				if r.Queue == "/rw" {
					before = inLine("/rw", driver.Write)
				}
				first := w.granted(w.startFor(s, before))
				second := w.startFor(s, r)
				entries := len(w.Entries(before.Queue)) + len(w.Entries("/q2"))
				require.Equal(w, 2, entries, "each has an entry of its own")
				w.release(first)
				require.Zero(w, turnOf(w.granted(second).hold))
				w.release(second)
				require.Zero(w, s.LinesInUse())
			})
		})
	}
}

// A caller who holds another lock is to be seen with it.
func TestCallerUnderALeaseIsApartFromTheLine(t *testing.T) {
	for _, k := range []driver.Kind{driver.Exclusive, driver.Write} {
		t.Run(k.String(), func(t *testing.T) {
			inBubble(t, func(w *world) {
				s := w.open()
				over := w.granted(w.startFor(s, inLine("/other", driver.Exclusive)))
				first := w.granted(w.startFor(s, inLine(queue, k)))
				under := func(ctx context.Context) context.Context { return nested.Under(ctx, standing{over.hold}) }
				inner := w.begin(func(ctx context.Context, t *try) {
					t.hold, t.err = recipe.Acquire(under(ctx), s, new(inLine(queue, k)))
				})
				line := w.startFor(s, inLine(queue, k))
				require.Len(w, w.Entries(queue), 2)
				w.release(first)
				w.granted(line) // it waits in the line of the entry that was granted, and comes in by that
				w.release(line)
				w.release(w.granted(inner))
				w.release(over)
				require.Zero(w, s.LinesInUse())
			})
		})
	}
}

// A program locks as many paths as it has orders. Nothing of them may stay, however a call or a hold has ended.
func TestPathsThatNobodyUsesLeaveNothingBehind(t *testing.T) {
	path := func(i int) string { return fmt.Sprintf("/orders/%d", i) }
	for what, play := range map[string]func(w *world, s *recipe.Store){
		"held, waited for, released": func(w *world, s *recipe.Store) {
			for i := range 100 {
				first, second := w.startFor(s, inLine(path(i), driver.Exclusive)), w.startFor(s, inLine(path(i), driver.Exclusive))
				require.Equal(w, 1, s.LinesInUse())
				w.release(w.granted(first))
				w.release(w.granted(second))
			}
		},
		"given up in the queue and in the line": func(w *world, s *recipe.Store) {
			far := w.granted(w.startFor(w.open(), inLine(queue, driver.Exclusive)))
			var tries []*try
			for range 5 {
				tries = append(tries, w.startFor(s, inLine(queue, driver.Exclusive)))
			}
			require.Equal(w, 1, s.LinesInUse())
			for _, t := range tries {
				t.cancel()
				w.settle()
				require.ErrorIs(w, t.err, context.Canceled)
			}
			w.release(far)
		},
		"tried, and refused": func(w *world, s *recipe.Store) {
			far := w.granted(w.startFor(w.open(), inLine(queue, driver.Exclusive)))
			_, err := recipe.Acquire(w.Context(), s, new(trying(inLine(queue, driver.Exclusive))))
			require.ErrorIs(w, err, recipe.ErrLocked)
			_, err = recipe.Acquire(w.Context(), s, new(inLine(queue, driver.Read)))
			require.ErrorIs(w, err, driver.ErrKind)
			w.release(far)
		},
		"abandoned": func(w *world, s *recipe.Store) {
			w.granted(w.startFor(s, inLine(queue, driver.Exclusive))).hold.Abandon()
			w.settle()
		},
		"broken, and never released": func(w *world, s *recipe.Store) {
			held := w.granted(w.startFor(s, inLine(queue, driver.Exclusive)))
			time.Sleep(ttl) // from when on its entry is watched
			require.True(w, w.Delete(held.hold.Entries()[0].ID))
			w.settle()
			require.Error(w, held.hold.Err())
		},
		"lost with the session, and never released": func(w *world, s *recipe.Store) {
			held := w.granted(w.startFor(s, inLine(queue, driver.Exclusive)))
			w.Partition(s, true)
			time.Sleep(2 * ttl)
			require.ErrorIs(w, held.hold.Err(), recipe.ErrLost)
			w.Partition(s, false)
			time.Sleep(2 * ttl)
		},
		"read by many": func(w *world, s *recipe.Store) {
			var tries []*try
			for range 5 {
				tries = append(tries, w.granted(w.startFor(s, inLine(queue, driver.Read))))
			}
			require.Len(w, w.Entries(queue), 1)
			for _, t := range tries {
				w.release(t)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(w *world) {
				s := w.open()
				play(w, s)
				w.settle()
				require.Zero(w, s.LinesInUse())
			})
		})
	}
}
