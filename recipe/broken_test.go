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

// handedOn returns a hold in its second turn, and the gate.
func handedOn(w *world, s *recipe.Store) (*recipe.Hold, gate) {
	g := newGate(s)
	first := w.granted(w.startGate(g))
	second := w.startGate(g)
	w.release(first)
	h := w.granted(second).hold
	_, turn := h.Token()
	require.Equal(w, 1, turn)
	return h, g
}

// A Break of a version before turns were named is for the first turn: whoever leaves it has seen the entry, and no
// other.
func TestBreakOfAnEarlierVersion(t *testing.T) {
	const words = "break\nclient of before\nstuck"
	tell := func(w *world) driver.Session {
		service := w.Service("before")
		in, err := service.Open(w.Context(), ttl)
		require.NoError(w, err)
		w.Cleanup(func() {
			require.NoError(w, in.Close(context.WithoutCancel(w.Context())))
			require.NoError(w, service.Close())
		})
		_, err = in.Tell(w.Context(), w.Entries(queue)[0], words)
		require.NoError(w, err)
		return in
	}
	inBubble(t, func(w *world) {
		first := w.granted(w.start(w.open())).hold
		tell(w)
		time.Sleep(ttl)
		require.ErrorIs(w, first.Err(), recipe.ErrBroken)
		require.ErrorContains(w, first.Err(), "broken by client of before: stuck")
		require.ErrorIs(w, first.Release(), recipe.ErrLost)
	})
	inBubble(t, func(w *world) {
		h, _ := handedOn(w, w.open())
		in := tell(w)
		time.Sleep(ttl / 2)
		require.NoError(w, h.Err(), "it is another lease")
		heard, err := in.Heard(w.Context(), w.Entries(queue)[0])
		require.NoError(w, err)
		require.Equal(w, "turn\nclient-1\n\nturn=1", heard)
		require.NoError(w, h.Release())
	})
}

// What Break leaves is read by versions that know no turns, which end whichever is held.
func TestWordsOfBreak(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		h := w.granted(w.start(a)).hold
		e := w.Entries(queue)[0]
		ctx, cancel := context.WithTimeout(w.Context(), time.Second) // it has not been held for long enough to hear
		defer cancel()
		require.ErrorIs(w, recipe.Queue{Store: b, Path: queue}.Break(ctx, e, 0, "on\ntwo lines", false), context.DeadlineExceeded)
		service := w.Service("looker")
		in, err := service.Open(w.Context(), ttl)
		require.NoError(w, err)
		heard, err := in.Heard(w.Context(), e)
		require.NoError(w, err)
		require.Equal(w, "break\nclient-2\non two lines\nturn=0", heard)
		require.NoError(w, in.Close(w.Context()))
		require.NoError(w, service.Close())
		require.Equal(w, 1, w.Words())
		time.Sleep(ttl)
		require.ErrorIs(w, h.Err(), recipe.ErrBroken, "whoever gave up has left the words")
		require.ErrorIs(w, h.Release(), recipe.ErrBroken)
		w.settle()
		require.Zero(w, w.Words())
	})
}

// A later Ask, and a later Break, replace the words of a Break that was not heard yet. They are left again.
func TestBreakWhoseWordsAreReplaced(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		h, _ := handedOn(w, a)
		e := w.Entries(queue)[0]
		q, other := recipe.Queue{Store: b, Path: queue}, recipe.Queue{Store: c, Path: queue}
		results := make(chan error, 2)
		go func() { results <- q.Break(w.Context(), e, 1, "stuck", false) }()
		time.Sleep(50 * time.Millisecond)
		go func() { results <- other.Break(w.Context(), e, 0, "what was seen before", false) }()
		time.Sleep(50 * time.Millisecond)
		require.NoError(w, other.Ask(w.Context(), e))
		for range 2 {
			if err := <-results; err != nil { // that of the second, if it was answered before the entry was gone
				require.ErrorIs(w, err, recipe.ErrReleased)
			}
		}
		require.ErrorIs(w, h.Err(), recipe.ErrBroken)
		require.ErrorContains(w, h.Err(), "client-2: stuck")
		require.ErrorIs(w, h.Release(), recipe.ErrBroken)
	})
}

// A holder who was asked and keeps the lock hears of a Break within ten seconds and a look, however long the TTL is: the words of
// the Break replace those that asked, of which the watch on the entry tells nothing.
func TestBreakOfAHolderWhoWasAsked(t *testing.T) {
	for _, ttl := range []time.Duration{ttl, time.Hour} {
		inBubble(t, func(w *world) {
			s, other := w.with(recipe.Options{TTL: ttl, Holder: "holder"}), w.open()
			defer func() { require.NoError(w, s.Close()) }()
			h := w.granted(w.start(s)).hold
			q := recipe.Queue{Store: other, Path: queue}
			time.Sleep(5 * time.Second) // it is watched
			require.NoError(w, q.Ask(w.Context(), w.Entries(queue)[0]))
			time.Sleep(time.Second) // and has heard
			began := time.Now()
			require.NoError(w, q.Break(w.Context(), w.Entries(queue)[0], 0, "stuck", false))
			require.LessOrEqual(w, time.Since(began), min(ttl/3, 10*time.Second)+time.Second)
			require.ErrorIs(w, h.Err(), recipe.ErrBroken)
			require.ErrorIs(w, h.Release(), recipe.ErrLost)
		})
	}
}

// Who asks for one turn does not ask the goroutine that was handed the entry next.
func TestAskTurn(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		h, _ := handedOn(w, a)
		asked := make(chan error, 1)
		go func() { asked <- h.Asked(context.WithoutCancel(w.Context())) }()
		q := recipe.Queue{Store: b, Path: queue}
		require.NoError(w, q.AskTurn(w.Context(), w.Entries(queue)[0], 0))
		time.Sleep(ttl)
		require.Empty(w, asked)
		list, _, err := q.List(w.Context(), 0)
		require.NoError(w, err)
		require.ErrorIs(w, q.AskTurn(w.Context(), list[0], 0), recipe.ErrReleased, "the entry says its turn by now")
		require.NoError(w, q.AskTurn(w.Context(), list[0], 1))
		require.NoError(w, <-asked)
		require.NoError(w, h.Release())
	})
}

// An entry says the turn that is held on it with one write, and only of a hold that lasts.
func TestEntrySaysItsTurn(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		h, _ := handedOn(w, a)
		turnIs := func(s *recipe.Store, turn int) {
			t.Helper()
			list, held, err := recipe.Queue{Store: s, Path: queue}.List(w.Context(), 0)
			require.NoError(w, err)
			require.Equal(w, 1, held)
			require.Equal(w, turn, list[0].Turn)
		}
		turnIs(a, 1)
		turnIs(b, 0)
		time.Sleep(10 * ttl)
		turnIs(b, 1)
		require.Equal(w, 1, w.Count(farsynctest.Replace))
		require.NoError(w, h.Release())
		w.release(w.granted(w.start(b)))
		require.Equal(w, 1, w.Count(farsynctest.Replace))
	})
}
