package zktest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/zk"
)

// requests are by operation. Those that keep the session are left out.
type requests = map[int32]int

// newTapped returns a Store with a tap of its own on the shared server.
func newTapped(t testing.TB, options *zk.Options) tapped {
	t.Helper()
	p := newTap(t, sharedServer(t).Endpoint())
	return tapped{newStore(t, p.addr(), options), p}
}

func TestFreeLockIsCreateAndChildrenAndReleaseOneDelete(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	persistent(t, newConn(t, server.Endpoint()), "/traffic/free")
	store := newTapped(t, nil)
	for range 20 {
		store.tap.since()
		lease := lock(t, store.Store, "/traffic/free")
		require.Equal(t, requests{opCreate: 1, opGetChildren: 1}, store.tap.since())
		require.NoError(t, lease.Release())
		require.Equal(t, requests{opDelete: 1}, store.tap.since())
	}
	require.Zero(t, store.tap.fired())
}

// TestFreeLockTakesOneRoundTrip: the queue is asked for before the node is known to be there. Here the reply to the
// create is held back until that is so, for good if it never is.
func TestFreeLockTakesOneRoundTrip(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	persistent(t, conn, "/traffic/overlapped")
	store := newTapped(t, nil)
	asked := make(chan struct{})
	ask := sync.OnceFunc(func() { close(asked) })
	ctx := within(t, soon)
	store.tap.onRequest(func(op int32, _ []byte) verdict {
		if op == opGetChildren {
			ask()
		}
		return pass
	})
	store.tap.onReply(func(op int32, _ []byte) verdict {
		if op == opCreate {
			select {
			case <-asked:
			case <-ctx.Done():
			}
		}
		return pass
	})
	store.tap.since()
	lease, err := farsync.NewMutex(store.Store, "/traffic/overlapped").Lock(ctx)
	require.NoError(t, err)
	require.Equal(t, requests{opCreate: 1, opGetChildren: 1}, store.tap.since(), "nothing was lost on the way")
	stat := statOf(t, conn, nodeOf(t, lease))
	require.Equal(t, stat.Czxid, lease.Token().Revision(), "from the create's own reply")
	require.Equal(t, store.tap.sessionID(), stat.EphemeralOwner)
	require.NoError(t, lease.Release())
}

func TestContendedLockWatchesOnceAndReadsOnceAfterTheWakeUp(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	for _, queue := range []int{1, 40} {
		t.Run(fmt.Sprint(queue, " ahead"), func(t *testing.T) {
			path := fmt.Sprint("/traffic/contended", queue)
			persistent(t, conn, path)
			others := newStore(t, server.Endpoint(), nil)
			var leases []chan *farsync.Lease
			for i := range queue {
				leases = append(leases, lockBehind(t, others, path))
				awaitNodes(t, conn, path, i+1)
			}
			store := newTapped(t, withTTL(40*time.Second)) // so that it is not renewed while it waits
			var watching atomic.Bool
			store.tap.onRequest(func(op int32, frame []byte) verdict {
				if op == opGetData {
					watching.Store(frame[len(frame)-1] == 1)
				}
				return pass
			})
			store.tap.since()
			mine := lockBehind(t, store.Store, path)
			store.tap.await(t, opGetData, 1)
			for i := range queue - 1 {
				require.NoError(t, got(t, leases[i]).Release())
			}
			awaitNodes(t, conn, path, 2)
			require.Equal(t, requests{opCreate: 1, opGetChildren: 1, opGetData: 1}, store.tap.since())
			require.True(t, watching.Load())
			require.NoError(t, got(t, leases[queue-1]).Release())
			lease := got(t, mine)
			require.Equal(t, requests{opGetChildren: 1}, store.tap.since())
			require.Equal(t, 1, store.tap.fired())
			require.NoError(t, lease.Release())
		})
	}
}

func TestBusyTryLockIsOneReadAndNoWrite(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	lease := lock(t, newStore(t, server.Endpoint(), nil), "/traffic/busy")
	store := newTapped(t, nil)
	store.tap.since()
	_, err := farsync.NewMutex(store.Store, "/traffic/busy").TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.Equal(t, requests{opGetChildren: 1}, store.tap.since())
	require.NoError(t, lease.Release())
}

