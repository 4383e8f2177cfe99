package etcdtest_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// TestHolderAndWaiterOutliveARestart is scenario 5 of a port of Curator, with an outage that is shorter than the TTL.
func TestHolderAndWaiterOutliveARestart(t *testing.T) {
	suite.Long(t, suite.Etcd, "a TTL of 6 s beside a restart")
	server, _ := beginAlone(t)
	var told locktest.States
	holders := newStore(t, server.Endpoint(), noting(&told, 6*time.Second))
	waiters := newStore(t, server.Endpoint(), ttl(6*time.Second))
	holder := lock(t, holders, "/restart")
	waiter := lockBehind(t, waiters, "/restart")
	awaitQueue(t, holders, "/restart", 2)

	server.Kill()
	told.Await(t, farsync.StateConnected, farsync.StateSuspended)
	// The rest of the outage: until a third of the TTL is left. The last renewal was up to a third of it ago.
	select {
	case <-time.After(time.Until(holder.Deadline()) - 2*time.Second):
	case <-holder.Done():
	}
	require.NoError(t, server.Restart(within(t, soon)))
	told.Await(t, farsync.StateConnected, farsync.StateSuspended, farsync.StateConnected)
	require.NoError(t, holder.Err())
	require.Empty(t, waiter)
	require.NoError(t, holder.Release())
	lease := got(t, waiter)
	require.Greater(t, lease.Token(), holder.Token())
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
	require.Equal(t, []farsync.State{farsync.StateConnected, farsync.StateSuspended, farsync.StateConnected}, told.All())
}

// TestStoreConnectsOftenWhileItsSessionIsAtStake: gRPC by itself waits for a second after the first attempt to
// connect that fails, and longer each time. A server that is back in time would be found too late.
func TestStoreConnectsOftenWhileItsSessionIsAtStake(t *testing.T) {
	suite.Long(t, suite.Etcd, "kills the server")
	server, _ := beginAlone(t)
	var attempts atomic.Int64
	store := newStore(t, server.Endpoint(), nil, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		attempts.Add(1)
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}))
	lease := lock(t, store, "/often")
	server.Kill()
	before := attempts.Load()
	require.Eventually(t, func() bool { return attempts.Load() >= before+6 }, soon, time.Millisecond)
	require.NoError(t, lease.Err(), "by itself it connects four times in the life of the session")
	require.NoError(t, server.Restart(within(t, soon)))
}

// TestStoreOutlivesAnOutageLongerThanItsTTL: holder and waiter lose their sessions, and get new ones when the server
// is back. The waiter is served in a queue that begins anew.
func TestStoreOutlivesAnOutageLongerThanItsTTL(t *testing.T) {
	suite.Long(t, suite.Etcd, "kills the server")
	server, admin := beginAlone(t)
	var told, toldWaiters locktest.States
	holders := newStore(t, server.Endpoint(), noting(&told, 2*time.Second))
	waiters := newStore(t, server.Endpoint(), noting(&toldWaiters, 2*time.Second))
	holder := lock(t, holders, "/outage")
	waiter := lockBehind(t, waiters, "/outage")
	old := awaitKeys(t, admin, "/outage", 2)

	server.Kill()
	ended(t, holder)
	require.ErrorIs(t, holder.Err(), farsync.ErrLost)
	require.ErrorIs(t, holder.Release(), farsync.ErrLost)
	toldWaiters.Await(t, farsync.StateConnected, farsync.StateSuspended, farsync.StateLost)
	require.Empty(t, waiter)
	require.NoError(t, server.Restart(within(t, soon)))
	lease := got(t, waiter)
	require.NoError(t, lease.Err())
	require.Greater(t, lease.Token().Revision(), old[1].CreateRevision)
	told.Await(t, farsync.StateConnected, farsync.StateSuspended, farsync.StateLost, farsync.StateConnected)
	toldWaiters.Await(t, farsync.StateConnected, farsync.StateSuspended, farsync.StateLost, farsync.StateConnected)
	behind := lockBehind(t, holders, "/outage")
	awaitKeys(t, admin, "/outage", 2)
	require.NoError(t, lease.Release())
	require.NoError(t, got(t, behind).Release())
}
