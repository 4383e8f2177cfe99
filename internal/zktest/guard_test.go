package zktest

import (
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/zk"
)

// TestGuardedMultiCommitsOnlyWhileTheLeaseIsHeld: the write of a holder that was stopped past its TTL is refused.
func TestGuardedMultiCommitsOnlyWhileTheLeaseIsHeld(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	persistent(t, conn, "/guard/balance")
	write := func(data string, guard []any) error {
		_, err := conn.Multi(append(guard, &client.SetDataRequest{Path: "/guard/balance", Data: []byte(data), Version: -1})...)
		return err
	}
	read := func() string {
		data, _, err := conn.Get("/guard/balance")
		require.NoError(t, err)
		return string(data)
	}
	store := newTapped(t, &zk.Options{Options: farsync.Options{TTL: 2 * time.Second}, Namespace: "/guard/namespace"})

	lease := lock(t, store.Store, "/lock")
	guard := zk.Guard(lease)
	require.NoError(t, write("held", zk.Guard(lease)))
	_, err := conn.Set(nodeOf(t, lease), []byte("__REVOKE__"), -1) // as Curator's Revoker does
	require.NoError(t, err)
	require.NoError(t, write("still held", zk.Guard(lease)))
	require.NoError(t, write("still held", guard))
	require.NoError(t, lease.Release())
	require.Equal(t, "still held", read())
	require.ErrorIs(t, write("released", guard), client.ErrNoNode, "made before, used after")
	require.ErrorIs(t, write("released", zk.Guard(lease)), client.ErrNoNode)
	next := lock(t, store.Store, "/lock")
	require.ErrorIs(t, write("somebody else's", guard), client.ErrNoNode)

	guard = zk.Guard(next)
	store.tap.expire(t)
	require.ErrorIs(t, write("lost", guard), client.ErrNoNode, "also if the holder does not know yet")
	ended(t, next)
	require.ErrorIs(t, next.Err(), farsync.ErrLost)
	require.ErrorIs(t, write("lost", zk.Guard(next)), client.ErrNoNode)
	require.Equal(t, "still held", read())
}

// TestGuardEndsWithItsTurn has goroutines that share a Mutex wait for each other, so that the lock is handed off where it may.
func TestGuardEndsWithItsTurn(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	persistent(t, conn, "/guard/turns")
	write := func(data string, guard []any) error {
		_, err := conn.Multi(append(guard, &client.SetDataRequest{Path: "/guard/turns", Data: []byte(data), Version: -1})...)
		return err
	}
	mu := farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/guard/lock")
	for range 10 {
		first, err := mu.Lock(within(t, soon))
		require.NoError(t, err)
		guard := zk.Guard(first)
		require.NoError(t, write("first", guard))
		next := make(chan *farsync.Lease, 1)
		go func() {
			lease, _ := mu.Lock(t.Context())
			next <- lease
		}()
		pause(t, time.Millisecond)
		require.NoError(t, first.Release())
		second := <-next
		require.NotNil(t, second)
		require.ErrorIs(t, write("late", guard), client.ErrNoNode)
		require.NoError(t, write("second", zk.Guard(second)))
		require.NoError(t, second.Release())
	}
}

// TestGuardOfAnEndedLeaseRefusesWhateverIsThere: it must not hang on a name that somebody can make.
func TestGuardOfAnEndedLeaseRefusesWhateverIsThere(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), nil)
	lease := lock(t, store, "/guard/ended")
	require.NoError(t, lease.Release())
	check := zk.Guard(lease)[0].(*client.CheckVersionRequest)
	_, err := conn.Create(check.Path, nil, client.FlagEphemeral, client.WorldACL(client.PermAll))
	require.NoError(t, err)
	_, err = conn.Multi(zk.Guard(lease)...)
	require.ErrorIs(t, err, client.ErrNoNode)
}
