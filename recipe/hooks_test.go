//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

// A seal is a slog.Handler that does something in place of writing a line.
type seal func(slog.Level)

func (seal) Enabled(context.Context, slog.Level) bool { return true }

func (s seal) Handle(_ context.Context, r slog.Record) error { s(r.Level); return nil }

func (s seal) WithAttrs([]slog.Attr) slog.Handler { return s }

func (s seal) WithGroup(string) slog.Handler { return s }

// What a program has the Store call may block, panic, end its goroutine or lock something itself. That costs no lease,
// of this Store or another, over an outage that a lease outlives and that is said to all of them, and no waiter its
// turn.
func TestWhatIsCalledCostsNoLease(t *testing.T) {
	for name, hook := range map[string]struct {
		options func(blocks func(), s *atomic.Pointer[recipe.Store]) recipe.Options
		closes  time.Duration // how long Close takes while it blocks; negative where Close waits for it
	}{
		"a Logger that blocks": {func(blocks func(), _ *atomic.Pointer[recipe.Store]) recipe.Options {
			return recipe.Options{Logger: slog.New(seal(func(slog.Level) { blocks() }))}
		}, time.Second},
		"a Logger that panics": {func(func(), *atomic.Pointer[recipe.Store]) recipe.Options {
			return recipe.Options{Logger: slog.New(seal(func(slog.Level) { panic("full") }))}
		}, 0},
		"a Logger that ends its goroutine": {func(func(), *atomic.Pointer[recipe.Store]) recipe.Options {
			return recipe.Options{Logger: slog.New(seal(func(slog.Level) { runtime.Goexit() }))}
		}, 0},
		"a Logger that locks when something is wrong": {func(_ func(), s *atomic.Pointer[recipe.Store]) recipe.Options {
			return recipe.Options{Logger: slog.New(seal(func(level slog.Level) {
				if store := s.Load(); store != nil && level >= slog.LevelWarn {
					r := exclusive
					r.Queue, r.Try = "/logged", true
					if h, err := recipe.Acquire(context.Background(), store, r); err == nil {
						_ = h.Release()
					}
				}
			}))}
		}, -1},
		"an OnState that blocks": {func(blocks func(), _ *atomic.Pointer[recipe.Store]) recipe.Options {
			return recipe.Options{OnState: func(recipe.State) { blocks() }}
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				goes := make(chan struct{})
				var s atomic.Pointer[recipe.Store]
				o := hook.options(func() { <-goes }, &s)
				o.TTL = ttl
				opened := w.Mem.Open(&storetest.MemOptions{Options: o})
				other := w.Mem.Open(&storetest.MemOptions{Options: o})
				s.Store(opened)
				r := exclusive
				r.Queue = "/other"
				mine, others := w.granted(w.start(opened)), w.granted(w.startFor(other, r))
				waits := w.start(other)
				time.Sleep(ttl / 4)
				for range 3 {
					w.Partition(opened, true)
					time.Sleep(ttl * 45 / 100)
					w.settle()
					require.Equal(w, recipe.Suspended, opened.State())
					w.Partition(opened, false)
					time.Sleep(2 * ttl)
					w.settle()
					require.Equal(w, recipe.Connected, opened.State())
					require.NoError(w, mine.hold.Err())
					require.NoError(w, others.hold.Err())
				}
				w.release(mine)
				w.release(w.granted(waits))
				began := time.Now()
				if hook.closes < 0 {
					close(goes)
				}
				require.NoError(w, opened.Close())
				if hook.closes >= 0 {
					require.Equal(w, hook.closes, time.Since(began))
					close(goes)
				}
				require.NoError(w, other.Close())
			})
		})
	}
}
