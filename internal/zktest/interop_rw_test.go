package zktest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// TestReadersAndWritersShareAQueueWithCurator has real InterProcessReadWriteLocks on both sides of ours.
func TestReadersAndWritersShareAQueueWithCurator(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	curator := newCurator(t, server.Endpoint(), 10*time.Second)
	store := newStore(t, server.Endpoint(), nil)
	reader, writer := peerContender{curator, "reader"}, peerContender{curator, "writer"}
	persistent(t, conn, "/interop/rw")
	rw := farsync.NewRWMutex(store, "/interop/rw")
	const read, write = "read:/interop/rw", "write:/interop/rw"
	begin := func(lock func(context.Context) (*farsync.Lease, error)) <-chan *farsync.Lease {
		leases := make(chan *farsync.Lease, 1)
		ctx := within(t, 2*soon)
		go func() { // ends at the latest with its context
			if lease, err := lock(ctx); err != nil {
				t.Error(err)
			} else {
				leases <- lease
			}
		}()
		return leases
	}

	// A writer of theirs keeps out readers and writers of ours, who then come in order.
	require.NoError(t, granted(t, writer.lock(t, write)))
	_, err := rw.TryRLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	ourReader := begin(rw.RLock)
	awaitNodes(t, conn, "/interop/rw", 2)
	ourWriter := begin(rw.Lock)
	awaitNodes(t, conn, "/interop/rw", 3)
	require.Empty(t, ourReader)
	writer.unlock(t, write)
	readLease := got(t, ourReader)

	// A reader of theirs comes in beside ours only ahead of the writer that waits.
	theirReader := reader.lock(t, read)
	awaitNodes(t, conn, "/interop/rw", 3)
	require.NoError(t, readLease.Release())
	writeLease := got(t, ourWriter)
	require.Empty(t, theirReader)

	// Ours becomes a reader, and theirs comes in at once; a writer of theirs behind both does not.
	theirWriter := writer.lock(t, write)
	awaitNodes(t, conn, "/interop/rw", 3)
	require.NoError(t, rw.Downgrade(t.Context(), writeLease))
	require.NoError(t, granted(t, theirReader))
	require.Empty(t, theirWriter)
	require.NoError(t, writeLease.Err())
	reader.unlock(t, read)
	require.Empty(t, theirWriter)
	require.NoError(t, writeLease.Release())
	require.NoError(t, granted(t, theirWriter))
	writer.unlock(t, write)

	// Readers of both sides at the same time, and a writer of ours behind them.
	both, err := rw.RLock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, granted(t, reader.lock(t, read)))
	_, err = rw.TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.NoError(t, both.Release())
	reader.unlock(t, read)
	last, err := rw.TryLock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, last.Release())
}

// TestLocksAreAskedForAcrossCurator has a Revoker of Curator's ask us, and us ask a lock that is revocable.
func TestLocksAreAskedForAcrossCurator(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	curator := newCurator(t, server.Endpoint(), 10*time.Second)
	store := newStore(t, server.Endpoint(), nil)
	persistent(t, conn, "/interop/ask")
	mu := farsync.NewMutex(store, "/interop/ask")

	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	asked := lease.Asked()
	require.Empty(t, asked)
	curator.ask(t, "main", "revoke", lease.Entries()[0].ID)
	curator.says(t, "main", "revoked")
	got(t, asked)
	require.NoError(t, lease.Err(), "nobody is forced")
	require.NoError(t, lease.Release())

	curator.ask(t, "main", "revocable", "/interop/ask")
	curator.says(t, "main", "revocable")
	curator.ask(t, "main", "lock", "/interop/ask")
	curator.says(t, "main", "locked")
	require.NoError(t, mu.Ask(within(t, soon)))
	curator.tells(t, "revocable", "asked")
	curator.ask(t, "main", "unlock", "/interop/ask")
	curator.says(t, "main", "unlocked")
}
