package aside

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHookKeepsNobody: a function that does not return is waited for as long as for a server, and what it returns later
// is not used.
func TestHookKeepsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var h Hook
		to := slog.New(slog.NewTextHandler(&log, nil))
		refuses := errors.New("no password")
		require.NoError(t, h.Call(t.Context(), to, time.Second, func(context.Context) error { return nil }))
		require.ErrorIs(t, h.Call(t.Context(), to, time.Second, func(context.Context) error { return refuses }), refuses)
		require.ErrorContains(t, h.Call(t.Context(), to, time.Second, func(context.Context) error { panic("a bug") }), "panicked")
		require.Contains(t, log.String(), "level=ERROR msg=\"a function of the program has panicked\" function=BeforeConnect cause=\"a bug\" stack=")
		require.Contains(t, log.String(), "hook_test.go")
		require.ErrorContains(t, h.Call(t.Context(), to, time.Second, func(context.Context) error {
			runtime.Goexit()
			return nil
		}), "ended its goroutine")
		require.ErrorIs(t, h.Call(t.Context(), to, time.Second, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}), context.DeadlineExceeded, "it is given the ctx")

		goes := make(chan struct{})
		blocks := func(context.Context) error { <-goes; return nil }
		for i := range mostLate {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%2)*time.Second)
			require.ErrorContains(t, h.Call(ctx, to, 2*time.Second, blocks), "BeforeConnect has not returned in time")
			require.Equal(t, time.Duration(1+i%2)*time.Second, time.Since(began))
			cancel()
		}
		began, called := time.Now(), false
		require.ErrorContains(t, h.Call(t.Context(), to, time.Second, func(context.Context) error { called = true; return nil }), "no other call is made")
		require.False(t, called, "goroutines would add up")
		require.Equal(t, began, time.Now())
		close(goes)
		synctest.Wait()
		require.NoError(t, h.Call(t.Context(), to, time.Second, func(context.Context) error { return nil }))
		require.Zero(t, h.late.Load())

		few := Hook{Most: 1}
		goes = make(chan struct{})
		err := few.CallAs(t.Context(), to, "F", time.Second, blocks)
		require.ErrorIs(t, err, ErrLate)
		require.EqualError(t, err, "F has not returned in time: context deadline exceeded")
		require.ErrorIs(t, few.CallAs(t.Context(), to, "F", time.Second, blocks), ErrMany)
		close(goes)
		synctest.Wait()
		require.NoError(t, few.CallAs(t.Context(), to, "F", time.Second, blocks))
	})
}
