//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/nested"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/recipe"
)

// maxEntries is how many entries may stand in the queue for the goroutines of one gate.
const maxEntries = 16

// startGates is startGate, n times.
func (w *world) startGates(g gate, n int) (tries []*try) {
	for range n {
		tries = append(tries, w.startGate(g))
	}
	return tries
}

// serves requires that the tries succeed in that order, one after another, and releases them.
func (w *world) serves(tries ...*try) {
	w.Helper()
	for i, try := range tries {
		w.finally(try)
		for _, later := range tries[i+1:] {
			require.False(w, later.returned(), "out of turn")
		}
		w.release(try)
	}
}

func TestOneEntryStandsForALine(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		remote := w.granted(w.startGate(newGate(far)))
		g := newGate(near)
		first := w.startGate(g)
		w.ResetCount()
		line := w.startGates(g, 1000)
		require.Zero(w, w.Count(), "to stand in the line costs no request")
		time.Sleep(time.Second)
		require.Len(w, w.Entries(queue), 2)
		w.ResetCount()
		w.release(remote)
		w.serves(append([]*try{first}, line...)...)
		require.Equal(w, 4, w.Count(farsynctest.Create)+1, "a grant serves 256")
		require.Equal(w, 5, w.Count(farsynctest.Delete))
		w.idle(g)
	})
}

// Turns that take their time leave a line that one entry could serve only in many rounds of the queue.
func TestEntriesForALineThatIsServedSlowly(t *testing.T) {
	for _, c := range []struct {
		line    int
		section time.Duration
		held    int // entries for the line at the end of the turns, while the last of them is held
		after   int // when that is released
	}{
		{line: 1, section: 60 * time.Millisecond, held: 1, after: 1},
		{line: 5, section: 60 * time.Millisecond, held: 5, after: 5},
		{line: 5, section: time.Hour, held: 5, after: 5},
		{line: 40, section: 60 * time.Millisecond, held: maxEntries - 1, after: maxEntries},
		{line: 12, section: 20 * time.Millisecond, held: 4, after: 4}, // 3 turns; 10 are left
		{line: 49, section: 5 * time.Millisecond, held: 4, after: 4},  // 10 turns; 40 are left
		{line: 40, section: time.Millisecond, held: 0, after: 0},      // all are served
	} {
		t.Run(fmt.Sprint(c.line, " at ", c.section), func(t *testing.T) {
			inBubble(t, func(w *world) {
				near, far := w.open(), w.open()
				g := newGate(near)
				line := []*try{w.granted(w.startGate(g))}
				remote := w.startGate(newGate(far))
				line = append(line, w.startGates(g, c.line)...)
				began := time.Now()
				for time.Since(began)+c.section < handOnFor && len(line) > 1 {
					time.Sleep(c.section)
					w.release(w.granted(line[0]))
					line = line[1:]
				}
				w.granted(line[0])
				time.Sleep(max(time.Until(began.Add(handOnFor)), 0))
				w.settle()
				require.Len(w, w.Entries(queue), 2+c.held)
				time.Sleep(max(time.Until(began.Add(handOnFor+c.section)), 0))
				w.release(line[0])
				require.Len(w, w.Entries(queue), 1+c.after)
				w.release(w.granted(remote))
				w.serves(line[1:]...)
				w.idle(g)
			})
		})
	}
}

// Those who come while the holder takes its time are as many as those who were there.
func TestEntriesForALineThatComesLate(t *testing.T) {
	inBubble(t, func(w *world) {
		g := newGate(w.open())
		holder := w.granted(w.startGate(g))
		time.Sleep(time.Minute)
		line := w.startGates(g, 3)
		require.Len(w, w.Entries(queue), 4)
		more := w.startGates(g, 30)
		require.Len(w, w.Entries(queue), maxEntries)
		w.release(holder)
		w.serves(append(line, more...)...)
		w.idle(g)
	})
}

