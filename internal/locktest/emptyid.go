package locktest

import (
	"context"
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
		require.Empty(t, list[0].ID)
		remove()
		held, err = acquire(Within(t, Soon), queue)
		require.NoError(t, err, name)
		require.NoError(t, held.Release(), name)
	}
	require.NoError(t, other.Err())
	require.NoError(t, other.Release())
}
