//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

const (
	maxTurns  = 255
	handOnFor = 50 * time.Millisecond
)

func newGate(s *recipe.Store) gate { return gateFor(s, exclusive) }

// token is what a resource compares.
func token(h *recipe.Hold) int64 {
	revision, turn := h.Token()
	return revision<<8 | int64(turn)
}

// turnOf is the number of a hold within its grant.
func turnOf(h *recipe.Hold) int {
	_, turn := h.Token()
	return turn
}

// idle requires that a gate that is not in use lets the next in at once, and knows that it is not.
func (w *world) idle(g gate) {
	w.Helper()
	w.release(w.granted(w.startGate(g)))
	h, err := g.TryAcquire(w.Context())
	require.NoError(w, err)
	second := w.startGate(g)
	require.NoError(w, h.Release())
	require.Equal(w, 1, turnOf(w.granted(second).hold))
	w.release(second)
}

func TestHandOnIsFIFOAndBounded(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		g := newGate(near)
		tries := []*try{w.startGate(g)}
		remote := w.startGate(newGate(far))
		for range maxTurns + 10 {
			tries = append(tries, w.startGate(g))
		}
		require.Len(w, w.Entries(queue), 2, "one entry stands for the line")
		var last int64
		for i, try := range tries[:maxTurns+1] {
			w.granted(try)
			require.Equal(w, i, turnOf(try.hold))
			require.Greater(w, token(try.hold), last)
			last = token(try.hold)
			require.False(w, remote.returned())
			w.ResetCount()
			w.release(try)
			if i < maxTurns {
				require.Zero(w, w.Count(), "a turn costs no request")
			}
		}
		w.granted(remote)
		require.Zero(w, turnOf(remote.hold))
		require.Greater(w, token(remote.hold), last)
		require.Len(w, w.Entries(queue), 2, "one entry is enough: the grant has served as many as it can")
		last = token(remote.hold)
		w.release(remote)
		for i, try := range tries[maxTurns+1:] {
			w.granted(try)
			require.Equal(w, i, turnOf(try.hold))
			require.Greater(w, token(try.hold), last)
			last = token(try.hold)
			w.release(try)
		}
		w.idle(g)
	})
}

func TestNoTurnStartsLate(t *testing.T) {
	for i := range 60 { // at the very moment the scheduler says which comes first
		held := handOnFor + time.Duration(i%3-1)*time.Millisecond
		inBubble(t, func(w *world) {
			near, far := w.open(), w.open()
			g := newGate(near)
			first := w.granted(w.startGate(g))
			remote := w.startGate(newGate(far))
			second := w.startGate(g)
			time.Sleep(held)
			w.release(first)
			if held < handOnFor {
				require.Equal(w, 1, turnOf(w.granted(second).hold))
				w.release(second)
				w.release(w.granted(remote))
				return
			}
			w.release(w.granted(remote))
			require.Zero(w, turnOf(w.granted(second).hold), "it joined the queue by itself")
			w.release(second)
		})
	}
}

// However busy the gate, a waiter elsewhere comes next after the bound.
func TestRemoteContenderIsNotStarved(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		g := newGate(near)
		var mu sync.Mutex
		var order []int64 // revisions, in order of the grants
		ctx, cancel := context.WithCancel(w.Context())
		var busy sync.WaitGroup
		for range 8 {
			busy.Go(func() {
				for {
					h, err := g.Acquire(ctx)
					if err != nil {
						return
					}
					mu.Lock()
					order = append(order, token(h)>>8)
					mu.Unlock()
					time.Sleep(rand.N(10 * time.Millisecond))
					_ = h.Release()
				}
			})
		}
		for range 20 {
			time.Sleep(rand.N(100 * time.Millisecond))
			remote := w.startGate(newGate(far))
			from := len(w.Entries(queue)) // those ahead of it, and itself
			mu.Lock()
			before := len(order)
			mu.Unlock()
			w.finally(remote)
			mu.Lock()
			passed := slices.Compact(slices.Clone(order[before:]))
			require.True(w, slices.IsSorted(order))
			mu.Unlock()
			for _, revision := range passed {
				require.Less(w, revision, token(remote.hold)>>8, "passed over by one that came later")
			}
			require.LessOrEqual(w, len(passed), from)
			require.NoError(w, remote.hold.Release())
		}
		cancel()
		busy.Wait()
	})
}

