package etcd_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
)

// short is a TTL at which a Store notices a revoked lease soon: within a third of it.
var short = &etcd.Options{Options: farsync.Options{TTL: 2 * time.Second}}

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

// TestWaiterIsNeverGrantedOnARevokedLease is C3: the waiter's session ends, and at the same moment the holder leaves,
// so that the waiter finds nobody ahead.
func TestWaiterIsNeverGrantedOnARevokedLease(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	holders := newStore(t, server.Endpoint(), nil)
	var waits sync.WaitGroup
	defer waits.Wait()
	for _, path := range []string{"/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h"} {
		waiters := newStore(t, server.Endpoint(), nil) // who learns of it from what the server says, not by a timer
		waits.Go(func() {
			for range 5 {
				holder, err := farsync.NewMutex(holders, path).Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				waiter := lockBehind(t, farsync.NewMutex(waiters, path))
				old := awaitKeys(t, admin, path, 2)[1]
				revoked, err := admin.Revoke(t.Context(), clientv3.LeaseID(old.Lease))
				if err != nil {
					t.Error(err)
				}
				if err := holder.Release(); err != nil {
					t.Error(err)
				}
				lease := <-waiter
				if lease.Token().Revision() <= revoked.Header.Revision {
					t.Errorf("granted with revision %d on a lease that was revoked at %d", lease.Token().Revision(), revoked.Header.Revision)
				}
				keys := keysOf(t, admin, path)
				if len(keys) != 1 || keys[0].CreateRevision != lease.Token().Revision() {
					t.Errorf("granted with revision %d, but there are %v", lease.Token().Revision(), keys)
				}
				if err := lease.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestRevokedWaiterJoinsAgain is C3 while the holder holds on.
func TestRevokedWaiterJoinsAgain(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	holder, err := farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/again").Lock(t.Context())
	require.NoError(t, err)
	var told states
	waiters := newStore(t, server.Endpoint(), &etcd.Options{Options: farsync.Options{TTL: short.TTL, OnState: told.hook}})
	waiter := lockBehind(t, farsync.NewMutex(waiters, "/again"))
	old := awaitKeys(t, admin, "/again", 2)[1]
	revokeLeaseOf(t, admin, old)
	again := awaitKeys(t, admin, "/again", 2)[1]
	require.NotEqual(t, old.Key, again.Key)
	require.NotEqual(t, old.Lease, again.Lease)
	require.Empty(t, waiter)
	told.await(t, farsync.Connected, farsync.Lost, farsync.Connected)
	require.NoError(t, holder.Release())
	lease := got(t, waiter)
	require.Equal(t, again.CreateRevision, lease.Token().Revision())
	require.NoError(t, lease.Release())
}

// TestWaiterWhoseKeyIsTakenAwayJoinsAgain: its session lives.
func TestWaiterWhoseKeyIsTakenAwayJoinsAgain(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	holder, err := farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/wiped").Lock(t.Context())
	require.NoError(t, err)
	waiters := newStore(t, server.Endpoint(), nil)
	waiter := lockBehind(t, farsync.NewMutex(waiters, "/wiped"))
	awaitKeys(t, admin, "/wiped", 2)
	wiped, err := admin.Delete(t.Context(), "/wiped/", clientv3.WithPrefix())
	require.NoError(t, err)
	lease := got(t, waiter)
	require.Greater(t, lease.Token().Revision(), wiped.Header.Revision)
	require.Equal(t, awaitKeys(t, admin, "/wiped", 1)[0].CreateRevision, lease.Token().Revision())
	require.ErrorIs(t, holder.Release(), farsync.ErrLost)
	require.NoError(t, lease.Release())
}

// TestRevokedHolderIsTold is C4.
func TestRevokedHolderIsTold(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	var told states
	store := newStore(t, server.Endpoint(), &etcd.Options{Options: farsync.Options{TTL: short.TTL, OnState: told.hook}})
	mu := farsync.NewMutex(store, "/told")
	lease, err := mu.Lock(t.Context())
	require.NoError(t, err)
	under, cancel := lease.Context(t.Context())
	defer cancel()
	other, err := farsync.NewMutex(store, "/other").Lock(t.Context())
	require.NoError(t, err)
	revokeLeaseOf(t, admin, keysOf(t, admin, "/told")[0])
	ended(t, lease)
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	require.ErrorContains(t, lease.Err(), "expired or was revoked")
	<-under.Done()
	require.ErrorIs(t, context.Cause(under), farsync.ErrLost)
	require.Empty(t, lease.Entries())
	require.ErrorIs(t, lease.Release(), farsync.ErrLost)
	require.ErrorIs(t, lease.Release(), farsync.ErrReleased)
	ended(t, other)
	require.ErrorIs(t, other.Release(), farsync.ErrLost)
	told.await(t, farsync.Connected, farsync.Lost, farsync.Connected)

	next, err := mu.TryLock(t.Context())
	require.NoError(t, err, "the Store and the Mutex stay usable")
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Release())
}

// TestLockOnARevokedLeaseWaitsForTheNext is C3 where the client does not know yet: the server refuses the entry.
func TestLockOnARevokedLeaseWaitsForTheNext(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), nil) // with this TTL it learns of it much later
	mu := farsync.NewMutex(store, "/next")
	for _, by := range acquirers {
		lease, err := mu.Lock(t.Context())
		require.NoError(t, err)
		revokeLeaseOf(t, admin, keysOf(t, admin, "/next")[0])
		next, err := by.lock(farsync.NewMutex(store, "/next"), within(t, soon))
		require.NoError(t, err, by.name)
		require.NoError(t, next.Err(), by.name)
		require.ErrorIs(t, lease.Err(), farsync.ErrLost, "what the server said of one entry is true of all")
		require.NoError(t, next.Release())
		require.ErrorIs(t, lease.Release(), farsync.ErrLost)
	}
}

// TestReleaseOnARevokedLeaseIsALoss is C4 where the client does not know yet.
func TestReleaseOnARevokedLeaseIsALoss(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	lease, err := farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/unknowing").Lock(t.Context())
	require.NoError(t, err)
	revokeLeaseOf(t, admin, keysOf(t, admin, "/unknowing")[0])
	require.NoError(t, lease.Err())
	require.ErrorIs(t, lease.Release(), farsync.ErrLost)
}

// TestHolderAndWaiterOutliveARestart is scenario 5 of a port of Curator, with an outage that is shorter than the TTL.
func TestHolderAndWaiterOutliveARestart(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	var told states
	holders := newStore(t, server.Endpoint(), &etcd.Options{Options: farsync.Options{TTL: 6 * time.Second, OnState: told.hook}})
	waiters := newStore(t, server.Endpoint(), &etcd.Options{Options: farsync.Options{TTL: 6 * time.Second}})
	holder, err := farsync.NewMutex(holders, "/restart").Lock(t.Context())
	require.NoError(t, err)
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

// TestStoreConnectsOftenWhileItsSessionIsAtStake is C5: gRPC by itself waits for a second after the first attempt to
// connect that fails, and longer each time. A server that is back in time would be found too late.
func TestStoreConnectsOftenWhileItsSessionIsAtStake(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	var attempts atomic.Int64
	store := newStore(t, server.Endpoint(), nil, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		attempts.Add(1)
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}))
	lease, err := farsync.NewMutex(store, "/often").Lock(t.Context())
	require.NoError(t, err)
	server.Kill()
	before := attempts.Load()
	require.Eventually(t, func() bool { return attempts.Load() >= before+6 }, soon, time.Millisecond)
	require.NoError(t, lease.Err(), "by itself it connects four times in the life of the session")
	require.NoError(t, server.Restart(within(t, soon)))
}

// TestStoreOutlivesAnOutageLongerThanItsTTL: holder and waiter lose their sessions, and get new ones when the server
// is back. The waiter is served in a queue that begins anew.
func TestStoreOutlivesAnOutageLongerThanItsTTL(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	var told, toldWaiters states
	holders := newStore(t, server.Endpoint(), &etcd.Options{Options: farsync.Options{TTL: 2 * time.Second, OnState: told.hook}})
	waiters := newStore(t, server.Endpoint(), &etcd.Options{Options: farsync.Options{TTL: 2 * time.Second, OnState: toldWaiters.hook}})
	mu := farsync.NewMutex(holders, "/outage")
	holder, err := mu.Lock(t.Context())
	require.NoError(t, err)
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
	behind := lockBehind(t, mu)
	awaitKeys(t, admin, "/outage", 2)
	require.NoError(t, lease.Release())
	require.NoError(t, got(t, behind).Release())
}

// TestClosedStoreEndsItsLeasesAndWaiters: at once, and at the server too.
func TestClosedStoreEndsItsLeasesAndWaiters(t *testing.T) {
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), nil)
	holder, err := farsync.NewMutex(store, "/closed").Lock(t.Context())
	require.NoError(t, err)
	waited := make(chan error, 1)
	go func() {
		_, err := farsync.NewMutex(store, "/closed").Lock(t.Context())
		waited <- err
	}()
	awaitKeys(t, admin, "/closed", 2)
	require.NoError(t, store.Close())
	require.NoError(t, store.Close())
	require.ErrorIs(t, <-waited, farsync.ErrClosed)
	ended(t, holder)
	require.ErrorIs(t, holder.Err(), farsync.ErrClosed)
	require.ErrorIs(t, holder.Release(), farsync.ErrClosed)
	require.NotErrorIs(t, holder.Err(), farsync.ErrLost)
	require.Empty(t, keysOf(t, admin, "/closed"), "the session is revoked when Close returns")
	leases, err := admin.Leases(t.Context())
	require.NoError(t, err)
	require.Empty(t, leases.Leases)
}
