//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/recipe"
)

// units returns a request for units of a semaphore that has size.
func units(n, size int64) recipe.Request {
	return recipe.Request{Queue: queue, Kind: driver.Permit, Units: n, Size: size, Line: true}
}

// bids requires that the windows of a Store are as they have to be, with so many entries and requests.
func (w *world) bids(s *recipe.Store, n int) {
	w.Helper()
	bids, err := s.CheckWindows()
	require.NoError(w, err)
	require.Equal(w, n, bids)
}

// wait begins to acquire n times.
func (w *world) wait(s *recipe.Store, n int, r recipe.Request) (tries []*try) {
	for range n {
		tries = append(tries, w.startFor(s, r))
	}
	return tries
}

// drains releases what is held, has the callers of a crowd hold one after the other, and requires that no line is left.
func (w *world) drains(s *recipe.Store, held *try, crowd []*try) {
	w.Helper()
	w.release(held)
	for _, t := range crowd {
		w.release(w.granted(t))
	}
	require.Zero(w, s.LinesInUse())
}

// allGot waits until all of a crowd hold at once, has them release, and requires that no line is left. It returns for how long they
// have waited.
func (w *world) allGot(s *recipe.Store, began time.Time, crowd []*try) time.Duration {
	w.Helper()
	for _, t := range crowd {
		w.finally(t)
	}
	took := time.Since(began)
	for _, t := range crowd {
		go func() { _ = t.hold.Release() }()
	}
	time.Sleep(time.Minute)
	require.Zero(w, s.LinesInUse())
	return took
}

func TestFewEntriesStandForACrowd(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		held := w.granted(w.startFor(w.open(), units(1, 1)))
		crowd := w.wait(s, 200, units(1, 1))
		require.Len(w, w.Entries(queue), 1+maxEntries)
		w.bids(s, maxEntries)
		w.release(held)
		for i, t := range crowd {
			w.granted(t) // in order
			w.bids(s, min(maxEntries, len(crowd)-i-1))
			w.release(t)
		}
		require.Zero(w, s.LinesInUse())
	})
}

// A crowd that comes at once is known to wait when the first is answered.
func TestCrowdThatComesAtOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		held := w.granted(w.startFor(w.open(), units(1, 1)))
		w.SetLatency(10 * time.Millisecond)
		var crowd []*try
		for range 200 {
			crowd = append(crowd, w.launch(func(ctx context.Context, t *try) { t.hold, t.err = recipe.Acquire(ctx, s, new(units(1, 1))) }))
		}
		time.Sleep(time.Second)
		require.Len(w, w.Entries(queue), 1+maxEntries)
		require.NoError(w, held.hold.Release())
		for range crowd {
			for _, t := range crowd {
				if t.returned() && t.err == nil && t.hold.Err() == nil {
					require.NoError(w, t.hold.Release())
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		for _, t := range crowd {
			require.True(w, t.returned())
		}
	})
}

// Nothing holds up a crowd that finds units free: as many requests are sent as the first who are let in have seen to fit.
func TestCrowdAtAFreeSemaphore(t *testing.T) {
	const crowd, latency = 1000, 10 * time.Millisecond
	inBubble(t, func(w *world) {
		s := w.open()
		w.SetLatency(latency)
		began := time.Now()
		var all []*try
		for range crowd {
			all = append(all, w.launch(func(ctx context.Context, t *try) { t.hold, t.err = recipe.Acquire(ctx, s, new(units(1, crowd))) }))
		}
		took := w.allGot(s, began, all)
		require.LessOrEqual(w, took, 5*2*latency, "16, and all the others; each sees to the size of the semaphore")
	})
}

// Whoever stands in the line when all units are released is let in together with all the others for whom there are units.
func TestCrowdFollowsTheReleaseOfAllUnits(t *testing.T) {
	const crowd, latency = 1000, 10 * time.Millisecond
	inBubble(t, func(w *world) {
		s := w.open()
		held := w.granted(w.startFor(w.open(), units(crowd, crowd)))
		all := w.wait(s, crowd, units(1, crowd))
		w.bids(s, maxEntries)
		w.SetLatency(latency)
		began := time.Now()
		require.NoError(w, held.hold.Release())
		took := w.allGot(s, began, all)
		require.LessOrEqual(w, took, 4*2*latency, "the release, 16, and all the others")
	})
}

// An entry whose caller has gone keeps its place for the next who asks for as many units.
func TestEntryOfACallerWhoHasGonePassesOn(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		held := w.granted(w.startFor(w.open(), units(2, 2)))
		crowd := append(w.wait(s, maxEntries+20, units(1, 2)), w.startFor(s, units(2, 2)))
		w.bids(s, maxEntries+1) // for two units there is an entry, or it would not be known whether there are as many
		before := w.Entries(queue)
		w.ResetCount()
		for _, t := range crowd[:20] {
			t.cancel()
			w.settle()
			require.ErrorIs(w, t.err, context.Canceled)
		}
		require.Equal(w, before, w.Entries(queue))
		require.Zero(w, w.Count(farsynctest.Create, farsynctest.Delete), "nothing is asked of the service")
		for _, t := range crowd[20 : maxEntries+20] {
			t.cancel()
			w.settle()
		}
		w.settle()
		require.Len(w, w.Entries(queue), 2, "nobody else asks for one unit")
		w.release(held)
		w.release(w.granted(crowd[len(crowd)-1]))
		require.Zero(w, s.LinesInUse())
	})
}