func TestCancelledInTheLine(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		g := newGate(s)
		first, second, third := w.startGate(g), w.startGate(g), w.startGate(g)
		w.ResetCount()
		second.cancel()
		w.settle()
		require.ErrorIs(w, second.err, context.Canceled)
		require.Zero(w, w.Count(), "one that never joined the queue has nothing to remove")
		w.release(w.granted(first))
		require.Equal(w, 1, turnOf(w.granted(third).hold))
		w.release(third)
		w.idle(g)
	})
}

// The ctx ends at the moment at which the turn comes: the turn must not be lost.
func TestCancelledWithTheTurnOnItsWay(t *testing.T) {
	for i := range 200 {
		inBubble(t, func(w *world) {
			g := newGate(w.open())
			remote := newGate(w.open())
			tries := []*try{w.startGate(g), w.startGate(g)}
			if i%2 == 0 {
				tries = append(tries, w.startGate(g))
			}
			tries = append(tries, w.startGate(remote))
			w.granted(tries[0])
			tries[1].cancel()
			w.release(tries[0])
			for _, try := range tries[1:] {
				if w.settle(); try == tries[1] && try.err != nil {
					continue
				}
				w.release(w.granted(try))
			}
			w.idle(g)
		})
	}
}

// The same for one that is told to join the queue, because the last of the gate that was in it goes.
func TestCancelledWhenSentToTheQueue(t *testing.T) {
	for range 200 {
		inBubble(t, func(w *world) {
			s := w.open()
			remote := w.granted(w.startGate(newGate(w.open())))
			var g gate
			var second, third *try
			g = newGate(s)
			w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				if op.Kind == farsynctest.Ahead && second == nil {
					second, third = w.startGate(g), w.startGate(g)
					second.cancel()
				}
				return farsynctest.None
			})
			_, err := g.TryAcquire(w.Context())
			require.ErrorIs(w, err, recipe.ErrLocked)
			w.settle()
			require.ErrorIs(w, second.err, context.Canceled)
			require.Len(w, w.Entries(queue), 2, "the third has joined in its place")
			w.release(remote)
			w.release(w.granted(third))
			w.idle(g)
		})
	}
}

// The one of the gate that is in the queue gives up: those in the line must not wait for it.
func TestLineGoesOnWhenTheQueuedOneGivesUp(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		remote := w.granted(w.startGate(newGate(far)))
		g := newGate(near)
		first, second, third := w.startGate(g), w.startGate(g), w.startGate(g)
		require.Len(w, w.Entries(queue), 2)
		first.cancel()
		w.settle()
		require.Error(w, first.err)
		require.Len(w, w.Entries(queue), 2, "the second has joined in its place")
		w.release(remote)
		w.release(w.granted(second))
		w.release(w.granted(third))
		w.idle(g)
	})
}

// Once a grant is given up, newcomers wait again for a turn of the next, for it comes soon.
func TestLineForgetsAReleasedGrant(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		g := newGate(near)
		first := w.granted(w.startGate(g))
		remote := w.startGate(newGate(far))
		time.Sleep(time.Second)
		w.release(first)
		second, third := w.startGate(g), w.startGate(g)
		require.Len(w, w.Entries(queue), 2)
		w.release(w.granted(remote))
		w.release(w.granted(second))
		require.Equal(w, 1, turnOf(w.granted(third).hold))
		w.release(third)
		w.idle(g)
	})
}

