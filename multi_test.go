package farsync_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/storetest"
)

func TestMultiMutexMistakesPanic(t *testing.T) {
	service := storetest.NewMem()
	open := func(name string) *storetest.MemStore {
		store := service.Open(&storetest.MemOptions{Name: name})
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	nameless, a, alsoA, b := open(""), open("a"), open("a"), open("b")
	mu := farsync.NewMutex
	require.Panics(t, func() { farsync.NewMultiMutex() })
	require.Panics(t, func() { farsync.NewMultiMutex(mu(a, "/x"), mu(a, "/y"), mu(a, "/x")) }, "twice")
	require.Panics(t, func() { farsync.NewMultiMutex(mu(a, "/x"), mu(nameless, "/y")) }, "no name to order by")
	require.Panics(t, func() { farsync.NewMultiMutex(mu(a, "/x"), mu(alsoA, "/y")) }, "two of one name")
	require.NotPanics(t, func() { farsync.NewMultiMutex(mu(nameless, "/x"), mu(nameless, "/y")) }, "one needs no name")
	require.NotPanics(t, func() { farsync.NewMultiMutex(mu(a, "/x"), mu(b, "/x")) })
}

// Two services; the stores' names order them, the same in all processes, whatever the order of the arguments.
func TestMultiMutexOverSeveralStores(t *testing.T) {
	bubble(t, func(t *testing.T, east *storetest.Mem, one, two *storetest.MemStore) {
		west := storetest.NewMem()
		open := func(service *storetest.Mem, name string) *storetest.MemStore {
			return service.Open(&storetest.MemOptions{Name: name})
		}
		here := []*storetest.MemStore{open(east, "east"), open(west, "west")}
		there := []*storetest.MemStore{open(east, "east"), open(west, "west")}
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
