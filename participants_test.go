//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/nested"
)

func TestParticipantIsOneLine(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for want, p := range map[string]farsync.Participant{
		"ci-7 pid 412 holds since 2026-05-04T03:02:31Z (exclusive, token 447120640, joined 2026-05-04T03:02:01Z, " +
			"entry /deploy/m-K3, session 694d8a6f)": {
			Holder: "ci-7 pid 412", Held: true, Kind: farsync.KindExclusive, Units: 1, Since: at, HeldSince: at.Add(30 * time.Second),
			Token: 447120640, ID: "/deploy/m-K3", Session: "694d8a6f",
		},
		"ci-9 pid 7 waits (permit of 3 units, token 512, joined 2026-05-04T03:02:01Z, entry /r/s3-A)": {
			Holder: "ci-9 pid 7", Kind: farsync.KindPermit, Units: 3, Since: at, Token: 512, ID: "/r/s3-A",
		},
		`ci-2 pid 8 waits (write, token 768, entry /db/b/w-B, under /db/a/m-A and /db/m-C, note "00-4bf9-00f0-01")`: {
			Holder: "ci-2 pid 8", Kind: farsync.KindWrite, Units: 1, Token: 768, ID: "/db/b/w-B",
			Under: []string{"/db/a/m-A", "/db/m-C"}, Note: "00-4bf9-00f0-01",
		},
		"unnamed holds (foreign, token 256, entry /lock/694d8a6f, session 694d8a6f)": {
			Held: true, Kind: farsync.KindForeign, Units: 1, Token: 256, ID: "/lock/694d8a6f", Session: "694d8a6f",
		},
		"ci-7 pid 412 holds (read, token 1024, entry /db/r-B, waits for 4711 sleep)": {
			Holder: "ci-7 pid 412", Held: true, Kind: farsync.KindRead, Units: 1, Token: 1024, ID: "/db/r-B", WaitsFor: "4711 sleep",
		},
		`unnamed waits (exclusive, token 256, entry "\x1b[2J", session "a\u202eb", under "\n" and c, waits for "\u200b")`: {
			Kind: farsync.KindExclusive, Token: 256, ID: "\x1b[2J", Session: "a\u202eb", Under: []string{"\n", "c"}, WaitsFor: "\u200b",
		},
		"ci-7 pid 412 is gone (exclusive, token 512, entry /m-B, an entry of an earlier session)": {
			Holder: "ci-7 pid 412", Held: true, Kind: farsync.KindExclusive, Token: 512, ID: "/m-B", Left: "an entry of an earlier session",
		},
		`"\x00\xff" waits (candidate, token 256, entry /e/c-B)`: {
			Holder: "\x00\xff", Kind: farsync.KindCandidate, Token: 256, ID: "/e/c-B",
		},
	} {
		require.Equal(t, want, p.String())
	}
}

func TestParticipantHoldsSince(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		start := time.Now()
		holder := lock(t, farsync.NewMutex(two, "/a"))
		mu := farsync.NewMutex(one, "/a")
		leased := make(chan *farsync.Lease)
		go func() {
			lease, _ := mu.Lock(t.Context())
			leased <- lease
		}()
		synctest.Wait()
		time.AfterFunc(time.Minute, func() { _ = holder.Release() })
		list := must2(one.Participants(t.Context(), "/a"))(t)
		require.Len(t, list, 2)
		require.Zero(t, list[0].HeldSince, "it is another Store's")
		require.NotEqual(t, list[0].Session, list[1].Session)
		lease := <-leased
		list = must2(one.Participants(t.Context(), "/a"))(t)
		require.Len(t, list, 1)
		require.Equal(t, start, list[0].Since)
		require.Equal(t, start.Add(time.Minute), list[0].HeldSince)
		require.Equal(t, service.Entries("/a")[0].ID, list[0].ID)
		require.NoError(t, lease.Release())
	})
}

// A Store knows its own entries by which nobody holds or waits any more. Others see holders and waiters.
func TestParticipantsThatTheStoreHasLeftBehind(t *testing.T) {
	left := func(t *testing.T, store *farsync.Store) (left []string) {
		for _, p := range must2(store.Participants(t.Context(), "/a"))(t) {
			left = append(left, p.Left)
		}
		for lock, err := range store.Survey(t.Context(), "/a") {
			require.NoError(t, err)
			for i, p := range lock.Participants {
				require.Equal(t, left[i], p.Left)
			}
		}
		return left
	}
	t.Run("the removal is refused", func(t *testing.T) {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
			lease := lock(t, farsync.NewMutex(one, "/a"))
			require.Equal(t, []string{""}, left(t, one))
			service.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				if op.Kind == farsynctest.Delete {
					return farsynctest.Fail(driver.Refused, errors.New("no right to delete"))
				}
				return farsynctest.None
			})
			require.Error(t, lease.Release())
			next := make(chan *farsync.Lease)
			go func() {
				lease, err := farsync.NewMutex(two, "/a").Lock(t.Context())
				assert.NoError(t, err)
				next <- lease
			}()
			synctest.Wait()
			was := left(t, one)
			require.Len(t, was, 2)
			require.Contains(t, was[0], "given up still stands")
			require.Contains(t, was[0], "no right to delete")
			require.Empty(t, was[1])
			require.Equal(t, []string{"", ""}, left(t, two))
			service.SetFault(nil)
			lease = <-next
			require.Equal(t, []string{""}, left(t, one))
			require.NoError(t, lease.Release())
		})
	})
	t.Run("its session was lost", func(t *testing.T) {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
			lease := lock(t, farsync.NewMutex(one, "/a"))
			service.Partition(one, true)
			<-lease.Done()
			service.Partition(one, false)
			for one.State() != farsync.StateConnected {
				time.Sleep(time.Millisecond)
			}
			was := left(t, one)
			require.Len(t, was, 1)
			require.Contains(t, was[0], "an entry of an earlier session of this Store, which was lost")
			require.Equal(t, []string{""}, left(t, two))
			time.Sleep(time.Minute)
			require.Empty(t, left(t, one))
		})
	})
}

func must2[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// A caller whose process runs inside of another's hold says so in its entry, on the store of that hold alone.
func TestUnderAHoldOfAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
		ctx := nested.Under(t.Context(), nested.Elsewhere{Store: beneath.Store(one), Entry: "outer"})
		for store, want := range map[*farsync.Store][]string{one: {"outer"}, two: nil} {
			mu := farsync.NewMutex(store, "/a")
			lease, err := mu.Lock(ctx)
			require.NoError(t, err)
			list, err := store.Participants(t.Context(), "/a")
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.Equal(t, want, list[0].Under)
			within, cancel := lease.Context(ctx)
			inner, err := farsync.NewMutex(store, "/b").Lock(within)
			require.NoError(t, err)
			list, err = store.Participants(t.Context(), "/b")
			require.NoError(t, err)
			require.Equal(t, append([]string{lease.ID()}, want...), list[0].Under, "the innermost first")
			cancel()
			require.NoError(t, inner.Release())
			require.NoError(t, lease.Release())
		}
	})
}