func TestNoTurnOnADeadSession(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		g := newGate(s)
		first, second := w.granted(w.startGate(g)), w.startGate(g)
		w.Expire(s)
		// A join elsewhere tells the client of it while the second still waits for a turn.
		r := exclusive
		r.Queue = "/other"
		began := time.Now()
		other := w.startFor(s, r)
		require.Equal(w, began, time.Now())
		require.ErrorIs(w, first.hold.Err(), recipe.ErrLost)
		require.ErrorIs(w, first.hold.Release(), recipe.ErrLost)
		w.finally(second)
		require.NoError(w, second.hold.Err())
		require.Zero(w, turnOf(second.hold))
		w.release(second)
		w.release(w.finally(other))
		w.idle(g)
	})
}

func TestEndedContextAtTheGate(t *testing.T) {
	inBubble(t, func(w *world) {
		g := newGate(w.open())
		w.ResetCount()
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		_, err := g.Acquire(ctx)
		require.ErrorIs(w, err, context.Canceled)
		_, err = g.TryAcquire(ctx)
		require.ErrorIs(w, err, context.Canceled)
		require.Zero(w, w.Count())
	})
}

func TestBadNameAtTheGate(t *testing.T) {
	inBubble(t, func(w *world) {
		r := exclusive
		r.Queue = "no-slash"
		g := gateFor(w.open(), r)
		w.ResetCount()
		_, err := g.Acquire(w.Context())
		require.ErrorIs(w, err, recipe.ErrPath)
		_, err = g.TryAcquire(w.Context())
		require.ErrorIs(w, err, recipe.ErrPath)
		require.Zero(w, w.Count())
	})
}

func TestTryAcquireAtTheGate(t *testing.T) {
	inBubble(t, func(w *world) {
		near, far := w.open(), w.open()
		g := newGate(near)
		h, err := g.TryAcquire(w.Context())
		require.NoError(w, err)
		w.ResetCount()
		_, err = g.TryAcquire(w.Context())
		require.ErrorIs(w, err, recipe.ErrLocked)
		require.Zero(w, w.Count(), "one's own process is known to hold it")
		_, err = newGate(far).TryAcquire(w.Context())
		require.ErrorIs(w, err, recipe.ErrLocked)
		require.Equal(w, 1, w.Count())
		require.Equal(w, 1, w.Count(farsynctest.Ahead))
		require.NoError(w, h.Release())
		h, err = newGate(far).TryAcquire(w.Context())
		require.NoError(w, err)
		_, err = g.TryAcquire(w.Context())
		require.ErrorIs(w, err, recipe.ErrLocked)
		require.NoError(w, h.Release())
		h, err = g.TryAcquire(w.Context())
		require.NoError(w, err, "one that failed leaves the gate as it was")
		require.NoError(w, h.Release())
	})
}

func TestReleaseEndsTheHold(t *testing.T) {
	inBubble(t, func(w *world) {
		h := w.granted(w.startGate(newGate(w.open()))).hold
		require.NoError(w, h.Err())
		require.Equal(w, w.Entries(queue)[0].ID, h.Entries()[0].ID)
		require.True(w, h.Deadline().After(time.Now()))
		require.NoError(w, h.Release())
		<-h.Life().Done()
		require.Equal(w, recipe.ErrReleased, h.Err())
		require.Empty(w, h.Entries())
		require.Equal(w, recipe.ErrReleased, h.Release())
	})
}

// The second Release of a hold must not end another turn.
func TestReleaseTwiceAfterAHandOn(t *testing.T) {
	inBubble(t, func(w *world) {
		g := newGate(w.open())
		first, second := w.startGate(g), w.startGate(g)
		w.release(w.granted(first))
		w.granted(second)
		require.Equal(w, recipe.ErrReleased, first.hold.Release())
		require.NoError(w, second.hold.Err())
		require.Len(w, w.Entries(queue), 1)
		w.release(second)
	})
}

