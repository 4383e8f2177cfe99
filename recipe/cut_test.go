//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A cutter is a service behind a balancer that cuts each watch after so long.
type cutter struct {
	driver.Service
	after time.Duration

	mu   sync.Mutex
	cut  time.Time // when the last watch was
	gaps []time.Duration
}

func (c *cutter) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := c.Service.Open(ctx, ttl)
	return cutSession{in, c}, err
}

type cutSession struct {
	driver.Session
	by *cutter
}

func (s cutSession) Watch(ctx context.Context, e driver.Entry, on []driver.Target, stands func()) (*driver.View, error) {
	c := s.by
	c.mu.Lock()
	if !c.cut.IsZero() {
		c.gaps = append(c.gaps, time.Since(c.cut))
	}
	c.mu.Unlock()
	bound, cancel := context.WithTimeout(ctx, c.after)
	defer cancel()
	proof, err := s.Session.Watch(bound, e, on, stands)
	if bound.Err() == nil || ctx.Err() != nil {
		return proof, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = time.Now()
	return nil, errors.New("the connection was cut")
}

// TestWatchThatIsCutNowAndThenIsSoonBack: it stands again at once, however often it was cut. Where no watch ever stands
// for long, the pauses grow.
func TestWatchThatIsCutNowAndThenIsSoonBack(t *testing.T) {
	for _, after := range []time.Duration{2 * time.Second, 10 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			inBubble(t, func(w *world) {
				c := &cutter{Service: w.Service("cut"), after: after}
				s, err := recipe.Open(w.Context(), c, recipe.Options{TTL: ttl})
				require.NoError(w, err)
				first := w.granted(w.start(w.open()))
				second := w.start(s)
				time.Sleep(25 * time.Second) // the waiter looks after 30 at the earliest
				c.mu.Lock()
				gaps := c.gaps
				c.mu.Unlock()
				require.GreaterOrEqual(w, len(gaps), 8)
				longest := gaps[0]
				for _, gap := range gaps {
					longest = max(longest, gap)
				}
				if after > time.Second {
					require.LessOrEqual(w, longest, 20*time.Millisecond)
				} else {
					require.Greater(w, longest, time.Second/2)
				}
				w.release(first)
				w.release(w.finally(second))
				require.NoError(w, s.Close())
			})
		})
	}
}
