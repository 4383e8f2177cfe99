//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/recipe"
)

// A chronicle is what a Trace was told, in words.
type chronicle struct{ locktest.Chronicle }

type callKey struct{}

// trace returns a Trace that writes down what it is told, and looks at what holds whenever a call waits.
func (c *chronicle) trace() *recipe.Trace {
	var calls atomic.Int64
	name := func(ctx context.Context) any { return ctx.Value(callKey{}) }
	return &recipe.Trace{
		Acquire: func(ctx context.Context, w recipe.Want) (context.Context, func(recipe.Got)) {
			n := calls.Add(1)
			c.Write("%d wants %v %s of %s, %d units, try %t", n, w.Kind, w.Path, w.Store, w.Units, w.Try)
			return context.WithValue(ctx, callKey{}, n), func(g recipe.Got) {
				again := ""
				if g.Rejoined > 0 {
					again = fmt.Sprint(", joined again ", g.Rejoined)
				}
				c.Write("%d got it: %t, local %t, after %v%s", n, g.Err == nil, g.Local, g.Waited, again)
			}
		},
		Wait: func(ctx context.Context, _ recipe.Want, b recipe.Behind) {
			holder, note := b.Look(ctx)
			c.Write("%v waits behind %d, of which %q holds, %q, local %t", name(ctx), b.Ahead, holder, note, b.Local)
		},
		Ended: func(e recipe.End) {
			c.Write("%s %s ended after %v: %v, unconfirmed %v", e.Store, e.Path, e.Held, e.Err, e.Unconfirmed)
		},
		Session: func(h recipe.Health) {
			c.Write("session %v, was %v, opened %t, ttl %v, round trip %v, left %v: %v",
				h.State, h.Was, h.Opened, h.TTL, h.RoundTrip, h.Left, h.Cause)
		},
		Note: func(ctx context.Context, _ recipe.Want) string { return fmt.Sprint("note of ", name(ctx)) },
	}
}

// traced opens a Store that a chronicle is written of.
func (w *world) traced(name string) (*recipe.Store, *chronicle) {
	c := &chronicle{}
	s := w.with(recipe.Options{TTL: ttl, Holder: name, Name: "test", Trace: c.trace()})
	w.Cleanup(func() {
		w.Partition(s, false)
		require.NoError(w, s.Close())
	})
	w.settle()
	return s, c
}

func (w *world) wrote(c *chronicle, lines ...string) {
	w.Helper()
	w.settle()
	require.Equal(w, lines, c.Take())
}

func TestTraceOfAFreeLock(t *testing.T) {
	inBubble(t, func(w *world) {
		s, c := w.traced("one")
		w.wrote(c, "session connected, was unknown, opened true, ttl 10s, round trip 0s, left 9.5s: <nil>")
		h := w.granted(w.startGate(newGate(s)))
		w.wrote(c, "1 wants exclusive /q of test, 1 units, try false", "1 got it: true, local false, after 0s")
		require.Equal(w, words{holder: "one", note: "note of 1"}, said(w.Entries(queue)[0]))
		time.Sleep(time.Second)
		w.release(h)
		w.wrote(c, "test /q ended after 1s: released, unconfirmed <nil>")
		require.ErrorIs(w, h.hold.Release(), recipe.ErrReleased)
		w.wrote(c)
	})
}

func TestTraceOfThoseThatWait(t *testing.T) {
	inBubble(t, func(w *world) {
		s, c := w.traced("one")
		far, other := w.traced("far")
		first := w.granted(w.startGate(newGate(far)))
		g := newGate(s)
		c.Take()
		w.Count()
		second := w.startGate(g)
		w.wrote(c, "1 wants exclusive /q of test, 1 units, try false", `1 waits behind 1, of which "far" holds, "note of 1", local false`)
		third := w.startGate(g)
		w.wrote(c, "2 wants exclusive /q of test, 1 units, try false", `2 waits behind 1, of which "far" holds, "note of 1", local true`)
		time.Sleep(time.Second)
		w.release(first)
		w.granted(second)
		w.wrote(c, "1 got it: true, local false, after 1s")
		fourth := w.startGate(g)
		w.wrote(c, "3 wants exclusive /q of test, 1 units, try false", `3 waits behind 2, of which "one" holds, "note of 1", local true`)
		w.release(second)
		w.granted(third)
		got := c.Take()
		require.Contains(w, got, "2 got it: true, local true, after 1s")
		require.Contains(w, got, "test /q ended after 0s: released, unconfirmed <nil>")
		fourth.cancel()
		w.settle()
		w.wrote(c, "3 got it: false, local false, after 0s")
		other.Take()
		_, err := recipe.Acquire(w.Context(), far, new(trying(exclusive)))
		require.ErrorIs(w, err, recipe.ErrLocked)
		w.wrote(other, "2 wants exclusive /q of test, 1 units, try true", "2 got it: false, local false, after 0s")
		w.release(third)
		w.wrote(c, "test /q ended after 0s: released, unconfirmed <nil>")
	})
}