func TestReleaseOfADeletedEntry(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		g := newGate(s)
		first := w.granted(w.startGate(g))
		w.Delete(w.Entries(queue)[0].ID)
		require.ErrorIs(w, first.hold.Release(), recipe.ErrLost)
		w.release(w.granted(w.startGate(g)))
	})
}

// The delete was carried out, or it was not and is sent again.
func TestDeleteOfReleaseIsLost(t *testing.T) {
	for _, fault := range []farsynctest.Fault{farsynctest.LoseReply, farsynctest.LoseRequest} {
		for _, times := range []int{1, 3} {
			inBubble(t, func(w *world) {
				a, b := w.open(), w.open()
				g := newGate(a)
				first, second := w.granted(w.startGate(g)), w.startGate(newGate(b))
				w.SetFault(plan(farsynctest.Delete, slices.Repeat([]farsynctest.Fault{fault}, times)...))
				require.NoError(w, first.hold.Release())
				w.release(w.finally(second))
				w.release(w.granted(w.startGate(g)))
			})
		}
	}
}

// It was not, and nothing answers: Release says so in time, and removal continues in the background.
func TestReleaseIsNotConfirmed(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		g := newGate(a)
		first, second := w.granted(w.startGate(g)), w.startGate(newGate(b))
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Delete {
				return farsynctest.LoseRequest
			}
			return farsynctest.None
		})
		began := time.Now()
		err := first.hold.Release()
		require.ErrorIs(w, err, recipe.ErrUnavailable)
		require.NotErrorIs(w, err, context.DeadlineExceeded, "no context of the caller has ended")
		require.NotErrorIs(w, err, recipe.ErrLost)
		require.LessOrEqual(w, time.Since(began), ttl/3)
		third := w.startGate(g)
		require.False(w, second.returned())
		w.SetFault(nil)
		w.finally(second)
		require.False(w, third.returned())
		require.NoError(w, second.hold.Release())
		w.finally(third)
		require.NoError(w, third.hold.Release())
	})
}

func TestReleaseWhileCutOff(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first, second := w.granted(w.startGate(newGate(a))), w.startGate(newGate(b))
		time.Sleep(ttl / 2)
		w.Partition(a, true)
		began := time.Now()
		err := first.hold.Release()
		require.ErrorIs(w, err, recipe.ErrUnavailable)
		require.NotErrorIs(w, err, context.DeadlineExceeded, "no context of the caller has ended")
		require.NotErrorIs(w, err, recipe.ErrLost, "it was held when it was released")
		require.LessOrEqual(w, time.Since(began), ttl/3)
		w.finally(second)
		require.LessOrEqual(w, second.at.Sub(began), ttl, "the session ran out")
		w.release(second)
	})
}

// Whenever the cut comes, the lease ends before the next one begins.
func TestHoldEndsBeforeTheNextBegins(t *testing.T) {
	for i := range 100 {
		inBubble(t, func(w *world) {
			w.SetLatency(time.Duration(i%10) * 10 * time.Millisecond)
			a, b := w.open(), w.open()
			first := w.startGate(newGate(a))
			w.finally(first)
			second := w.startGate(newGate(b))
			time.Sleep(rand.N(2 * ttl))
			require.NoError(w, first.hold.Err())
			w.Partition(a, true)
			ended := make(chan time.Time, 1)
			context.AfterFunc(first.hold.Life(), func() { ended <- time.Now() })
			w.finally(second)
			over := <-ended
			require.ErrorIs(w, first.hold.Err(), recipe.ErrLost)
			require.NoError(w, second.hold.Err())
			require.True(w, over.Before(second.at), "%v, not before %v", over, second.at)
			require.GreaterOrEqual(w, second.at.Sub(over), ttl/20, "time to stop in")
			require.Greater(w, token(second.hold), token(first.hold))
			require.ErrorIs(w, first.hold.Release(), recipe.ErrLost)
			require.NoError(w, second.hold.Release())
		})
	}
}

