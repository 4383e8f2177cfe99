package sqlstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/sqlstore"
)

// TestRoomIsScarceForAWhile after a refusal, or after a look at a crowded server, and the log is to say so once a
// minute.
func TestRoomIsScarceForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r sqlstore.Room
		require.False(t, r.Scarce())
		said := 0
		for range 12 { // two minutes of refusals
			if r.Refused() {
				said++
			}
			require.True(t, r.Scarce())
			require.GreaterOrEqual(t, r.For(), 10*time.Second)
			require.Less(t, r.For(), 20*time.Second)
			time.Sleep(10*time.Second - 1) //nolint:forbidigo // in a bubble
			require.True(t, r.Scarce())
			time.Sleep(time.Nanosecond) //nolint:forbidigo // in a bubble
		}
		require.Equal(t, 2, said)
		time.Sleep(20 * time.Second) //nolint:forbidigo // in a bubble
		require.False(t, r.Scarce())
		r.Shrink()
		require.True(t, r.Scarce())
	})
}

// TestRefusalsAreFew: of many calls that find no connection one at a time asks the server, four times a second at most, and one that
// comes free is not waited past.
func TestRefusalsAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r sqlstore.Room
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second-time.Millisecond)
		defer cancel()
		refusals := 0
		for r.Ask(ctx, func() bool { return false }) == nil {
			r.Refused()
			refusals++
		}
		require.Equal(t, 40, refusals)
		require.ErrorIs(t, r.Ask(ctx, func() bool { return false }), context.DeadlineExceeded)
		r.Refused()
		began, free := time.Now(), time.Now().Add(100*time.Millisecond)
		require.NoError(t, r.Ask(t.Context(), func() bool { return !time.Now().Before(free) }))
		require.Equal(t, 100*time.Millisecond, time.Since(began))
	})
}

// TestLooksAtTheRoomAreFew, however short the TTL is.
func TestLooksAtTheRoomAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r sqlstore.Room
		looks := 0
		for range 240 { // a minute of renewals
			if r.Look() {
				looks++
			}
			time.Sleep(time.Second / 4) //nolint:forbidigo // in a bubble
		}
		require.Equal(t, 12, looks)
	})
}

// TestCrowded: a tenth of the room is for others, and always what a Store needs.
func TestCrowded(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		used, most int
		is         bool
	}{
		{0, 12, false}, {10, 12, false}, {11, 12, true}, {12, 12, true}, {90, 100, false}, {91, 100, true}, {136, 151, false}, {137, 151, true},
		{13, 12, true},
	} {
		require.Equal(t, row.is, sqlstore.Crowded(row.used, row.most), "%d of %d", row.used, row.most)
	}
}
