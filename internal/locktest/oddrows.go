package locktest

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// RunEmptyID has another program write an entry of no session whose ID is empty, which is what the statements of a
// database call the register, and remove it again. Nobody is let in beside it, and other leases of the Store live on. Where a
// mutex stands behind it, Lock names it, as every entry that no session will end.
func RunEmptyID(t *testing.T, store *farsync.Store, path string, insert func(queue, kind string), remove func()) {
	other := Lock(t, store, path+"-other")
	for _, row := range []struct {
		name, kind string
		acquire    func(ctx context.Context, path string) (*farsync.Lease, error)
	}{
		{"Lock", "exclusive", func(ctx context.Context, path string) (*farsync.Lease, error) {
			return farsync.NewMutex(store, path).Lock(ctx)
		}},
		{"Acquire", "permit", func(ctx context.Context, path string) (*farsync.Lease, error) {
			return farsync.NewSemaphore(store, path, 1).Acquire(ctx, 1)
		}},
		{"TryAcquire", "permit", func(ctx context.Context, path string) (*farsync.Lease, error) {
			return farsync.NewSemaphore(store, path, 1).TryAcquire(ctx, 1)
		}},
	} {
		queue := path + "-" + row.kind
		takes := func() {
			held, err := row.acquire(Within(t, Soon), queue)
			require.NoError(t, err, row.name)
			require.NoError(t, held.Release(), row.name)
		}
		takes() // so the queue is known, and has a size
		insert(queue, row.kind)
		if row.kind == "exclusive" {
			_, err := row.acquire(Within(t, Soon), queue)
			require.ErrorContains(t, err, "belongs to no session")
		} else {
			_, err := row.acquire(Within(t, time.Second), queue)
			require.Error(t, err, row.name)
			require.NotErrorIs(t, err, farsync.ErrLost, row.name)
		}
		list, err := store.Participants(Within(t, Soon), queue)
		require.NotEmpty(t, list, "%s: %v", row.name, err)
		require.Empty(t, strings.TrimSpace(list[0].ID))
		remove()
		takes()
	}
	require.NoError(t, other.Err())
	require.NoError(t, other.Release())
}

// RunNoUnits has another program write a permit of as many units, which are no more than 0, ahead of a holder, and one
// behind. They take no unit, and give none: nobody is let in beside the holder, who is shown as one.
func RunNoUnits(t *testing.T, store *farsync.Store, path string, insert func(queue string, units int)) {
	for _, units := range []int{0, -1, -3} {
		queue := path + "/" + strconv.Itoa(-units)
		insert(queue, units)
		semaphore := farsync.NewSemaphore(store, queue, 1)
		held, err := semaphore.Acquire(Within(t, Soon), 1)
		require.NoError(t, err, units)
		for _, written := range []int{2, 3} {
			_, err = semaphore.TryAcquire(Within(t, Soon), 1)
			require.ErrorIs(t, err, farsync.ErrLocked, units)
			list, err := store.Participants(Within(t, Soon), queue)
			require.NoError(t, err, units)
			require.Len(t, list, written, "%d: %v", units, list)
			require.Equal(t, held.Token(), list[1].Token)
			require.True(t, list[1].Held, "%d: %v", units, list)
			if written == 2 {
				insert(queue, units)
			}
		}
		require.NoError(t, held.Release())
		held, err = semaphore.TryAcquire(Within(t, Soon), 1)
		require.NoError(t, err, units)
		require.NoError(t, held.Release())
	}
}