// The next grant can serve them all: what else stands for the line goes with the line.
func TestEntriesGoWithTheLine(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		remote := w.granted(w.startGate(newGate(far)))
		g := newGate(near)
		holder := w.startGate(g)
		w.release(remote)
		w.granted(holder)
		line := w.startGates(g, 8)
		remote = w.startGate(newGate(far))
		time.Sleep(handOnFor)
		w.settle()
		require.Len(w, w.Entries(queue), 1+1+8)
		for _, try := range line[4:] {
			try.cancel()
			w.settle()
			require.ErrorIs(w, try.err, context.Canceled)
		}
		require.Len(w, w.Entries(queue), 1+1+4, "the youngest have left")
		w.release(holder)
		w.release(w.granted(remote))
		w.granted(line[0])
		require.Len(w, w.Entries(queue), 1+3)
		w.release(line[0])
		require.Equal(w, 1, turnOf(w.granted(line[1]).hold))
		require.Len(w, w.Entries(queue), 1+2)
		w.release(line[1])
		w.release(w.granted(line[2]))
		w.granted(line[3])
		require.Len(w, w.Entries(queue), 1)
		w.release(line[3])
		w.idle(g)
	})
}

// The one whose entry it is gives up: the line keeps the place.
func TestEntryIsLeftToTheLine(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far, third := w.open(), w.open(), w.open()
		remote := w.granted(w.startGate(newGate(far)))
		g := newGate(near)
		first := w.startGate(g)
		place := w.Entries(queue)[1].ID
		line := w.startGates(g, 2)
		behind := w.startGate(newGate(third))
		first.cancel()
		w.settle()
		require.ErrorIs(w, first.err, context.Canceled)
		require.Equal(w, place, w.Entries(queue)[1].ID)
		require.Len(w, w.Entries(queue), 3)
		line[0].cancel()
		w.settle()
		require.Error(w, line[0].err)
		require.Equal(w, place, w.Entries(queue)[1].ID)
		w.release(remote)
		require.Equal(w, place, w.granted(line[1]).hold.Entries()[0].ID)
		require.False(w, behind.returned())
		w.release(line[1])
		w.release(w.granted(behind))
		w.idle(g)
	})
}

// The last of the line gives up, whoever's the entry was.
func TestEntryGoesWithTheLastOfTheLine(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		remote := w.granted(w.startGate(newGate(far)))
		g := newGate(near)
		line := w.startGates(g, 3)
		for _, try := range line {
			try.cancel()
			w.settle()
			require.ErrorIs(w, try.err, context.Canceled)
		}
		require.Len(w, w.Entries(queue), 1)
		w.release(remote)
		w.idle(g)
	})
}

// It gives up in each step that it makes, while others stand behind it.
func TestTheFirstGivesUpInEachStep(t *testing.T) {
	for _, kind := range []farsynctest.OpKind{farsynctest.Create, farsynctest.Ahead, farsynctest.Watch} {
		for step := 1; step <= 2; step++ {
			inBubble(t, func(w *world) {
				var seen atomic.Int64
				near, far := w.open(), w.open()
				remote := w.granted(w.startGate(newGate(far)))
				g := newGate(near)
				reached := make(chan struct{})
				w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
					if op.Kind != kind {
						return farsynctest.None
					}
					if seen.Add(1) == int64(step) {
						close(reached)
					}
					return farsynctest.Delay(100 * time.Millisecond)
				})
				first := w.launch(func(ctx context.Context, t *try) { t.hold, t.err = g.Acquire(ctx) })
				w.settle()
				line := w.startGates(g, 2)
				release := time.AfterFunc(time.Second, func() { _ = remote.hold.Release() })
				defer release.Stop()
				select {
				case <-reached:
					first.cancel()
					w.settle()
					require.True(w, first.returned())
				case <-time.After(10 * time.Second):
				}
				if !first.returned() || first.err == nil {
					w.release(w.finally(first))
				}
				w.serves(line...)
				w.SetFault(nil)
				time.Sleep(ttl)
				w.settle()
				w.idle(g)
			})
		}
	}
}

func TestLineAfterALostSession(t *testing.T) {
	for _, left := range []bool{false, true} { // whether the entry was left to the line
		inBubble(t, func(w *world) {
			near, far := w.open(), w.open()
			remote := w.granted(w.startGate(newGate(far)))
			g := newGate(near)
			first := w.startGate(g)
			line := w.startGates(g, 20)
			if left {
				first.cancel()
				w.settle()
			} else {
				line = append([]*try{first}, line...)
			}
			w.Expire(near)
			time.Sleep(2 * ttl)
			w.settle()
			require.Len(w, w.Entries(queue), 2)
			w.release(remote)
			w.serves(line...)
			w.idle(g)
		})
	}
}