// The line's entry was made for the first of the line, and bears the note of that.
func TestTraceOfALineThatIsCarried(t *testing.T) {
	inBubble(t, func(w *world) {
		s, c := w.traced("one")
		g := newGate(s)
		first := w.granted(w.startGate(g))
		line := w.startGates(g, 2)
		time.Sleep(time.Second)
		list := w.Entries(queue)
		require.Len(w, list, 3, "its turns are slow")
		require.Equal(w, "note of 2", said(list[1]).note)
		c.Take()
		w.release(first)
		w.granted(line[0])
		require.NotContains(w, fmt.Sprint(c.Take()), "waits", "those of the line have said so already")
		w.release(line[0])
		w.release(w.granted(line[1]))
	})
}

func TestTraceOfAWaiterWhoseSessionIsLost(t *testing.T) {
	inBubble(t, func(w *world) {
		s, c := w.traced("one")
		far := w.open()
		first := w.granted(w.start(far))
		second := w.start(s)
		c.Take()
		w.Expire(s)
		time.Sleep(5 * time.Second)
		w.settle()
		require.ElementsMatch(w, []string{ // the session and those that wait for it are told by two goroutines
			"session lost, was connected, opened false, ttl 10s, round trip 0s, left 0s: " +
				"lost: the service has ended the session: the service knows no such session",
			"session connected, was lost, opened true, ttl 10s, round trip 0s, left 9.5s: <nil>",
			`1 waits behind 1, of which "client-1" holds, "", local false`,
		}, c.Take())
		w.Delete(w.Entries(queue)[1].ID)
		w.release(first)
		w.finally(second)
		require.Regexp(w, `1 got it: true, local false, after [0-9.]+s, joined again 2`, strings.Join(c.Take(), "\n"))
		w.release(second)
	})
}

// Rejoined counts entries lost by the call that they were made for. Calls that take a later turn of the line report 0.
func TestTraceOfALineWhoseSessionIsLost(t *testing.T) {
	inBubble(t, func(w *world) {
		s, c := w.traced("one")
		first := w.granted(w.start(w.open()))
		g := newGate(s)
		gone := w.startGate(g)
		line := w.startGates(g, 2)
		gone.cancel()
		w.settle()
		w.Expire(s)
		time.Sleep(5 * time.Second)
		c.Take()
		w.release(first)
		w.release(w.granted(line[0]))
		w.release(w.granted(line[1]))
		var got []string
		for _, line := range c.Take() {
			if strings.Contains(line, "got") {
				got = append(got, line)
			}
		}
		require.Equal(w, []string{"2 got it: true, local false, after 5s, joined again 1", "3 got it: true, local true, after 5s"}, got)
	})
}

