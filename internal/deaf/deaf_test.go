package deaf_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/deaf"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

func TestDoReturnsWhatTheCallReturns(t *testing.T) {
	var calls deaf.Calls
	require.NoError(t, calls.Do(t.Context(), func() error { return nil }))
	no := errors.New("no")
	require.ErrorIs(t, calls.Do(t.Context(), func() error { return no }), no)
	calls.Close()
	require.ErrorIs(t, calls.Do(t.Context(), func() error { t.Error("called"); return nil }), deaf.ErrClosed)
}

// TestDoReturnsWithItsContext, and Close with the last call.
func TestDoReturnsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls deaf.Calls
		thaw := make(chan struct{})
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		began := time.Now()
		err := calls.Do(ctx, func() error { <-thaw; return nil })
		require.ErrorIs(t, err, deaf.ErrStuck)
		require.ErrorIs(t, err, gone)
		require.Equal(t, 1050*time.Millisecond, time.Since(began))
		closed := make(chan struct{})
		go func() { calls.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while a call runs")
		default:
		}
		close(thaw)
		<-closed
	})
}

// TestDoHearsACallOut that returns a moment after the context: how it ended is worth more than that the context did.
func TestDoHearsACallOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls deaf.Calls
		defer calls.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, calls.Do(ctx, func() error { <-time.After(1040 * time.Millisecond); return nil }))
	})
}