// The holder's session is over, and it does not release: the line does not wait for that.
func TestLineBehindALostHolder(t *testing.T) {
	for _, entries := range []bool{false, true} { // whether others of the line stand in the queue already
		inBubble(t, func(w *world) {
			s := w.open()
			g := newGate(s)
			holder := w.granted(w.startGate(g))
			line := w.startGates(g, 3)
			if entries {
				time.Sleep(handOnFor)
			}
			w.Expire(s)
			w.serves(line...)
			require.ErrorIs(w, holder.hold.Release(), recipe.ErrLost)
			w.idle(g)
		})
	}
}

// A person has removed the holder's entry, which the holder learns late or never.
func TestLineBehindARemovedEntry(t *testing.T) {
	for _, held := range []time.Duration{0, time.Second, time.Minute} {
		inBubble(t, func(w *world) {
			g := newGate(w.open())
			holder := w.granted(w.startGate(g))
			line := w.startGates(g, 3)
			w.Delete(w.Entries(queue)[0].ID)
			time.Sleep(held)
			if held == 0 {
				require.NoError(w, holder.hold.Release(), "its entry stands for the turns that follow")
				w.finally(line[0])
				w.release(line[0])
				w.release(w.finally(line[1]))
				require.ErrorIs(w, w.finally(line[2]).hold.Release(), recipe.ErrLost)
			} else {
				w.serves(line...)
				require.ErrorIs(w, holder.hold.Release(), recipe.ErrLost)
			}
			w.idle(g)
		})
	}
}

func TestCloseEndsALine(t *testing.T) {
	for _, behind := range []string{"another client", "a holder", "a holder that takes its time"} {
		inBubble(t, func(w *world) {
			near, far := w.open(), w.open()
			g := newGate(near)
			var remote *try
			if behind == "another client" {
				remote = w.granted(w.startGate(newGate(far)))
			}
			line := w.startGates(g, 40)
			if behind == "a holder that takes its time" {
				time.Sleep(time.Second)
				w.settle()
			}
			require.NoError(w, near.Close())
			w.settle()
			for i, try := range line {
				require.True(w, try.returned(), i)
				if try.err == nil {
					require.Equal(w, recipe.ErrClosed, try.hold.Release())
					continue
				}
				require.Equal(w, recipe.ErrClosed, try.err)
			}
			if remote != nil {
				w.release(remote)
			}
			w.settle()
			require.Empty(w, w.Entries(queue))
		})
	}
}

// What a caller waits for under another lease can be seen in the queue.
func TestNestedCallerHasAnEntryOfItsOwn(t *testing.T) {
	for _, r := range []recipe.Request{exclusive, {Queue: queue, Kind: driver.Read, Units: 1}} {
		inBubble(t, func(w *world) {
			near, far := w.open(), w.open()
			writer := exclusive
			if r.Kind == driver.Read {
				writer.Kind = driver.Write
			}
			remote := w.granted(w.startFor(far, writer))
			other := r
			other.Queue = "/other"
			over := w.granted(w.startFor(near, other))
			g := gateFor(near, r)
			line := w.startGates(g, 2)
			require.Len(w, w.Entries(queue), 2)
			under := func() *try {
				return w.begin(func(ctx context.Context, t *try) { t.hold, t.err = g.Acquire(nested.Under(ctx, over.hold)) })
			}
			inner := under()
			require.Len(w, w.Entries(queue), 3)
			inner.cancel()
			w.settle()
			require.Error(w, inner.err)
			w.release(remote)
			w.finally(line[0])
			if r.Kind == driver.Read {
				shares := under()
				w.release(w.granted(shares))
				require.Positive(w, turnOf(shares.hold), "it does not wait")
			}
			inner = under()
			w.release(line[0])
			w.release(w.finally(line[1]))
			w.release(w.finally(inner))
			w.release(over)
			inner = under()
			require.Zero(w, turnOf(w.granted(inner).hold))
			w.release(inner)
			w.idle(g)
		})
	}
}

// A standing is a hold as a context stands for it.
type standing struct{ hold *recipe.Hold }

func (s standing) Err() error { return s.hold.Err() }

func (s standing) Hold() *recipe.Hold { return s.hold }

