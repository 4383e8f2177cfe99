package sqlstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/sqlstore"
)

// TestRenewalsGoFirst: of those that wait for a place, renewals have the next, and calls in the order in which they came. Who
// gives up is passed over.
func TestRenewalsGoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var room sqlstore.Room
		waited := 0
		p := sqlstore.NewPlaces(1, &room, func() { waited++ })
		require.NoError(t, p.Take(t.Context(), false))
		require.False(t, p.Waits())
		var order []string
		begin := func(name string, renews bool) (giveUp context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { // ends with the place, or with ctx
				if p.Take(ctx, renews) == nil {
					order = append(order, name)
					p.Give()
				}
			}()
			synctest.Wait()
			return cancel
		}
		begin("first call", false)
		gone := begin("a call that gives up", false)
		begin("second call", false)
		begin("renewal", true)
		lost := begin("a renewal that gives up", true)
		require.Equal(t, 5, waited)
		require.True(t, p.Waits())
		gone()
		lost()
		synctest.Wait()
		require.Empty(t, order)
		p.Give()
		synctest.Wait()
		require.Equal(t, []string{"renewal", "first call", "second call"}, order)
		require.False(t, p.Waits())
		require.NoError(t, p.Take(t.Context(), true), "it has come back")
	})
}

// TestPlacesGoOutOfUseWhileRoomIsScarce, but for one, and come back afterwards to those that wait.
func TestPlacesGoOutOfUseWhileRoomIsScarce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var room sqlstore.Room
		p := sqlstore.NewPlaces(4, &room, func() {})
		for range 3 {
			require.NoError(t, p.Take(t.Context(), false))
		}
		require.False(t, p.Retire())
		p.Give()
		room.Shrink()
		p.Narrow() // two are unused
		require.True(t, p.Few())
		require.True(t, p.Extra())
		require.True(t, p.Retire())
		require.False(t, p.Extra())
		require.False(t, p.Retire(), "the last stays")
		p.Give()
		require.NoError(t, p.Take(t.Context(), false))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.Take(over, false), context.Canceled)
		time.Sleep(2 * room.For()) //nolint:forbidigo // in a bubble
		require.False(t, p.Few())
		for range 3 {
			require.NoError(t, p.Take(over, false))
		}
		require.ErrorIs(t, p.Take(over, false), context.Canceled)
	})
}