// A hold outlives any number of renewals, and a cut that is shorter than what is left of it.
func TestHoldSurvivesAShortCut(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		first := w.granted(w.startGate(newGate(s)))
		for range 20 {
			time.Sleep(100*time.Millisecond + rand.N(ttl))
			w.Partition(s, true)
			time.Sleep(ttl / 3)
			w.Partition(s, false)
		}
		time.Sleep(ttl)
		require.NoError(w, first.hold.Err())
		w.release(first)
	})
}

func TestGateAfterALostSession(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		g := newGate(s)
		first, second := w.granted(w.startGate(g)), w.startGate(g)
		w.Expire(s)
		w.finally(second)
		require.ErrorIs(w, first.hold.Err(), recipe.ErrLost)
		require.Zero(w, turnOf(second.hold))
		require.ErrorIs(w, first.hold.Release(), recipe.ErrLost)
		require.NoError(w, second.hold.Err(), "the late release is not for it")
		time.Sleep(handOnFor)
		third := w.startGate(g)
		require.Len(w, w.Entries(queue), 2, "no turn can come any more, and the gate knows")
		w.release(second)
		w.release(w.granted(third))
		w.idle(g)
	})
}

func TestGateOfAClosedStore(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		g := newGate(s)
		first, second := w.granted(w.startGate(g)), w.startGate(g)
		time.Sleep(handOnFor)
		third := w.startGate(g)
		require.NoError(w, s.Close())
		w.settle()
		require.Equal(w, recipe.ErrClosed, first.hold.Err())
		require.Equal(w, recipe.ErrClosed, second.err)
		require.Equal(w, recipe.ErrClosed, first.hold.Release())
		w.settle()
		require.Equal(w, recipe.ErrClosed, third.err)
		_, err := g.Acquire(w.Context())
		require.Equal(w, recipe.ErrClosed, err)
	})
}

// Many goroutines of several processes, some of which give up, and none of which is lost.
func TestGateUnderLoad(t *testing.T) {
	inBubble(t, func(w *world) {
		w.SetLatency(time.Millisecond)
		r := resource{w: w, exact: true}
		var all sync.WaitGroup
		for range 4 {
			g := newGate(w.open())
			for range 8 {
				all.Go(func() {
					for range 20 {
						time.Sleep(rand.N(20 * time.Millisecond))
						ctx, cancel := w.Context(), context.CancelFunc(func() {})
						if rand.N(3) == 0 {
							ctx, cancel = context.WithTimeout(ctx, rand.N(60*time.Millisecond))
						}
						h, err := g.Acquire(ctx)
						if err != nil {
							if ctx.Err() == nil {
								w.Error(err)
							}
							cancel()
							continue
						}
						r.use(h, rand.N(5*time.Millisecond))
						cancel()
						if err := h.Release(); err != nil {
							w.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		require.Positive(w, r.accepted)
		require.Zero(w, r.refused)
	})
}

// A resource is what the lock protects. It checks tokens.
type resource struct {
	w *world
	// exact: two holds may never overlap, not even to the eye of a resource that does not check tokens.
	exact bool

	mu                sync.Mutex
	highest           int64
	inside            *recipe.Hold
	accepted, refused int
}

// use works on the resource for a while, under h.
func (r *resource) use(h *recipe.Hold, work time.Duration) {
	r.mu.Lock()
	if r.exact && r.inside != nil && r.inside.Err() == nil && h.Err() == nil {
		r.w.Errorf("two hold: %d and %d", token(r.inside), token(h))
	}
	r.inside = h
	r.mu.Unlock()
	for last := false; ; {
		r.mu.Lock()
		switch {
		case token(h) >= r.highest:
			r.highest = token(h)
			r.accepted++
		case h.Err() == nil && r.exact:
			r.w.Error("a holder was refused")
		default:
			r.refused++
		}
		r.mu.Unlock()
		if last {
			return
		}
		last = true
		time.Sleep(work)
	}
}