func TestFreeTryLockIsOneReadAndTheLock(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	persistent(t, newConn(t, server.Endpoint()), "/traffic/try")
	store := newTapped(t, nil)
	store.tap.since()
	lease, err := farsync.NewMutex(store.Store, "/traffic/try").TryLock(t.Context())
	require.NoError(t, err)
	require.Equal(t, requests{opGetChildren: 2, opCreate: 1}, store.tap.since())
	require.NoError(t, lease.Release())
}

// TestWritesOfASession is what proof by a quorum costs (docs/adr/0011): a session that holds is renewed by a proposal every quarter of its
// TTL, however many locks it holds, and one of a thousand waiters by Syncs.
func TestWritesOfASession(t *testing.T) {
	sharedServer(t)
	noLeaks(t)
	const waiters, locks, renewals = 1000, 20, 3
	idle, holder, store := newTapped(t, withTTL(6*time.Second)), newTapped(t, withTTL(6*time.Second)), newTapped(t, withTTL(6*time.Second))
	for i := range locks {
		lock(t, holder.Store, fmt.Sprint("/traffic/proposals", i))
	}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range waiters {
		all.Go(func() {
			_, err := farsync.NewMutex(store.Store, "/traffic/proposals0").Lock(ctx)
			if ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	store.tap.await(t, opGetData, waiters)
	await(t, func() bool { // until all have joined
		for _, s := range []tapped{idle, store, holder} {
			s.tap.since()
		}
		store.tap.await(t, opSync, renewals)
		idle.tap.await(t, opSync, renewals)
		return len(store.tap.since()) == 0 && len(idle.tap.since()) == 0
	})
	holder.tap.await(t, opMulti, 1)
	require.Zero(t, holder.tap.requests(opSync))
	require.Less(t, holder.tap.since()[opMulti], renewals*locks/2, "one for all locks")
	cancel()
	all.Wait()
}

// TestOneReleaseWakesOneOf200: the other 199 are sent nothing.
func TestOneReleaseWakesOneOf200(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	const waiters = 200
	persistent(t, newConn(t, server.Endpoint()), "/traffic/herd")
	store := newTapped(t, nil)
	lease := lock(t, store.Store, "/traffic/herd")
	store.tap.since()
	granted := make(chan *farsync.Lease, waiters)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer all.Wait()
	defer cancel()
	for range waiters {
		all.Go(func() {
			lease, err := farsync.NewMutex(store.Store, "/traffic/herd").Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			granted <- lease
		})
	}
	store.tap.await(t, opGetData, waiters)
	lists := 0
	for range waiters {
		store.tap.since()
		events := store.tap.fired()
		require.NoError(t, lease.Release())
		lease = got(t, granted)
		asked := store.tap.since()
		lists += asked[opGetChildren]
		require.Equal(t, 1, asked[opDelete])
		require.Equal(t, 1, asked[opGetChildren]+asked[opGetData], "it reads its own node, or the queue")
		require.Equal(t, events+1, store.tap.fired())
	}
	require.Less(t, lists, waiters/10, "one list serves many")
	require.NoError(t, lease.Release())
}

func TestThousandMutexesShareOneSession(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	p := newTap(t, server.Endpoint())
	var handshakes atomic.Int64
	p.onRequest(func(op int32, _ []byte) verdict {
		if op == opConnect {
			handshakes.Add(1)
		}
		return pass
	})
	store := newStore(t, p.addr(), nil)
	const mutexes = 1000
	leases := make([]*farsync.Lease, mutexes)
	var all sync.WaitGroup
	for i := range mutexes {
		all.Go(func() {
			lease, err := farsync.NewMutex(store, fmt.Sprint("/traffic/many/", i)).Lock(within(t, soon))
			if err != nil {
				t.Error(err)
			}
			leases[i] = lease
		})
	}
	all.Wait()
	require.False(t, t.Failed())
	require.EqualValues(t, 1, handshakes.Load())
	dump, err := server.FourLetter(within(t, soon), "dump")
	require.NoError(t, err)
	_, mine, found := strings.Cut(dump, fmt.Sprintf("0x%x:\n", uint64(p.sessionID())))
	require.True(t, found, dump)
	of := 0
	for line := range strings.Lines(mine) {
		if !strings.HasPrefix(line, "\t") {
			break
		}
		of++
	}
	require.Equal(t, mutexes, of, "ephemerals of the one session")
	for _, lease := range leases {
		require.NoError(t, lease.Release())
	}
}
