package recipe

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goroutine that context.AfterFunc starts may come late. A context that is bound to a life that is over must not be
// alive for a moment.
func TestBindToALifeThatIsOver(t *testing.T) {
	life, end := context.WithCancelCause(t.Context())
	end(ErrClosed)
	for range 1000 {
		bound, cancel := bind(t.Context(), life)
		require.Error(t, bound.Err())
		require.Equal(t, ErrClosed, context.Cause(bound))
		cancel()
	}
}
