//nolint:forbidigo // time is that of a bubble
package sqlstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// joined has so many join a queue at once, each for so long, and returns when the last of them has, and how many did so at a time.
func joined(t *testing.T, joins *Joins, n int, takes time.Duration) (all time.Duration, atOnce int) {
	began := time.Now()
	var mu sync.Mutex
	var calls sync.WaitGroup
	underWay := 0
	for range n {
		calls.Go(func() {
			if err := joins.Do(t.Context(), "/a", func() error {
				mu.Lock()
				underWay++
				atOnce = max(atOnce, underWay)
				mu.Unlock()
				time.Sleep(takes)
				mu.Lock()
				underWay--
				mu.Unlock()
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	return time.Since(began), atOnce
}

// TestJoinsGoOneByOneWhereThereIsALine, and side by side where the way to the server takes the time. The first of the joins that gather finds out.
func TestJoinsGoOneByOneWhereThereIsALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const way, line = 50 * time.Millisecond, 101 * time.Millisecond
		joins := NewJoins(3, 3)
		for _, c := range []struct {
			takes  time.Duration
			atOnce int
			all    time.Duration
		}{
			{way, 3, 4 * way},
			{line, 1, 10 * line},
			{2 * way, 3, 4 * 2 * way},
			{way / 5, 3, 4 * way / 5},
			{way, 1, 10 * way}, // five times the shortest
		} {
			all, atOnce := joined(t, joins, 10, c.takes)
			require.Equal(t, c.atOnce, atOnce, c.takes)
			require.Equal(t, c.all, all, c.takes)
			require.Empty(t, joins.of)
		}
		time.Sleep(wayFor)
		all, atOnce := joined(t, joins, 10, way)
		require.Equal(t, 3, atOnce, "the way is another")
		require.Equal(t, 4*way, all)
		_, atOnce = joined(t, NewJoins(1, 3), 10, way)
		require.Equal(t, 1, atOnce)
	})
}

// TestJoinThatFailsIsNoMeasure: it may have taken no time at all, and it passes the turn on.
func TestJoinThatFailsIsNoMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		joins := NewJoins(3, 3)
		broken := errors.New("broken")
		require.ErrorIs(t, joins.Do(t.Context(), "/a", func() error { return broken }), broken)
		require.Panics(t, func() { _ = joins.Do(t.Context(), "/a", func() error { panic("by a function of the caller") }) })
		all, _ := joined(t, joins, 10, time.Second)
		require.Equal(t, 4*time.Second, all)
	})
}

// TestJoinsOfOtherQueuesDoNotWait, and a caller who gives up has joined nothing.
func TestJoinsOfOtherQueuesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		joins := NewJoins(3, 3)
		var calls sync.WaitGroup
		stands := func() error {
			time.Sleep(time.Hour)
			return nil
		}
		calls.Go(func() { _ = joins.Do(t.Context(), "/a", stands) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		calls.Go(func() { gaveUp <- joins.Do(ctx, "/a", stands) })
		began := time.Now()
		calls.Go(func() { _ = joins.Do(t.Context(), "/a", func() error { return nil }) })
		require.NoError(t, joins.Do(t.Context(), "/b", func() error { return nil }))
		require.Zero(t, time.Since(began))
		synctest.Wait()
		cancel()
		err := <-gaveUp
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, driver.NotDone, Outcome(err))
		calls.Wait()
		require.Equal(t, time.Hour, time.Since(began))
		require.Empty(t, joins.of)
	})
}

// TestJoinsLeaveAConnection: joins of one queue take turns, and joins of several queues take places.
func TestJoinsLeaveAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		joins := NewJoins(2, 3)
		var calls sync.WaitGroup
		began := time.Now()
		for _, queue := range []string{"/a", "/b", "/c", "/d"} {
			calls.Go(func() {
				if err := joins.Do(t.Context(), queue, func() error {
					time.Sleep(time.Second)
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		require.Len(t, joins.places, 3)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		require.ErrorIs(t, joins.Do(ctx, "/e", func() error { return nil }), context.DeadlineExceeded)
		calls.Wait()
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Empty(t, joins.of)
		require.Empty(t, joins.places)
	})
}
