//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

func TestMultiMutexMistakesPanic(t *testing.T) {
	service := farsynctest.NewMem()
	open := func(name string) *farsync.Store {
		store := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Name: name}})
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	nameless, a, alsoA, b := open(""), open("a"), open("a"), open("b")
	mu := farsync.NewMutex
	require.Panics(t, func() { farsync.NewMultiMutex() })
	require.Panics(t, func() { farsync.NewMultiMutex(mu(a, "/x"), mu(nameless, "/y")) }, "no name to order by")
	require.Panics(t, func() { farsync.NewMultiMutex(mu(a, "/x"), mu(alsoA, "/y")) }, "two of one name")
	require.NotPanics(t, func() { farsync.NewMultiMutex(mu(nameless, "/x"), mu(nameless, "/y")) }, "one needs no name")
	require.NotPanics(t, func() { farsync.NewMultiMutex(mu(a, "/x"), mu(b, "/x")) })
}

// TestMemberThatComesTwiceIsLockedOnce: a transfer from an account to itself is one of the transfers that data asks for.
func TestMemberThatComesTwiceIsLockedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		mu := func(path string) *farsync.Mutex { return farsync.NewMutex(one, path) }
		a := mu("/a")
		for _, row := range []struct {
			members []*farsync.Mutex
			paths   []string // of the members
			entries int
		}{
			{[]*farsync.Mutex{a, a}, []string{"/a", "/a"}, 1},
			{[]*farsync.Mutex{a, mu("/a")}, []string{"/a", "/a"}, 1},
			{[]*farsync.Mutex{mu("/b"), a, mu("/b"), mu("/c"), mu("/a")}, []string{"/b", "/a", "/b", "/c", "/a"}, 3},
		} {
			service.ResetCount()
			lease, err := farsync.NewMultiMutex(row.members...).Lock(t.Context())
			require.NoError(t, err)
			require.Len(t, locktest.GuardEntries(t, lease), row.entries)
			tokens := lease.Tokens()
			require.Len(t, tokens, len(row.members))
			for i, path := range row.paths {
				list := must2(one.Participants(t.Context(), path))(t)
				require.Len(t, list, 1)
				require.Equal(t, list[0].Token, tokens[i])
			}
			require.ErrorIs(t, second(farsync.NewMutex(two, "/a").TryLock(t.Context())), farsync.ErrLocked)
			ctx, cancel := lease.Context(t.Context())
			require.ErrorIs(t, second(a.Lock(ctx)), farsync.ErrDeadlock)
			cancel()
			require.NoError(t, lease.Release())
			require.ErrorIs(t, lease.Release(), farsync.ErrReleased)
			require.Empty(t, service.Entries("/a"))
		}
		// It is lost with the one entry that stands for both.
		lease, err := farsync.NewMultiMutex(a, mu("/b"), mu("/a")).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(4 * time.Second) // from then on it is watched
		require.True(t, service.Delete(service.Entries("/a")[0].ID))
		<-lease.Done()
		require.ErrorIs(t, lease.Release(), farsync.ErrLost)
	})
}

// Two services; the stores' names order them, the same in all processes, whatever the order of the arguments.
func TestMultiMutexOverSeveralStores(t *testing.T) {
	bubble(t, func(t *testing.T, east *farsynctest.Mem, one, two *farsync.Store) {
		west := farsynctest.NewMem()
		open := func(service *farsynctest.Mem, name string) *farsync.Store {
			return service.Open(&farsynctest.MemOptions{Options: farsync.Options{Name: name}})
		}
		here := []*farsync.Store{open(east, "east"), open(west, "west")}
		there := []*farsync.Store{open(east, "east"), open(west, "west")}
		mu := farsync.NewMutex
		multi := farsync.NewMultiMutex(mu(here[1], "/a"), mu(here[0], "/b"))
		turned := farsync.NewMultiMutex(mu(there[0], "/b"), mu(there[1], "/a"))
		first, err := multi.Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, west.Entries("/a")[0].Revision, first.Tokens()[0].Revision())
		require.Equal(t, east.Entries("/b")[0].Revision, first.Tokens()[1].Revision())

		var second *farsync.MultiLease
		waiting := begin(func(ctx context.Context) (lease *farsync.Lease, err error) {
			second, err = turned.Lock(ctx)
			return nil, err
		})
		require.True(t, waiting.waiting())
		require.Len(t, west.Entries("/a"), 1, "it waits for the first in the order of names before it takes the second")
		require.Len(t, east.Entries("/b"), 2)

		// The west is lost, the east is not.
		west.Expire(here[1])
		_, _ = mu(here[1], "/other").TryLock(t.Context()) // tells the client
		<-first.Done()
		require.ErrorIs(t, first.Err(), farsync.ErrLost)
		require.True(t, waiting.waiting())
		require.ErrorIs(t, first.Release(), farsync.ErrLost)
		require.False(t, waiting.waiting())
		require.NoError(t, waiting.err)
		require.NoError(t, second.Err())
		require.NoError(t, second.Release())
		for _, store := range append(here, there...) {
			require.NoError(t, store.Close())
		}
		entries, sessions, watches := west.Left()
		require.Zero(t, entries+sessions+watches)
	})
}