// What can never be is said at once, however many wait.
func TestTooManyUnitsBehindACrowd(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		held := w.granted(w.startFor(w.open(), units(3, 3)))
		crowd := w.wait(s, 100, units(1, 3))
		huge := w.startFor(s, units(4, 3))
		require.ErrorIs(w, huge.err, recipe.ErrTooLarge)
		two := w.wait(s, 30, units(2, 3))
		w.bids(s, maxEntries+1)
		w.resize(s, 3, 1, 3)
		time.Sleep(time.Second)
		for _, t := range two {
			require.True(w, t.returned())
			require.ErrorIs(w, t.err, recipe.ErrTooLarge)
		}
		w.drains(s, held, crowd)
	})
}

// All who declare the same size are told by what the first has waited for.
func TestOtherSizeIsSaidToTheWholeLine(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		held := w.granted(w.startFor(w.open(), units(1, 1)))
		crowd := w.wait(s, 50, units(1, 2))
		time.Sleep(ttl)
		for _, t := range crowd {
			require.True(w, t.returned())
			require.ErrorIs(w, t.err, recipe.ErrSize)
		}
		w.release(held)
		require.Zero(w, s.LinesInUse())
	})
}

// A caller who declares another size is told by what its own entry meets, not by what others of the path wait for.
func TestCallerOfAnotherSizeIsApartFromTheLine(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		held := w.granted(w.startFor(w.open(), units(1, 1)))
		crowd := w.wait(s, 2*maxEntries, units(1, 1))
		other := w.startFor(s, units(1, 2))
		time.Sleep(ttl)
		require.True(w, other.returned())
		require.ErrorIs(w, other.err, recipe.ErrSize)
		w.drains(s, held, crowd)
	})
}

func TestTryBesideALineForUnits(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		held := w.granted(w.startFor(s, units(1, 1)))
		crowd := w.wait(s, maxEntries+1, units(1, 1))
		w.ResetCount()
		_, err := recipe.Acquire(w.Context(), s, new(trying(units(1, 1))))
		require.ErrorIs(w, err, recipe.ErrLocked)
		require.ErrorContains(w, err, `waited for in this process, behind "client-1"`)
		require.Zero(w, w.Count(farsynctest.Ahead, farsynctest.Create))
		w.release(held)
		for _, t := range crowd {
			w.release(w.granted(t))
		}
		h, err := recipe.Acquire(w.Context(), s, new(trying(units(1, 1))))
		require.NoError(w, err)
		require.NoError(w, h.Release())
		require.Zero(w, s.LinesInUse())
	})
}

// Callers come, wait, give up, hold and release at random, by two Stores, while sessions are lost and the size changes.
func TestUnitsUnderCallersThatComeAndGo(t *testing.T) {
	plays := uint64(4)
	if suite.More(t, suite.Model) {
		plays = 20
	}
	for seed := range plays {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(w *world) {
				const size = 4
				expires := seed%2 > 0
				random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a play
				stores := []*recipe.Store{w.open(), w.open()}
				w.SetLatency(time.Millisecond)
				var all sync.WaitGroup
				var held, most atomic.Int64
				for range 80 {
					s, n := stores[random.IntN(2)], 1+random.Int64N(3)
					patience, work := time.Duration(random.IntN(400))*time.Millisecond, time.Duration(random.IntN(8))*time.Millisecond
					all.Go(func() {
						for range 20 {
							ctx, cancel := context.WithTimeout(w.Context(), patience)
							h, err := recipe.Acquire(ctx, s, new(units(n, size)))
							cancel()
							if err != nil {
								continue
							}
							now := held.Add(n)
							for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
							}
							time.Sleep(work)
							held.Add(-n)
							_ = h.Release()
						}
					})
				}
				done := make(chan struct{})
				go func() { all.Wait(); close(done) }()
				for {
					select {
					case <-done:
					case <-time.After(7 * time.Millisecond):
						for _, s := range stores {
							_, err := s.CheckWindows()
							require.NoError(w, err)
						}
						if expires && random.IntN(40) == 0 {
							w.Expire(stores[random.IntN(2)])
						}
						continue
					}
					break
				}
				if !expires { // else the Store is told too late, as by a person who deletes its session
					require.LessOrEqual(w, most.Load(), int64(size))
				}
				require.Positive(w, most.Load())
				time.Sleep(2 * ttl)
				for _, s := range stores {
					require.Zero(w, s.LinesInUse())
				}
				require.Empty(w, w.Entries(queue))
			})
		})
	}
}

// TestTryOfTooManyUnitsBesideALine: a Try fails at once beside callers who wait in the line, and says that units are taken. Of more units than
// the semaphore has it says so beside them, too.
func TestTryOfTooManyUnitsBesideALine(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		held := w.granted(w.startFor(s, units(3, 3)))
		crowd := w.wait(s, maxEntries+1, units(1, 3))
		_, err := recipe.Acquire(w.Context(), s, new(trying(units(1, 3))))
		require.ErrorIs(w, err, recipe.ErrLocked)
		_, err = recipe.Acquire(w.Context(), s, new(trying(units(4, 3))))
		require.ErrorIs(w, err, recipe.ErrTooLarge)
		w.drains(s, held, crowd)
	})
}
