package etcdtest_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/etcd"
)

// states records what a Store's hook is told.
type states struct {
	mu   sync.Mutex
	told []farsync.State
}

func (s *states) hook(state farsync.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, state)
}

// options returns options with the hook.
func (s *states) options(ttl time.Duration) *etcd.Options {
	return &etcd.Options{Options: farsync.Options{TTL: ttl, OnState: s.hook}}
}

func (s *states) all() []farsync.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

// await waits until the hook was told exactly that.
func (s *states) await(t testing.TB, want ...farsync.State) {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.all()) >= len(want) }, soon, time.Millisecond, "%v", s.all())
	require.Equal(t, want, s.all())
}

// TestHolderAndWaiterOutliveARestart is scenario 5 of a port of Curator, with an outage that is shorter than the TTL.
func TestHolderAndWaiterOutliveARestart(t *testing.T) {
	server, _ := begin(t)
	var told states
	holders := newStore(t, server.Endpoint(), told.options(6*time.Second))
	waiters := newStore(t, server.Endpoint(), ttl(6*time.Second))
	holder := lock(t, holders, "/restart")
	waiter := lockBehind(t, farsync.NewMutex(waiters, "/restart"))
	awaitQueue(t, holders, "/restart", 2)

	server.Kill()
	told.await(t, farsync.Connected, farsync.Suspended)
	// The rest of the outage: until a third of the TTL is left. The last renewal was up to a third of it ago.
	select {
	case <-time.After(time.Until(holder.Deadline()) - 2*time.Second):
	case <-holder.Done():
	}
	require.NoError(t, server.Restart(within(t, soon)))
	told.await(t, farsync.Connected, farsync.Suspended, farsync.Connected)
	require.NoError(t, holder.Err())
	require.Empty(t, waiter)
	require.NoError(t, holder.Release())
	lease := got(t, waiter)
	require.Greater(t, lease.Token(), holder.Token())
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
	require.Equal(t, []farsync.State{farsync.Connected, farsync.Suspended, farsync.Connected}, told.all())
}

// TestStoreConnectsOftenWhileItsSessionIsAtStake: gRPC by itself waits for a second after the first attempt to
// connect that fails, and longer each time. A server that is back in time would be found too late.
func TestStoreConnectsOftenWhileItsSessionIsAtStake(t *testing.T) {
	server, _ := begin(t)
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
	server, admin := begin(t)
	var told, toldWaiters states
	holders := newStore(t, server.Endpoint(), told.options(2*time.Second))
	waiters := newStore(t, server.Endpoint(), toldWaiters.options(2*time.Second))
	holder := lock(t, holders, "/outage")
	waiter := lockBehind(t, farsync.NewMutex(waiters, "/outage"))
	old := awaitKeys(t, admin, "/outage", 2)

	server.Kill()
	ended(t, holder)
	require.ErrorIs(t, holder.Err(), farsync.ErrLost)
	require.ErrorIs(t, holder.Release(), farsync.ErrLost)
	toldWaiters.await(t, farsync.Connected, farsync.Suspended, farsync.Lost)
	require.Empty(t, waiter)
	require.NoError(t, server.Restart(within(t, soon)))
	lease := got(t, waiter)
	require.NoError(t, lease.Err())
	require.Greater(t, lease.Token().Revision(), old[1].CreateRevision)
	told.await(t, farsync.Connected, farsync.Suspended, farsync.Lost, farsync.Connected)
	toldWaiters.await(t, farsync.Connected, farsync.Suspended, farsync.Lost, farsync.Connected)
	behind := lockBehind(t, farsync.NewMutex(holders, "/outage"))
	awaitKeys(t, admin, "/outage", 2)
	require.NoError(t, lease.Release())
	require.NoError(t, got(t, behind).Release())
}