// A caller that gives up is not made to wait until each member was given back, one after another.
func TestMultiMutexGivesUpAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		var members []*farsync.Mutex
		for i := range 10 {
			members = append(members, farsync.NewMutex(one, fmt.Sprint("/a/", i)))
		}
		last := lock(t, farsync.NewMutex(two, "/a/9"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error)
		go func() {
			_, err := farsync.NewMultiMutex(members...).Lock(ctx)
			done <- err
		}()
		synctest.Wait()
		require.Len(t, service.Entries("/a/8"), 1)
		service.Partition(one, true)
		began := time.Now()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.Zero(t, time.Since(began))
		time.Sleep(time.Second)
		require.Len(t, service.Entries("/a/8"), 1, "nothing arrives")
		service.Partition(one, false)
		time.Sleep(time.Second)
		for i := range 9 {
			require.Empty(t, service.Entries(fmt.Sprint("/a/", i)), "given back in the background")
		}
		require.Len(t, service.Entries("/a/9"), 1)
		require.NoError(t, last.Release())
	})
}

func TestMultiMutexReleasesAllAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		var members []*farsync.Mutex
		for i := range 10 {
			members = append(members, farsync.NewMutex(one, fmt.Sprint("/a/", i)))
		}
		lease, err := farsync.NewMultiMutex(members...).Lock(t.Context())
		require.NoError(t, err)
		service.SetLatency(100 * time.Millisecond)
		began := time.Now()
		require.NoError(t, lease.Release())
		require.Equal(t, 200*time.Millisecond, time.Since(began), "as long as one")
		service.SetLatency(0)

		lease, err = farsync.NewMultiMutex(members...).Lock(t.Context())
		require.NoError(t, err)
		service.Partition(one, true)
		began = time.Now()
		require.ErrorIs(t, lease.Release(), farsync.ErrUnavailable)
		require.Equal(t, 10*time.Second/3, time.Since(began))
		service.Partition(one, false)
		time.Sleep(time.Second)
		for i := range 10 {
			require.Empty(t, service.Entries(fmt.Sprint("/a/", i)))
		}
	})
}

// TestEntriesOfAMultiLeaseAreAllOrNone: a transaction with the guards of only some members would commit beside another holder.
func TestEntriesOfAMultiLeaseAreAllOrNone(t *testing.T) {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	multi := farsync.NewMultiMutex(farsync.NewMutex(store, "/a"), farsync.NewMutex(store, "/b"))
	times := 200
	if suite.More(t, suite.Model) {
		times = 2000
	}
	for range times {
		lease, err := multi.Lock(t.Context())
		require.NoError(t, err)
		var ends sync.WaitGroup
		ends.Go(func() { _ = lease.Members()[0].Release() })
		for {
			entries, err := lease.GuardEntries()
			if err != nil {
				require.Empty(t, entries)
				break
			}
			require.Len(t, entries, 2)
		}
		ends.Wait()
		_ = lease.Release()
	}
}

// TestMultiMutexNamesTheMemberThatWasLost, and not the one that it waited for.
func TestMultiMutexNamesTheMemberThatWasLost(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		last := lock(t, farsync.NewMutex(two, "/b"))
		multi := farsync.NewMultiMutex(farsync.NewMutex(one, "/b"), farsync.NewMutex(one, "/a"))
		waiting := begin(func(ctx context.Context) (*farsync.Lease, error) {
			_, err := multi.Lock(ctx)
			return nil, err
		})
		require.True(t, waiting.waiting())
		require.True(t, service.Delete(service.Entries("/a")[0].ID))
		<-waiting.done
		require.ErrorIs(t, waiting.err, farsync.ErrLost)
		told, ok := errors.AsType[*farsync.Error](waiting.err)
		require.True(t, ok)
		require.Equal(t, "/a", told.Path)
		require.NoError(t, last.Release())
	})
}

// TestMultiMutexSaysWhatItHolds: while it waits for one member it holds others, and a plain Lock that is taken inside another may
// close a circle with it. Then that can be seen.
func TestMultiMutexSaysWhatItHolds(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		last, err := farsync.NewMutex(two, "/c").Lock(t.Context())
		require.NoError(t, err)
		mu := func(path string) *farsync.Mutex { return farsync.NewMutex(one, path) }
		multi := farsync.NewMultiMutex(mu("/c"), mu("/a"), mu("/b"))
		waiting := begin(func(ctx context.Context) (*farsync.Lease, error) {
			lease, err := multi.Lock(ctx)
			if err == nil {
				err = lease.Release()
			}
			return nil, err
		})
		require.True(t, waiting.waiting())
		list, err := one.Participants(t.Context(), "/c")
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, []string{service.Entries("/b")[0].ID, service.Entries("/a")[0].ID}, list[1].Under)
		require.NoError(t, last.Release())
		require.False(t, waiting.waiting())
		require.NoError(t, waiting.err)
	})
}

// second returns the error of a call.
func second(_ *farsync.Lease, err error) error { return err }