// The entry of a caller who gives up belongs to the line from then on. The entry of a caller who holds other locks says which. So it is
// apart from the line: it would say so of callers who hold nothing, and look like a part of a deadlock that is none.
func TestNestedCallerLeavesNoEntryToTheLine(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		remote := w.granted(w.start(far))
		other := exclusive
		other.Queue = "/other"
		over := w.granted(w.startFor(near, other))
		g := newGate(near)
		inner := w.begin(func(ctx context.Context, t *try) { t.hold, t.err = g.Acquire(nested.Under(ctx, standing{over.hold})) })
		line := w.startGates(g, 2)
		before := w.Entries(queue)
		require.Len(w, before, 3)
		require.Equal(w, []string{w.Entries(other.Queue)[0].ID}, said(before[1]).under)
		require.Equal(w, words{holder: "client-1"}, said(before[2]))
		inner.cancel()
		w.settle()
		require.Error(w, inner.err)
		after := w.Entries(queue)
		require.Len(w, after, 2)
		require.Equal(w, before[2].ID, after[1].ID)
		w.release(remote)
		w.serves(line...)
		w.release(over)
		w.idle(g)
	})
}

// A guard has ended the turns on the entry.
func TestLineBehindAPinnedHolder(t *testing.T) {
	inBubble(t, func(w *world) {
		g := newGate(w.open())
		line := w.startGates(g, 6)
		for i, try := range line {
			require.Zero(w, turnOf(w.granted(try).hold))
			require.Len(w, try.hold.Entries(), 1)
			w.settle()
			require.Len(w, w.Entries(queue), 6-i, "as many as with an entry each: a grant serves one")
			w.release(try)
		}
		w.idle(g)
	})
}

// A holder that was asked for the lock, and has heard it, does not hand it on.
func TestLineBehindAnAskedHolder(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		g := newGate(near)
		holder := w.granted(w.startGate(g))
		remote := w.startGate(newGate(far))
		line := w.startGates(g, 2)
		q := recipe.Queue{Store: far, Path: queue}
		list, held, err := q.List(w.Context(), 0)
		require.NoError(w, err)
		require.Equal(w, 1, held)
		require.NoError(w, q.Ask(w.Context(), list[0]))
		require.NoError(w, holder.hold.Asked(w.Context()))
		w.release(holder)
		w.release(w.granted(remote))
		w.serves(line...)
		w.idle(g)
	})
}

var errNo = errors.New("no")

// The service refuses: each of the line has it from a request made for it.
func TestRefusalInTheLine(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		g := newGate(s)
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Create {
				return farsynctest.Refuse(errNo)
			}
			return farsynctest.None
		})
		release := make(chan struct{})
		first := w.launch(func(ctx context.Context, t *try) { <-release; t.hold, t.err = g.Acquire(ctx) })
		w.SetLatency(time.Millisecond)
		close(release)
		line := w.startGates(g, 5)
		w.ResetCount()
		for _, try := range append(line, first) {
			<-try.done
			require.ErrorIs(w, try.err, errNo)
		}
		w.SetLatency(0)
		w.SetFault(nil)
		w.idle(g)
	})
}

// The error of one in the line says as much as that of one that waits alone.
func TestErrorOfOneInTheLine(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		g := newGate(near)
		within := func(d time.Duration) error {
			ctx, cancel := context.WithTimeout(w.Context(), d)
			defer cancel()
			_, err := g.Acquire(ctx)
			require.ErrorIs(w, err, context.DeadlineExceeded)
			return err
		}
		holder := w.granted(w.startGate(g))
		require.ErrorContains(w, within(time.Millisecond), "behind another goroutine of this process")
		w.release(holder)
		remote := w.granted(w.startGate(newGate(far)))
		first := w.startGate(g)
		err := within(time.Second)
		require.ErrorContains(w, err, `waiting behind "client-2"`)
		require.NotErrorIs(w, err, recipe.ErrUnavailable)
		w.release(remote)
		w.release(w.granted(first))

		w.Partition(near, true)
		first = w.startGate(g)
		require.NotErrorIs(w, within(ttl/50), recipe.ErrUnavailable, "there is time for an answer")
		time.Sleep(time.Second)
		require.ErrorIs(w, within(time.Millisecond), recipe.ErrUnavailable)
		w.Partition(near, false)
		w.release(w.finally(first))
		w.idle(g)
	})
}

// A watch that was set up at the second attempt was answered, however long it lasts: what the line waits for is the holder.
func TestErrorOfOneInTheLineBehindAWatchThatStands(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		g := newGate(near)
		remote := w.granted(w.startGate(newGate(far)))
		w.SetFault(plan(farsynctest.Watch, farsynctest.LoseRequest))
		first := w.startGate(g)
		time.Sleep(ttl)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err := g.Acquire(ctx)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.NotErrorIs(w, err, recipe.ErrUnavailable)
		w.release(remote)
		w.release(w.finally(first))
		w.idle(g)
	})
}

