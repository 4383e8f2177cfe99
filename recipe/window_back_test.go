package recipe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A bidding is a unitsCarrier of a test.
type bidding struct{ uses int }

func (*bidding) carryUnits(ctx context.Context, _ *bid, _ time.Time) { <-ctx.Done() }

func (c *bidding) use(n int) { c.uses += n }

// Units that fit are not for those who stand behind a larger request: small ones would pass it for ever.
func TestLargeRequestHoldsBackThoseBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{}
		s.life, s.shut = context.WithCancelCause(context.Background())
		gate, w := new(bidding), new(window)
		w.init(s, gate)
		enter := func(units int64) *waiter {
			_, at := w.enter(t.Context(), "", units)
			return at
		}
		for range maxEntries {
			require.Nil(t, enter(2))
		}
		require.NotNil(t, enter(2))
		require.NotNil(t, enter(1))
		look := func(left int64) int {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.left = left
			w.provide()
			return len(w.bids)
		}
		require.Equal(t, maxEntries, look(1), "as many would fit as the second asks for, who has to wait for the first")
		require.Equal(t, maxEntries+2, look(3))
		require.Equal(t, maxEntries+2, gate.uses)
		require.Zero(t, w.left)
		s.shut(ErrClosed)
		s.tasks.Wait()
	})
}
