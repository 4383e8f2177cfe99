package farsync

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// A life counts what waits for its end.
type life struct {
	context.Context
	waits atomic.Int32
}

// Value hides that it has a context of package context, which would register children with that.
func (l *life) Value(any) any { return nil }

func (l *life) AfterFunc(f func()) func() bool {
	l.waits.Add(1)
	of := context.AfterFunc(l.Context, f)
	return func() bool {
		stopped := of()
		if stopped {
			l.waits.Add(-1)
		}
		return stopped
	}
}

// A causer is a lease that ends with a context.
type causer struct{ of context.Context }

func (c causer) Err() error { return context.Cause(c.of) }

// A request that ends without a cancel leaves nothing with a lease that lives on, and neither does a cancel.
func TestContextLeavesNothingWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancelCause(t.Context())
		l := &life{Context: ended}
		lease := causer{ended}
		for range 100 {
			request, done := context.WithCancel(t.Context())
			ctx, cancel := bind(request, l, lease)
			require.EqualValues(t, 1, l.waits.Load())
			require.NoError(t, ctx.Err())
			done()
			synctest.Wait()
			require.Zero(t, l.waits.Load())
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			cancel()

			request, done = context.WithCancel(t.Context())
			for _, parent := range []context.Context{request, context.Background()} {
				bound, cancel := bind(parent, l, lease)
				cancel()
				require.Zero(t, l.waits.Load())
				require.ErrorIs(t, bound.Err(), context.Canceled)
			}
			done()
		}
		ctx, cancel := bind(t.Context(), l, lease)
		defer cancel()
		end(ErrReleased)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(ctx), ErrReleased)
	})
}