// An asking lease asks a gate when it is asked whether it is held, as that of a QuorumMutex gives up others.
type asking struct{ of gate }

func (a asking) Err() error {
	_, err := a.of.TryAcquire(context.Background())
	if errors.Is(err, recipe.ErrLocked) {
		return nil
	}
	return err
}

// Whether a caller holds something is asked with nothing locked. Two such questions could wait for one another.
func TestLeaseOfACallerIsAskedWithNothingLocked(t *testing.T) {
	inBubble(t, func(w *world) {
		g := newGate(w.open())
		first := w.granted(w.startGate(g))
		second := w.begin(func(ctx context.Context, t *try) { t.hold, t.err = g.Acquire(nested.Under(ctx, asking{g})) })
		w.release(first)
		w.release(w.granted(second))
		w.idle(g)
	})
}

// Readers stand in one line, too, and come in all at once.
func TestReadersBehindOneEntry(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		write, read := exclusive, exclusive
		write.Kind, read.Kind = driver.Write, driver.Read
		writer := w.granted(w.startFor(far, write))
		g := gateFor(near, read)
		readers := w.startGates(g, 200)
		time.Sleep(time.Second)
		require.Len(w, w.Entries(queue), 2)
		readers = append(readers, w.startGates(g, 200)...)
		require.Len(w, w.Entries(queue), 3, "a grant serves 256")
		readers[0].cancel()
		w.settle()
		require.Error(w, readers[0].err)
		w.release(writer)
		for _, try := range readers[1:] {
			w.granted(try)
		}
		for _, try := range readers[1:] {
			w.release(try)
		}
		w.idle(g)
	})
}

// A release wakes one of the line, and TryAcquire does not take its turn.
func TestTryAcquireBesideALine(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		remote := w.granted(w.startGate(newGate(far)))
		g := newGate(near)
		line := w.startGates(g, 2)
		w.ResetCount()
		_, err := g.TryAcquire(w.Context())
		require.ErrorIs(w, err, recipe.ErrLocked)
		require.Zero(w, w.Count())
		w.release(remote)
		w.serves(line...)
		w.idle(g)
	})
}

// A line that waits for a service which does not answer is in the way of no Try: that asks for itself, and says what the service
// does.
func TestTryAcquireBesideALineWithoutAnAnswer(t *testing.T) {
	for _, away := range []bool{false, true} { // whether the Store knows that the service does not answer
		inBubble(t, func(w *world) {
			s := w.open()
			g := newGate(s)
			w.Partition(s, true)
			line := w.startGates(g, 2)
			if away {
				time.Sleep(ttl / 2)
				require.Equal(w, recipe.Suspended, s.State())
			}
			ctx, cancel := context.WithTimeout(w.Context(), ttl/4)
			defer cancel()
			_, err := g.TryAcquire(ctx)
			require.ErrorIs(w, err, context.DeadlineExceeded)
			require.ErrorIs(w, err, recipe.ErrUnavailable)
			require.NotErrorIs(w, err, recipe.ErrLocked)
			for _, try := range line[1:] {
				try.cancel()
				w.settle()
				require.ErrorIs(w, try.err, recipe.ErrUnavailable)
				require.NotContains(w, try.err.Error(), "another goroutine", "none holds")
			}
			w.Partition(s, false)
			w.release(w.finally(line[0]))
			w.idle(g)
		})
	}
}

// One that tries and is slow to learn that it cannot does not keep others.
func TestNoneWaitsForOneThatTries(t *testing.T) {
	inBubble(t, func(w *world) {
		g := newGate(w.open())
		w.SetFault(faults(farsynctest.Ahead, 1, farsynctest.Delay(3*time.Second)))
		tries := w.begin(func(ctx context.Context, t *try) { t.hold, t.err = g.TryAcquire(ctx) })
		require.False(w, tries.returned())
		holder := w.granted(w.startGate(g))
		<-tries.done
		require.ErrorIs(w, tries.err, recipe.ErrLocked)
		w.release(holder)
		w.idle(g)
	})
}

