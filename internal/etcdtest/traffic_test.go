package etcdtest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
)

type calls = map[string]int

func TestFreeLockIsOneTxnAndReleaseOneDelete(t *testing.T) {
	server := embedtest.Etcd(t)
	var sent counter
	mu := farsync.NewMutex(newStore(t, server.Endpoint(), nil, sent.dial()...), "/free")
	sent.since()
	lease, err := mu.Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, calls{"KV/Txn": 1}, sent.since())
	require.NoError(t, lease.Release())
	require.Equal(t, calls{"KV/DeleteRange": 1}, sent.since())
	require.Zero(t, sent.watches.Load())
}

func TestContendedLockReadsTwiceAndWatchesOnce(t *testing.T) {
	server := embedtest.Etcd(t)
	// queue is how many wait already. In a short queue the join shows all; in a long one it takes a read to find
	// the predecessor.
	for _, row := range []struct{ queue, waiting int }{{1, 1}, {40, 1}, {140, 2}} {
		t.Run(fmt.Sprint(row.queue, " ahead"), func(t *testing.T) {
			path := fmt.Sprint("/contended", row.queue)
			others := newStore(t, server.Endpoint(), nil)
			var leases []chan *farsync.Lease
			for i := range row.queue {
				leases = append(leases, lockBehind(t, farsync.NewMutex(others, path)))
				awaitQueue(t, others, path, i+1)
			}
			var sent counter
			store := newStore(t, server.Endpoint(), nil, sent.dial()...)
			sent.since()
			mine := lockBehind(t, farsync.NewMutex(store, path))
			awaitQueue(t, others, path, row.queue+1)
			release := func(i int) { require.NoError(t, (<-leases[i]).Release()) }
			for i := range row.queue - 1 {
				release(i)
			}
			awaitQueue(t, others, path, 2)
			before := sent.sinceWhen(t, "KV/Range", row.waiting)
			require.Equal(t, calls{"KV/Txn": 1, "KV/Range": row.waiting}, before)
			release(row.queue - 1)
			lease := <-mine
			require.Equal(t, calls{"KV/Range": 1}, sent.since())
			require.EqualValues(t, 1, sent.watches.Load())
			require.EqualValues(t, 1, sent.events.Load())
			require.NoError(t, lease.Release())
		})
	}
}

func TestBusyTryLockIsOneReadAndNoWrite(t *testing.T) {
	server := embedtest.Etcd(t)
	lock(t, newStore(t, server.Endpoint(), nil), "/busy")
	var sent counter
	mu := farsync.NewMutex(newStore(t, server.Endpoint(), nil, sent.dial()...), "/busy")
	sent.since()
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.Equal(t, calls{"KV/Range": 1}, sent.since())
}

func TestFreeTryLockIsOneReadAndOneTxn(t *testing.T) {
	server := embedtest.Etcd(t)
	var sent counter
	mu := farsync.NewMutex(newStore(t, server.Endpoint(), nil, sent.dial()...), "/free")
	sent.since()
	lease, err := mu.TryLock(t.Context())
	require.NoError(t, err)
	require.Equal(t, calls{"KV/Range": 1, "KV/Txn": 1}, sent.since())
	require.NoError(t, lease.Release())
}

func TestOneReleaseWakesOneOf200(t *testing.T) {
	server := embedtest.Etcd(t)
	const waiters = 200
	var sent counter
	store := newStore(t, server.Endpoint(), nil, sent.dial()...)
	holder := lock(t, store, "/herd")
	granted := make(chan *farsync.Lease, waiters)
	var all sync.WaitGroup
	for range waiters {
		all.Go(func() {
			lease, err := farsync.NewMutex(store, "/herd").Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			granted <- lease
		})
	}
	// The first 127 were shown the whole queue when they joined; the others had to look for their predecessor. Then each
	// closed the gap of its watch. After that, a read is a wake-up.
	sent.sinceWhen(t, "KV/Range", 127+2*(waiters-127))
	lease := holder
	for range waiters {
		sent.since()
		events := sent.events.Load()
		require.NoError(t, lease.Release())
		lease = <-granted
		require.Equal(t, events+1, sent.events.Load())
		require.Equal(t, calls{"KV/DeleteRange": 1, "KV/Range": 1}, sent.since())
	}
	require.NoError(t, lease.Release())
	all.Wait()
}

func TestThousandMutexesShareOneSession(t *testing.T) {
	server := embedtest.Etcd(t)
	var sent counter
	store := newStore(t, server.Endpoint(), ttl(time.Minute), sent.dial()...)
	other := newStore(t, server.Endpoint(), ttl(time.Minute))
	const mutexes = 1000
	held, behind := make([]*farsync.Lease, mutexes), make([]chan *farsync.Lease, mutexes)
	var all sync.WaitGroup
	for i := range mutexes {
		all.Go(func() {
			path := fmt.Sprint("/many/", i)
			lease, err := farsync.NewMutex(other, path).Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			held[i], behind[i] = lease, lockBehind(t, farsync.NewMutex(store, path))
		})
	}
	all.Wait()
	// One at least for each; more if the server was stalled meanwhile.
	require.Eventually(t, func() bool { return sent.watches.Load() >= mutexes }, soon, time.Millisecond)
	for i, lease := range held {
		all.Go(func() {
			if err := lease.Release(); err != nil {
				t.Error(err)
			}
			<-behind[i]
		})
	}
	all.Wait()
	client := newClient(t, server.Endpoint())
	leases, err := client.Leases(t.Context())
	require.NoError(t, err)
	require.Len(t, leases.Leases, 2, "one of each store")
	require.LessOrEqual(t, sent.keepaliveStreams.Load(), int64(1))
	require.Positive(t, sent.watchStreams.Load())
	require.NoError(t, store.Close())
	require.NoError(t, other.Close())
	leases, err = client.Leases(t.Context())
	require.NoError(t, err)
	require.Empty(t, leases.Leases, "a session is revoked when Close returns")
}

// lockBehind locks in a goroutine, which t joins.
func lockBehind(t testing.TB, mu *farsync.Mutex) chan *farsync.Lease {
	got := make(chan *farsync.Lease, 1)
	done := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(done)
		lease, err := mu.Lock(ctx)
		if err == nil {
			got <- lease
		} else if ctx.Err() == nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { <-done })
	return got
}
