package etcdtest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
)

type calls = map[string]int

func TestFreeLockIsOneTxnAndReleaseOneDelete(t *testing.T) {
	server := sharedServer(t)
	var sent counter
	mu := farsync.NewMutex(newStore(t, server.Endpoint(), nil, sent.dial()...), newPath(t))
	sent.since()
	lease, err := mu.Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, calls{"KV/Txn": 1}, sent.since())
	require.NoError(t, lease.Release())
	require.Equal(t, calls{"KV/DeleteRange": 1}, sent.since())
	require.Zero(t, sent.watches.Load())
}

func TestContendedLockReadsTwiceAndWatchesOnce(t *testing.T) {
	server := sharedServer(t)
	// queue is how many wait already. In a short queue the join shows all; in a long one it takes a read to find
	// the predecessor. Behind one alone the read that closes the gap of the watch makes the event a proof, and none follows.
	for _, row := range []struct {
		queue, waiting int
		woken          calls
	}{
		{1, 1, calls{}},
		{40, 1, calls{"KV/Range": 1}},
		{140, 2, calls{"KV/Range": 1}},
	} {
		t.Run(fmt.Sprint(row.queue, " ahead"), func(t *testing.T) {
			path := newPath(t)
			others := newStore(t, server.Endpoint(), nil)
			var leases []chan *farsync.Lease
			for i := range row.queue {
				leases = append(leases, lockBehind(t, others, path))
				awaitQueue(t, others, path, i+1)
			}
			var sent counter
			store, standing := newStanding(t, server.Endpoint(), sent.dial()...)
			sent.since()
			mine := lockBehind(t, store, path)
			awaitQueue(t, others, path, row.queue+1)
			release := func(i int) { require.NoError(t, (<-leases[i]).Release()) }
			for i := range row.queue - 1 {
				release(i)
			}
			awaitQueue(t, others, path, 2)
			standing.Await(t, 1)
			require.Equal(t, calls{"KV/Txn": 1, "KV/Range": row.waiting}, sent.since())
			release(row.queue - 1)
			lease := <-mine
			require.Equal(t, row.woken, sent.since())
			require.EqualValues(t, 1, sent.watches.Load())
			require.EqualValues(t, 1, sent.events.Load())
			require.Zero(t, sent.late.Load(), "the server serves watches that begin at a revision every 100 ms")
			require.NoError(t, lease.Release())
		})
	}
}

func TestBusyTryLockIsOneReadAndNoWrite(t *testing.T) {
	server := sharedServer(t)
	path := newPath(t)
	lock(t, newStore(t, server.Endpoint(), nil), path)
	var sent counter
	mu := farsync.NewMutex(newStore(t, server.Endpoint(), nil, sent.dial()...), path)
	sent.since()
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.Equal(t, calls{"KV/Range": 1}, sent.since())
}

func TestFreeTryLockIsOneReadAndOneTxn(t *testing.T) {
	server := sharedServer(t)
	var sent counter
	mu := farsync.NewMutex(newStore(t, server.Endpoint(), nil, sent.dial()...), newPath(t))
	sent.since()
	lease, err := mu.TryLock(t.Context())
	require.NoError(t, err)
	require.Equal(t, calls{"KV/Range": 1, "KV/Txn": 1}, sent.since())
	require.NoError(t, lease.Release())
}

func TestOneReleaseWakesOneOf200(t *testing.T) {
	server := sharedServer(t)
	path := newPath(t)
	const waiters = 200
	var sent counter
	store, standing := newStanding(t, server.Endpoint(), sent.dial()...)
	holder := lock(t, store, path)
	granted := make(chan *farsync.Lease, waiters)
	var all sync.WaitGroup
	for range waiters {
		all.Go(func() {
			lease, err := farsync.NewMutex(store, path).Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			granted <- lease
		})
	}
	// The first 127 were shown the whole queue when they joined; the others had to look for their predecessor. Then each
	// closed the gap of its watch. After that, a read is a wake-up, until they begin to look again by themselves. The first needs none:
	// it was alone behind the holder, and its event is a proof.
	began := time.Now()
	standing.Await(t, waiters)
	lease, want := holder, calls{"KV/DeleteRange": 1}
	events := sent.events.Load()
	for range waiters {
		sent.since()
		require.NoError(t, lease.Release())
		lease = <-granted
		if asked := sent.since(); time.Since(began) < locktest.LooksAgain {
			delete(asked, "Lease/LeaseTimeToLive") // the session's
			require.Equal(t, want, asked)
		}
		want["KV/Range"] = 1
	}
	require.NoError(t, lease.Release())
	all.Wait()
	// One more where the first was sent the end of its own entry, which it had watched as well: the server had not ended that watch yet.
	require.Contains(t, []int64{waiters, waiters + 1}, sent.events.Load()-events)
}

