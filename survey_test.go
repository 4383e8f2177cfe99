package farsync_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
)

func TestSurveyOfAPrefixThatIsNoPath(t *testing.T) {
	store := farsynctest.NewMem().Open(nil)
	lease := lock(t, farsync.NewMutex(store, "/jobs/a"))
	surveyed := func(prefix string) (paths []string, err error) {
		for lock, err := range store.Survey(t.Context(), prefix) {
			if err != nil {
				return paths, err
			}
			paths = append(paths, lock.Path)
		}
		return paths, nil
	}
	for _, prefix := range []string{"", "/", "/jobs", "/jobs/", "/jobs/a"} {
		paths, err := surveyed(prefix)
		require.NoError(t, err, prefix)
		require.Equal(t, []string{"/jobs/a"}, paths, prefix)
	}
	for _, prefix := range []string{"jobs", "//", "/jobs//", "/ü", "/jobs/*"} {
		_, err := surveyed(prefix)
		require.ErrorIs(t, err, farsync.ErrPath, prefix)
	}
	_, err := surveyed("jobs")
	require.EqualError(t, err, `farsync: survey: bad path "jobs": no leading slash`)
	require.NoError(t, lease.Release())
	require.NoError(t, store.Close())
	_, err = surveyed("")
	require.ErrorIs(t, err, farsync.ErrClosed)
	require.ErrorContains(t, err, "farsync: survey /: ")
}

// TestSizeThatANeighbourRaises: a client with the same rights has more units held than their users declare, and leases
// say nothing of that. Once it writes the size back, no more are granted.
func TestSizeThatANeighbourRaises(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		neighbour, err := service.Service("other").Open(t.Context(), time.Minute)
		require.NoError(t, err)
		write := func(text string) {
			is, err := neighbour.Register(t.Context(), "/s")
			require.NoError(t, err)
			_, err = neighbour.SetRegister(t.Context(), "/s", text, is.Version, driver.Entry{})
			require.NoError(t, err)
		}
		mine, theirs := farsync.NewSemaphore(one, "/s", 1), farsync.NewSemaphore(two, "/s", 1)
		held := []*farsync.Lease{must(t)(mine.TryAcquire(t.Context(), 1))}
		_, err = theirs.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, farsync.ErrLocked)
		write("1 3")
		held = append(held, must(t)(theirs.TryAcquire(t.Context(), 1)))
		write("1 1")
		_, err = theirs.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, farsync.ErrLocked)
		for _, lease := range held {
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Release())
		}
		require.NoError(t, neighbour.Close(t.Context()))
	})
}

// TestSizeThatIsNone: another program has written something else in the place of the size of a semaphore. Survey and
// Participants show who holds units of it, and all other locks; whoever waits for units is told, and leaves; Resize
// sets the size again, also while units are held.
func TestSizeThatIsNone(t *testing.T) {
	for _, none := range []string{"many", "0 0", "2", "2 2 2", "-2 2", "99999999999999999999 1"} {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
			other, err := service.Service("other").Open(t.Context(), time.Minute)
			require.NoError(t, err)
			overwrite := func(text string) {
				is, err := other.Register(t.Context(), "/s")
				require.NoError(t, err)
				_, err = other.SetRegister(t.Context(), "/s", text, is.Version, driver.Entry{})
				require.NoError(t, err)
			}
			mine, theirs := farsync.NewSemaphore(one, "/s", 2), farsync.NewSemaphore(two, "/s", 2)
			held := []*farsync.Lease{must(t)(mine.Acquire(t.Context(), 1)), must(t)(theirs.Acquire(t.Context(), 1))}
			elsewhere := []*farsync.Lease{lock(t, farsync.NewMutex(one, "/a")), lock(t, farsync.NewMutex(two, "/z"))}
			waited := make(chan error, 1)
			go func() {
				_, err := mine.Acquire(t.Context(), 1)
				waited <- err
			}()
			synctest.Wait()
			overwrite(none)
			require.ErrorContains(t, <-waited, "in the place of the size of semaphore /s, and is none")
			_, err = theirs.TryAcquire(t.Context(), 1)
			require.ErrorContains(t, err, "is none: Resize, or farsync resize, sets it")

			synctest.Wait() // whoever leaves is removed behind
			list, err := two.Participants(t.Context(), "/s")
			require.ErrorContains(t, err, "is none")
			require.Len(t, list, 2)
			paths := map[string]farsync.LockInfo{}
			for lock, err := range two.Survey(t.Context(), "") {
				require.NoError(t, err)
				paths[lock.Path] = lock
			}
			require.Len(t, paths, 3)
			require.ErrorContains(t, paths["/s"].Err, "is none")
			require.Zero(t, paths["/s"].Size)
			require.Equal(t, []bool{true, true}, []bool{paths["/s"].Participants[0].Held, paths["/s"].Participants[1].Held})
			require.NoError(t, one.Ask(t.Context(), "/s")) // of whatever kind
			<-held[1].Asked()

			require.NoError(t, theirs.Resize(t.Context(), 2))
			if _, err := mine.TryAcquire(t.Context(), 1); true {
				require.ErrorIs(t, err, farsync.ErrLocked)
			}
			third := make(chan *farsync.Lease)
			go func() {
				lease, err := mine.Acquire(t.Context(), 1)
				if err != nil {
					t.Error(err)
				}
				third <- lease
			}()
			require.NoError(t, held[0].Release())
			held[0] = <-third
			list, err = two.Participants(t.Context(), "/s")
			require.NoError(t, err)
			require.Len(t, list, 2)
			overwrite("many")
			require.NoError(t, one.Break(t.Context(), "/s", list[0].Token, &farsync.BreakOptions{Remove: true}))
			require.NoError(t, mine.Resize(t.Context(), 3))
			for _, lease := range held {
				_ = lease.Release() // one of them was broken
			}
			for _, lease := range elsewhere {
				require.NoError(t, lease.Release())
			}
			require.NoError(t, other.Close(context.WithoutCancel(t.Context())))
		})
	}
}
