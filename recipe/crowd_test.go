//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

// A busy is a service that carries out one join or removal at a time, each of which takes a millisecond, as a database does whose queue is
// a row that all of them lock.
type busy struct {
	driver.Service
	one chan struct{}
}

func (b busy) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := b.Service.Open(ctx, ttl)
	return busySession{in, b.one}, err
}

type busySession struct {
	driver.Session
	one chan struct{}
}

func (s busySession) take(ctx context.Context) error {
	select {
	case s.one <- struct{}{}:
		time.Sleep(time.Millisecond)
		<-s.one
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s busySession) Create(ctx context.Context, e driver.Entry, attempt int) (driver.View, error) {
	if err := s.take(ctx); err != nil {
		return driver.View{}, err
	}
	return s.Session.Create(ctx, e, attempt)
}

func (s busySession) Delete(ctx context.Context, e driver.Entry) (driver.View, bool, error) {
	if err := s.take(ctx); err != nil {
		return driver.View{}, false, err
	}
	return s.Session.Delete(ctx, e)
}

// Request handlers lock a path that is data, each by a request of its own, and give up soon. Nobody who gives up in the line costs
// the service anything, so those who do not give up are served as fast as they work.
func TestCrowdThatGivesUpSoonIsServed(t *testing.T) {
	t.Run("mutex", func(t *testing.T) { crowdIsServed(t, inLine(queue, driver.Exclusive), 4) })
	t.Run("semaphore", func(t *testing.T) { crowdIsServed(t, units(1, 1), 1) })
}

// crowdIsServed has callers make such a request, of whom one holds at a time. Each grant may cost one join in so many.
func crowdIsServed(t *testing.T, r recipe.Request, joinsOne int) {
	const callers, work, lasts = 64, 5 * time.Millisecond, 3 * time.Second
	inBubble(t, func(w *world) {
		s, err := recipe.Open(w.Context(), busy{w.Service("busy"), make(chan struct{}, 1)}, recipe.Options{TTL: ttl})
		require.NoError(w, err)
		w.Cleanup(func() { require.NoError(w, s.Close()) })
		w.ResetCount()
		goroutines := runtime.NumGoroutine()
		ctx, end := context.WithTimeout(w.Context(), lasts)
		defer end()
		var all sync.WaitGroup
		var got, gaveUp, refused, holders atomic.Int64
		for i := range callers {
			patience := 30*time.Millisecond + time.Duration(i)*30*time.Millisecond/callers
			all.Go(func() {
				for ctx.Err() == nil {
					ctx, cancel := context.WithTimeout(w.Context(), patience)
					h, err := recipe.Acquire(ctx, s, &r)
					cancel()
					if err != nil {
						if errors.Is(err, context.DeadlineExceeded) {
							gaveUp.Add(1)
						} else {
							refused.Add(1)
						}
						continue
					}
					got.Add(1)
					assert.EqualValues(w, 1, holders.Add(1))
					time.Sleep(work)
					holders.Add(-1)
					assert.NoError(w, h.Release())
				}
			})
		}
		time.Sleep(lasts / 2)
		more := runtime.NumGoroutine() - goroutines
		all.Wait()
		joins := w.Count(farsynctest.Create)
		w.Logf("%d grants and %d gave up, by %d joins", got.Load(), gaveUp.Load(), joins)
		require.Zero(w, refused.Load())
		require.Greater(w, gaveUp.Load(), int64(1000))
		require.GreaterOrEqual(w, got.Load(), int64(lasts/work)*8/10)
		require.LessOrEqual(w, joins, int(got.Load())/joinsOne+maxEntries, "those who give up cost none")
		require.LessOrEqual(w, more, callers+3*maxEntries, "the callers, and what is carried for them")
		time.Sleep(ttl)
		require.Zero(w, s.LinesInUse())
		require.Empty(w, w.Entries(queue))
	})
}

// The release of a caller may have been carried out before its answer comes. Then a Try of another is refused by nobody.
func TestTryBesideAReleaseWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		first := w.granted(w.startFor(s, inLine(queue, driver.Exclusive)))
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Delete {
				return farsynctest.LoseReply
			}
			return farsynctest.None
		})
		released := make(chan error, 1)
		go func() { released <- first.hold.Release() }() // joined below
		w.settle()
		require.Empty(w, released)
		require.Empty(w, w.Entries(queue))
		w.SetFault(nil)
		h, err := recipe.Acquire(w.Context(), s, new(trying(inLine(queue, driver.Exclusive))))
		require.NoError(w, err, "no entry holds or waits")
		require.NoError(w, <-released)
		require.NoError(w, h.Release())
		w.settle()
		require.Zero(w, s.LinesInUse())
	})
}

// Callers try a lock that is free whenever one of them tries: it is refused by none but those who are in a call as well.
func TestTryOfAFreeLock(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		w.SetLatency(time.Millisecond)
		var gone atomic.Int64
		for i := range 100 {
			// A caller that gives up at each moment of its call comes before.
			ctx, cancel := context.WithTimeout(w.Context(), time.Duration(i)*100*time.Microsecond)
			if h, err := recipe.Acquire(ctx, s, new(inLine(queue, driver.Exclusive))); err == nil {
				require.NoError(w, h.Release())
			} else {
				gone.Add(1)
				time.Sleep(ttl / 10) // until what it has left is removed
			}
			cancel()
			h, err := recipe.Acquire(w.Context(), s, new(trying(inLine(queue, driver.Exclusive))))
			require.NoError(w, err)
			require.NoError(w, h.Release())
			require.Zero(w, s.LinesInUse())
		}
		require.Positive(w, gone.Load())
	})
}

// Callers of one path are served in the order in which they came, whichever requests they have made.
func TestCallersOfAPathAreServedInOrder(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		far := w.granted(w.startFor(w.open(), inLine(queue, driver.Exclusive)))
		var line []*try
		for range 2 * maxTurns {
			line = append(line, w.startFor(s, inLine(queue, driver.Exclusive)))
		}
		require.Len(w, w.Entries(queue), 2)
		w.release(far)
		w.serves(line...)
		require.Zero(w, s.LinesInUse())
	})
}