func TestTraceOfWhatIsLost(t *testing.T) {
	lost := func(w *world, after time.Duration, how func(s *recipe.Store, h *try), line string) {
		s, c := w.traced("one")
		g := newGate(s)
		h := w.granted(w.startGate(g))
		again, err := h.hold.Again()
		require.NoError(w, err)
		time.Sleep(after)
		c.Take()
		how(s, h)
		time.Sleep(5 * time.Second)
		var ends []string
		for _, l := range c.Take() {
			if l[0] == 't' {
				ends = append(ends, l)
			}
		}
		require.Equal(w, []string{line}, ends)
		_ = again.Release()
		_ = h.hold.Release()
		w.settle()
		require.NotContains(w, fmt.Sprint(c.Take()), "ended", "it is told once")
	}
	inBubble(t, func(w *world) {
		lost(w, time.Second, func(s *recipe.Store, _ *try) { w.Expire(s) },
			"test /q ended after 2.5s: lost: the service has ended the session: the service knows no such session, unconfirmed <nil>")
	})
	inBubble(t, func(w *world) {
		lost(w, 5*time.Second, func(_ *recipe.Store, h *try) { require.NoError(w, h.hold.Release()); w.Delete(w.Entries(queue)[0].ID) },
			"test /q ended after 5s: lost: its entry was removed by another client, unconfirmed <nil>")
	})
	inBubble(t, func(w *world) {
		lost(w, 5*time.Second, func(s *recipe.Store, _ *try) { require.NoError(w, s.Close()) },
			"test /q ended after 5s: store closed, unconfirmed <nil>")
	})
	inBubble(t, func(w *world) {
		lost(w, 5*time.Second, func(_ *recipe.Store, h *try) { w.Delete(w.Entries(queue)[0].ID); _ = h.hold.Release() },
			"test /q ended after 5s: lost: its entry was removed by another client, unconfirmed <nil>")
	})
}

func TestTraceOfAReleaseThatIsNotConfirmed(t *testing.T) {
	inBubble(t, func(w *world) {
		s, c := w.traced("one")
		h := w.granted(w.start(s))
		c.Take()
		refusal := errors.New("not now")
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Delete {
				return farsynctest.Refuse(refusal)
			}
			return farsynctest.None
		})
		require.ErrorIs(w, h.hold.Release(), refusal)
		w.wrote(c, "test /q ended after 0s: released, unconfirmed delete: not now")
		w.SetFault(nil)
		again := w.finally(w.start(s))
		c.Take()
		again.hold.Abandon()
		w.wrote(c, "test /q ended after 0s: released, unconfirmed <nil>")
	})
}

func TestTraceOfASession(t *testing.T) {
	inBubble(t, func(w *world) {
		s, c := w.traced("one")
		w.SetLatency(100 * time.Millisecond)
		c.Take()
		time.Sleep(3 * time.Second)
		w.wrote(c, "session connected, was connected, opened false, ttl 10s, round trip 200ms, left 6.8s: <nil>")
		w.Partition(s, true)
		time.Sleep(5 * time.Second)
		got := c.Take()
		require.Len(w, got, 1, "it is overdue once")
		require.Regexp(w, "^session suspended, was connected, opened false, ttl 10s, round trip 0s, left [0-9.]+m?s: ", got[0])
		w.Partition(s, false)
		time.Sleep(2 * time.Second)
		require.Regexp(w, "^session connected, was suspended, opened false, ttl 10s, ", c.Take()[0])
		w.SetLatency(0)
		require.NoError(w, s.Close())
		w.wrote(c, "session lost, was connected, opened false, ttl 10s, round trip 0s, left 0s: store closed")
	})
}

// A Trace whose functions are nil is told nothing, and neither is one that has some.
func TestTraceInPart(t *testing.T) {
	inBubble(t, func(w *world) {
		ended := 0
		for _, trace := range []*recipe.Trace{{}, {Ended: func(recipe.End) { ended++ }}} {
			s := w.with(recipe.Options{TTL: ttl, Trace: trace})
			g := newGate(s)
			first := w.granted(w.startGate(g))
			line := w.startGates(g, 2)
			w.release(first)
			w.serves(line...)
			require.NoError(w, s.Close())
		}
		require.Equal(w, 3, ended)
	})
}

// A note that cannot be published is none.
func TestTraceOfANoteThatIsTooLong(t *testing.T) {
	inBubble(t, func(w *world) {
		for _, note := range []string{string(make([]byte, 257)), "\n", "a\nunder=b"} {
			s := w.with(recipe.Options{TTL: ttl, Holder: "h", Trace: &recipe.Trace{
				Note: func(context.Context, recipe.Want) string { return note },
			}})
			h := w.granted(w.start(s))
			require.Equal(w, "h", string(w.Entries(queue)[0].Value))
			w.release(h)
			candidate := recipe.Request{Queue: queue, Kind: driver.Candidate, Units: 1}
			h = w.granted(w.startFor(s, candidate))
			require.Equal(w, "h", string(w.Entries(queue)[0].Value))
			w.release(h)
			require.NoError(w, s.Close())
		}
	})
}
