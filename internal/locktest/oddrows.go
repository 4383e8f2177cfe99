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
	for name, acquire := range map[string]func(ctx context.Context, path string) (*farsync.Lease, error){
		"exclusive": func(ctx context.Context, path string) (*farsync.Lease, error) {
			return farsync.NewMutex(store, path).Lock(ctx)
		},
		"permit": func(ctx context.Context, path string) (*farsync.Lease, error) {
			return farsync.NewSemaphore(store, path, 1).Acquire(ctx, 1)
		},
		"permit, for one who does not wait": func(ctx context.Context, path string) (*farsync.Lease, error) {
			return farsync.NewSemaphore(store, path, 1).TryAcquire(ctx, 1)
		},
	} {
		kind, queue := "exclusive", path+"-mutex"
		if name != kind {
			kind, queue = "permit", path+"-semaphore"
		}
		held, err := acquire(Within(t, Soon), queue) // so the queue is known, and has a size
		require.NoError(t, err, name)
		require.NoError(t, held.Release(), name)
		insert(queue, kind)
		if name == "exclusive" {
			_, err = acquire(Within(t, Soon), queue)
			require.ErrorContains(t, err, "belongs to no session")
		} else {
			_, err = acquire(Within(t, time.Second), queue)
			require.Error(t, err, name)
			require.NotErrorIs(t, err, farsync.ErrLost, name)
		}
		list, err := store.Participants(Within(t, Soon), queue)
		require.NotEmpty(t, list, "%s: %v", name, err)
		require.Empty(t, strings.TrimSpace(list[0].ID))
		remove()
		held, err = acquire(Within(t, Soon), queue)
		require.NoError(t, err, name)
		require.NoError(t, held.Release(), name)
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
