//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
)

// TestCloseBeforeTheTimeOfAHoldIsLogged: the caller of After is gone, and nobody else could be told that others may run the same job.
func TestCloseBeforeTheTimeOfAHoldIsLogged(t *testing.T) {
	const early = `WARN store closed: a lock is given back before its time is over, and others may run the same job: path=/q left=40s`
	for what, row := range map[string]struct {
		end  func(w *world, s *recipe.Store, h *recipe.Hold) error // 20 of 60 seconds after After
		want bool
	}{
		"closed":           {func(_ *world, s *recipe.Store, _ *recipe.Hold) error { return s.Close() }, true},
		"released, closed": {func(_ *world, _ *recipe.Store, h *recipe.Hold) error { return h.Release() }, false},
		"lost, closed": {func(w *world, s *recipe.Store, h *recipe.Hold) error {
			w.Expire(s)
			<-h.Life().Done()
			return nil
		}, false},
		"in time": {func(*world, *recipe.Store, *recipe.Hold) error { time.Sleep(time.Minute); return nil }, false},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(w *world) {
				book := newNotebook(slog.LevelWarn)
				s := w.with(recipe.Options{TTL: ttl, Logger: slog.New(book)})
				h := w.granted(w.startFor(s, exclusive)).hold
				h.After(time.Minute, func() { _ = h.Release() })
				time.Sleep(20 * time.Second)
				require.NoError(w, row.end(w, s, h))
				require.NoError(w, s.Close())
				if lines := book.take(); row.want {
					require.Contains(w, lines, early)
				} else {
					require.NotContains(w, strings.Join(lines, "\n"), "before its time")
				}
			})
		})
	}
}
