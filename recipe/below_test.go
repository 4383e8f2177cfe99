//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// errClientGone is what a client says that was closed: a context of its own was cancelled.
var errClientGone = fmt.Errorf("the client was closed: %w", context.Canceled)

// A below is a service whose client may be closed below it.
type below struct {
	driver.Service
	life context.Context
}

func (b below) Outcome(err error) driver.Outcome {
	if errors.Is(err, errClientGone) {
		return driver.Closed
	}
	return b.Service.Outcome(err)
}

func (b below) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if b.life.Err() != nil {
		return nil, errClientGone
	}
	in, err := b.Service.Open(ctx, ttl)
	return belowSession{in, b.life}, err
}

type belowSession struct {
	driver.Session
	life context.Context
}

func (s belowSession) Over() <-chan struct{} { return s.life.Done() }

func (s belowSession) Renew(ctx context.Context, prove []driver.Entry) error {
	if s.life.Err() != nil {
		return errClientGone
	}
	return s.Session.Renew(ctx, prove)
}

// TestClientThatIsClosedBelowItsStore: the Store is closed, which is nobody's cancel, and the log says so.
func TestClientThatIsClosedBelowItsStore(t *testing.T) {
	inBubble(t, func(w *world) {
		life, closeClient := context.WithCancel(context.Background())
		book := newNotebook(slog.LevelWarn)
		s, err := recipe.Open(w.Context(), below{w.Service("below"), life}, recipe.Options{TTL: ttl, Logger: slog.New(book)})
		require.NoError(w, err)
		first := w.granted(w.start(s))
		revision, _ := first.hold.Token()
		waits := w.start(s)
		time.Sleep(time.Second)
		closeClient()
		<-waits.done
		closed := func(err error) {
			w.Helper()
			require.ErrorIs(w, err, recipe.ErrClosed)
			require.NotErrorIs(w, err, context.Canceled)
			require.ErrorContains(w, err, "the client was closed")
		}
		closed(waits.err)
		closed(first.hold.Err())
		closed(first.hold.Release())
		_, err = recipe.Acquire(w.Context(), s, &exclusive)
		closed(err)
		w.settle()
		lines := book.take()
		slices.Sort(lines)
		const cause = "cause=store closed: the client was closed: context canceled"
		require.Equal(w, []string{
			fmt.Sprintf("WARN lock lost: path=/q kind=exclusive token=%d held=1s %s", revision<<8, cause),
			"WARN store ended with its client: locks=1 " + cause,
		}, lines)
		require.NoError(w, s.Close())

		_, err = recipe.Open(w.Context(), below{w.Service("another"), life}, recipe.Options{TTL: ttl})
		closed(err)
	})
}
