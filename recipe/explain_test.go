//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/nested"
	"github.com/farsync/farsync/recipe"
)

// on returns a context that stands for the hold.
func (t *try) on(w *world) context.Context { return nested.Under(w.Context(), standing{t.hold}) }

// TestExplainedHoldGoesOn: the entry says what its holder waits for, and the hold is as it was.
func TestExplainedHoldGoesOn(t *testing.T) {
	for _, k := range []driver.Kind{driver.Exclusive, driver.Write, driver.Read} {
		inBubble(t, func(w *world) {
			a, b := w.open(), w.open()
			first, other := w.granted(w.startFor(a, recipe.Request{Queue: queue, Kind: k, Units: 1})), recipe.Request{Queue: queue, Kind: k, Units: 1}
			require.NoError(w, recipe.Explain(first.on(w), a, "4711 sleep"))
			require.NoError(w, recipe.Explain(first.on(w), b, "another"), "it is no lease of that Store")
			e := w.Entries(queue)[0]
			require.Equal(w, "4711 sleep", recipe.WaitsFor(e))
			require.Equal(w, words{holder: "client-1"}, said(e))
			time.Sleep(5 * ttl)
			require.NoError(w, first.hold.Err())
			require.NoError(w, recipe.Explain(first.on(w), a, "4712 sh"))
			require.Equal(w, "4712 sh", recipe.WaitsFor(w.Entries(queue)[0]))
			second := w.startFor(b, other)
			w.release(first)
			w.release(w.granted(second))
		})
	}
}

// TestExplainLeavesWordsThatOthersHaveLeft: a lease that is asked for is given back, whatever its holder has to say.
func TestExplainLeavesWordsThatOthersHaveLeft(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first := w.granted(w.start(a))
		asked := make(chan error, 1)
		require.NoError(w, recipe.Queue{Store: b, Path: queue}.Ask(w.Context(), w.Entries(queue)[0]))
		_ = recipe.Explain(first.on(w), a, "4711 sleep")
		go func() { asked <- first.hold.Asked(w.Context()) }()
		w.settle()
		require.NoError(w, <-asked)
		w.release(first)
	})
}

// TestExplainHasNoSayInALease: whatever becomes of the request, the lease is held, and given back at once.
func TestExplainHasNoSayInALease(t *testing.T) {
	refused := errors.New("refused")
	for _, fault := range []farsynctest.Fault{
		farsynctest.LoseRequest, farsynctest.LoseReply, farsynctest.Late(1), farsynctest.Refuse(refused), farsynctest.Silence(true), farsynctest.Silence(false),
	} {
		inBubble(t, func(w *world) {
			a, b := w.open(), w.open()
			first, second := w.granted(w.start(a)), w.start(b)
			w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				if op.Kind == farsynctest.Replace {
					return fault
				}
				return farsynctest.None
			})
			ctx, cancel := context.WithCancel(first.on(w))
			explained := make(chan error, 1)
			go func() { explained <- recipe.Explain(ctx, a, "4711 sleep") }()
			time.Sleep(3 * ttl)
			require.NoError(w, first.hold.Err())
			began := time.Now()
			cancel()
			<-explained //nolint:errcheck // whatever it says
			require.NoError(w, first.hold.Release())
			require.Zero(w, time.Since(began))
			w.settle()
			w.release(w.granted(second))
		})
	}
}

// TestExplainRefusesAnotherText: a line is all that an entry has room for.
func TestExplainRefusesAnotherText(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		first := w.granted(w.start(s))
		for _, text := range []string{"two\nlines", "\x1b[2J", string(make([]byte, 257))} {
			require.Error(w, recipe.Explain(first.on(w), s, text))
		}
		require.NoError(w, recipe.Explain(w.Context(), s, "no lease"))
		require.Empty(w, recipe.WaitsFor(w.Entries(queue)[0]))
		w.release(first)
		leader := w.granted(w.startFor(s, recipe.Request{Queue: queue, Kind: driver.Candidate, Units: 1, Value: []byte("mine")}))
		require.ErrorIs(w, recipe.Explain(leader.on(w), s, "4711 sleep"), errors.ErrUnsupported)
		require.Equal(w, "mine", string(w.Entries(queue)[0].Value))
		w.release(leader)
		require.Error(w, recipe.Explain(leader.on(w), s, "4711 sleep"), "it is over")
	})
}

// TestAnswerLeavesTheWords: a client that asked for another turn is answered in the place of the value, and then the
// entry says again who holds and what for.
func TestAnswerLeavesTheWords(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first := w.granted(w.start(a))
		require.NoError(w, recipe.Explain(first.on(w), a, "4711 sleep"))
		time.Sleep(ttl)
		require.NoError(w, recipe.Queue{Store: b, Path: queue}.AskTurn(w.Context(), w.Entries(queue)[0], 3))
		time.Sleep(3 * ttl)
		e := w.Entries(queue)[0]
		require.Equal(w, words{holder: "client-1"}, said(e))
		require.Equal(w, "4711 sleep", recipe.WaitsFor(e))
		w.release(first)
	})
}
