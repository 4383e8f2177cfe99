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

// stand appends an entry of a kind that stays until its session ends, as that of a client which looks at nothing.
func (w *world) stand(name string, k driver.Kind) (driver.Session, driver.Entry) {
	session, err := w.Service(name).Open(w.Context(), 24*time.Hour)
	require.NoError(w, err)
	e := driver.Entry{Queue: queue, ID: session.NewID(queue, k, 1), Kind: k, Units: 1, Value: []byte(name)}
	v, err := session.Create(w.Context(), e, 0)
	require.NoError(w, err)
	return session, v.Self
}

func TestKindIsThatOfTheHead(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first := w.granted(w.start(a))
		intruder, _ := w.stand("intruder", driver.Permit)
		w.ResetCount()
		second := w.start(b)
		require.Len(w, w.Entries(queue), 3, "it waits behind the intruder as behind all that blocks")
		require.Zero(w, w.Count(farsynctest.Find, farsynctest.List), "what Create has shown has the oldest entry in it")
		w.release(first)
		require.False(w, second.returned())
		require.NoError(w, intruder.Close(w.Context()))
		w.release(w.granted(second))
	})
}

// A Try is shown the oldest entry of a crowd: one look says whose queue it is, whoever is behind.
func TestKindOfALongQueue(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.open()
		holder, _ := w.stand("holder", driver.Exclusive)
		for range 3 {
			w.stand("waiter", driver.Exclusive)
		}
		w.ResetCount()
		_, err := recipe.Acquire(w.Context(), a, new(trying(exclusive)))
		require.ErrorIs(w, err, recipe.ErrLocked)
		require.Equal(w, 1, w.Count(), "behind its own family nothing more is read")
		w.stand("intruder", driver.Candidate)
		w.ResetCount()
		_, err = recipe.Acquire(w.Context(), a, new(trying(exclusive)))
		require.ErrorIs(w, err, recipe.ErrLocked)
		require.Equal(w, 1, w.Count(), "the oldest was shown, which says whose queue it is")
		require.NoError(w, holder.Close(w.Context()))
		for _, e := range w.Entries(queue) {
			if e.Kind == driver.Exclusive {
				w.Delete(e.ID)
			}
		}
		_, err = recipe.Acquire(w.Context(), a, new(trying(exclusive)))
		require.ErrorIs(w, err, driver.ErrKind)
		require.EqualError(w, err, `the path is used as another kind of lock: "intruder" (entry "`+w.Entries(queue)[0].ID+
			`") has it as an election, and this call asks for a mutex: take another path, or the same kind`)
		w.ExpireClient("waiter")
		w.ExpireClient("intruder")
	})
}

// An intruder may be at the head for the moment in which it finds out that it is one: the holder before it has released.
func TestKindOutwaitsAnIntruder(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.open()
		for _, stays := range []time.Duration{time.Millisecond, 900 * time.Millisecond, 5 * time.Second} {
			intruder, _ := w.stand("intruder", driver.Permit)
			began := time.Now()
			asks := w.start(a)
			require.Len(w, w.Entries(queue), 1, "it must not stand in the way of those whose queue it may be")
			time.Sleep(stays)
			require.NoError(w, intruder.Close(w.Context()))
			<-asks.done
			if stays < time.Second {
				w.granted(asks)
				w.release(asks)
				continue
			}
			require.ErrorIs(w, asks.err, driver.ErrKind)
			require.Equal(w, time.Second, asks.at.Sub(began))
		}
		// The caller's own time may be shorter: what is known by then is the answer.
		intruder, _ := w.stand("intruder", driver.Permit)
		ctx, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := recipe.Acquire(ctx, a, &exclusive)
		require.ErrorIs(w, err, driver.ErrKind)
		require.NotErrorIs(w, err, context.DeadlineExceeded)
		require.NoError(w, intruder.Close(w.Context()))
	})
}

// That the head stays is an answer to all that stand in a line: it was given the time to leave once, and not once for each.
func TestKindIsAnAnswerToTheWholeLine(t *testing.T) {
	for _, first := range []string{"a caller", "the line"} {
		inBubble(t, func(w *world) {
			a := w.open()
			intruder, _ := w.stand("intruder", driver.Permit)
			g := newGate(a)
			began := time.Now()
			tries := []*try{w.startGate(g)}
			for range 19 {
				tries = append(tries, w.startGate(g))
			}
			if first == "the line" {
				tries[0].cancel()
				w.settle()
				require.ErrorIs(w, tries[0].err, driver.ErrKind, "what is known when it gives up")
				tries = tries[1:]
			}
			for _, asks := range tries {
				<-asks.done
				require.ErrorIs(w, asks.err, driver.ErrKind)
				require.Equal(w, time.Second, asks.at.Sub(began))
			}
			require.Len(w, w.Entries(queue), 1)
			require.NoError(w, intruder.Close(w.Context()))
			w.release(w.granted(w.startGate(g)))
		})
	}
}

// A look may show what is gone already, as ZooKeeper's does for a moment: the holder's entry is read before a call is
// refused for it.
func TestKindOfAHeadThatIsGone(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.open()
		session, head := w.stand("", driver.Permit)
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Find {
				w.Delete(head.ID)
			}
			return farsynctest.None
		})
		asks := w.start(a)
		require.Zero(w, time.Since(w.granted(asks).at))
		w.release(asks)
		w.SetFault(nil)
		require.NoError(w, session.Close(w.Context()))
	})
}

// A semaphore that is refused has declared no size.
func TestKindOfAPermit(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first := w.granted(w.start(a))
		_, err := recipe.Acquire(w.Context(), b, new(permits(1, 3)))
		require.ErrorIs(w, err, driver.ErrKind)
		require.ErrorIs(w, resize(w.Context(), b, 3, 4), driver.ErrKind)
		_, err = recipe.Acquire(w.Context(), b, new(trying(permits(1, 3))))
		require.ErrorIs(w, err, driver.ErrKind)
		require.Zero(w, w.Count(farsynctest.SetRegister))
		require.Len(w, w.Entries(queue), 1)
		w.release(first)
	})
}