// Units that are released in the order in which they were acquired wake one waiter each, and no other is sent anything. A release
// out of order is sent to those for which it could make room: as many as the place of the holder counts.
func TestReleaseOfAUnitIsSentToThoseItMayLetIn(t *testing.T) {
	server := sharedServer(t)
	path := newPath(t)
	const size, waiters = 8, 56
	var sent counter
	store, standing := newStanding(t, server.Endpoint(), sent.dial()...)
	looker := newStore(t, server.Endpoint(), nil)
	units := farsync.NewSemaphore(store, path, size)
	sent.since()
	var leases []chan *farsync.Lease
	for i := range size + waiters {
		granted := make(chan *farsync.Lease, 1)
		leases = append(leases, granted)
		go func() { // ends when it has acquired, or when the Store is closed
			if lease, err := units.Acquire(context.Background(), 1); err == nil {
				granted <- lease
			}
		}()
		awaitQueue(t, looker, path, i+1)
	}
	standing.Await(t, waiters)
	// Events of other watches, of the size and of an entry that has been held for seconds, do not count. After an answer that was
	// overdue, watches may be set up again, and receive their events again. Every waiter is served even then.
	overdue := func() bool { return standing.Resets() > 0 }
	await := func(so func() bool) {
		t.Helper()
		require.Eventually(t, func() bool { return so() || overdue() }, soon, time.Millisecond)
	}
	told := func(events int64) {
		t.Helper()
		if !overdue() {
			require.Equal(t, events, sent.wide.Load())
		}
	}
	for i := range waiters - size {
		events := sent.wide.Load()
		require.NoError(t, (<-leases[i]).Release())
		leases[i+size] <- <-leases[i+size]
		// The next release must find this one's watch of those ahead ended.
		await(func() bool { return sent.wideEnded.Load() == int64(i+1) })
		told(events + 1)
	}
	events := sent.wide.Load()
	youngest := leases[waiters-1]
	require.NoError(t, (<-youngest).Release())
	leases[waiters] <- <-leases[waiters]
	await(func() bool { return sent.wide.Load() >= events+size })
	told(events + size)
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
			held[i], behind[i] = lease, lockBehind(t, store, path)
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

// TestCallsOfAnAcquisition counts what contenders send, each with a client of its own: a transaction, the read after the
// wake-up and a delete, and at most one read to close the gap of the watch, which most of them are spared. Two need one of the
// reads and no other.
func TestCallsOfAnAcquisition(t *testing.T) {
	server, _ := begin(t)
	for _, row := range []struct {
		contenders int
		most       float64
	}{{2, 3.1}, {8, 4.1}, {64, 4.1}} {
		t.Run(fmt.Sprint(row.contenders), func(t *testing.T) {
			var sent counter
			dial, path := sent.dial(), newPath(t)
			const rounds = 8
			var mutexes []*farsync.Mutex
			var overdue []*locktest.Standing
			for range row.contenders {
				store, standing := newStanding(t, server.Endpoint(), dial...)
				mutexes, overdue = append(mutexes, farsync.NewMutex(store, path)), append(overdue, standing)
			}
			sent.since()
			var all errgroup.Group
			for _, mu := range mutexes {
				all.Go(func() error {
					for range rounds {
						lease, err := mu.Lock(t.Context())
						if err == nil {
							err = lease.Release()
						}
						if err != nil {
							return err
						}
					}
					return nil
				})
			}
			require.NoError(t, all.Wait())
			calls := 0
			for method, n := range sent.since() {
				if strings.HasPrefix(method, "KV/") { // others are for the sessions
					calls += n
				}
			}
			var resets int64
			for _, standing := range overdue {
				resets += standing.Resets()
			}
			each := float64(calls) / float64(row.contenders*rounds)
			t.Logf("%.2f calls an acquisition, %d answers overdue", each, resets)
			if resets == 0 {
				require.LessOrEqual(t, each, row.most)
			}
		})
	}
}
