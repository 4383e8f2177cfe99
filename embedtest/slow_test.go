//go:build unix

package embedtest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// TestSlowServerIsAwaited: on a machine that is busy with other things an answer takes longer than a question is given
// at first.
func TestSlowServerIsAwaited(t *testing.T) {
	answer := func(ctx context.Context) error {
		select {
		case <-time.After(7 * time.Second):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := &server{probe: answer}
		require.NoError(t, s.awaitReady(ctx, &process{exited: make(chan struct{})}))
	})
}