// However long the sections, no goroutine waits for much longer than if each stood in the queue by itself, and those of other
// processes wait for less.
func TestLongestWaitBesideACrowd(t *testing.T) {
	const crowd = 50
	for _, section := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(section.String(), func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.SetLatency(500 * time.Microsecond)
				each := (crowd + 1) * (section + time.Millisecond) // a round in which each holds once
				ctx, cancel := context.WithTimeout(w.Context(), 20*each)
				defer cancel()
				var mu sync.Mutex
				longest := map[string]time.Duration{}
				served := make([]float64, crowd)
				var all sync.WaitGroup
				lock := func(g gate, who string, i int) {
					for ctx.Err() == nil {
						began := time.Now()
						h, err := g.Acquire(ctx)
						if err != nil {
							return
						}
						mu.Lock()
						longest[who] = max(longest[who], time.Since(began))
						if who == "crowd" {
							served[i]++
						}
						mu.Unlock()
						time.Sleep(section)
						_ = h.Release()
						time.Sleep(time.Millisecond)
					}
				}
				g, alone := newGate(w.open()), newGate(w.open())
				for i := range crowd {
					all.Go(func() { lock(g, "crowd", i) })
				}
				all.Go(func() { lock(alone, "alone", 0) })
				for ctx.Err() == nil {
					time.Sleep(each / 10)
					require.LessOrEqual(w, len(w.Entries(queue)), maxEntries+2) // one may be on its way out
				}
				all.Wait()
				require.Less(w, longest["crowd"], each*5/4)
				require.Less(w, longest["alone"], min(each, maxEntries*(handOnFor+section)))
				require.Greater(w, jain(served), 0.95)
			})
		})
	}
}

// jain is the fairness index of Jain, Chiu and Hawe (1984): from 1/n, where one has all, to 1, where all have the same.
func jain(each []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range each {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(each)) * squares)
}

// Goroutines of some gates lock, give up, guard, nest and try, while sessions end and requests are lost. All that do not give
// up are served, nothing is left, and no two hold.
func TestCohortPlays(t *testing.T) {
	plays := uint64(24)
	if suite.More(t, suite.Model) {
		plays = 100
	}
	for seed := range plays {
		inBubble(t, func(w *world) {
			defer func() {
				if w.Failed() {
					w.Logf("seed %d", seed)
				}
			}()
			random := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			chance := func(p float64) bool { mu.Lock(); defer mu.Unlock(); return random.Float64() < p }
			upTo := func(d time.Duration) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(random.Int64N(int64(d))) + 1
			}
			rough := seed%2 == 1
			if rough {
				w.SetFault(func(farsynctest.Op) farsynctest.Fault {
					if chance(0.97) {
						return farsynctest.None
					}
					what := []farsynctest.Fault{
						farsynctest.LoseReply, farsynctest.LoseRequest, farsynctest.Late(3), farsynctest.Delay(upTo(300 * time.Millisecond)),
					}
					return what[upTo(time.Duration(len(what)))-1]
				})
			}
			w.SetLatency(time.Millisecond)
			// A session that is ended behind its holder's back leaves a moment in which it does not know.
			expires := rough && seed%4 == 1
			r := resource{w: w, exact: !expires}
			work := []time.Duration{time.Millisecond, 10 * time.Millisecond, 120 * time.Millisecond}[seed%3]
			var all sync.WaitGroup
			var stores []*recipe.Store
			for range 3 {
				s := w.open()
				stores = append(stores, s)
				g := newGate(s)
				for range 12 {
					all.Go(func() {
						for range 6 {
							time.Sleep(upTo(3 * work))
							ctx, cancel := w.Context(), context.CancelFunc(func() {})
							acquire := g.Acquire
							switch upTo(20) {
							case 1, 2, 3, 4, 5, 6:
								ctx, cancel = context.WithTimeout(ctx, upTo(20*work))
							case 7:
								acquire = g.TryAcquire
							case 8:
								ctx = nested.Under(ctx, held{})
							}
							h, err := acquire(ctx)
							switch {
							case err == nil:
								if chance(0.1) {
									_ = h.Entries()
								}
								r.use(h, upTo(work))
								if err := h.Release(); err != nil && !rough {
									w.Error(err)
								}
							case ctx.Err() == nil && !errors.Is(err, recipe.ErrLocked):
								w.Error(err)
							}
							cancel()
						}
					})
				}
			}
			over := make(chan struct{})
			go func() { all.Wait(); close(over) }()
			for done := false; !done; {
				select {
				case <-over:
					done = true
				case <-time.After(upTo(3 * time.Second)):
					if expires && chance(0.3) {
						mu.Lock()
						s := stores[random.IntN(len(stores))]
						mu.Unlock()
						w.Expire(s)
					}
				}
			}
			w.SetFault(nil)
			require.Positive(w, r.accepted)
		})
	}
}

// held is a lease that is held.
type held struct{}

func (held) Err() error { return nil }
