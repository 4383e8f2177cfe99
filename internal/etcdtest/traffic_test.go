package etcdtest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

type calls = map[string]int

func TestFreeLockIsOneTxnAndReleaseIsAnother(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts requests, and one is made again where an answer takes a second")
	server := sharedServer(t)
	var sent counter
	mu := farsync.NewMutex(newStore(t, server.Endpoint(), nil, sent.dial()...), newPath(t))
	sent.since()
	lease, err := mu.Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, calls{"KV/Txn": 1}, sent.since())
	require.NoError(t, lease.Release())
	require.Equal(t, calls{"KV/Txn": 1}, sent.since())
	require.Zero(t, sent.watches.Load())
}

func TestContendedLockReadsOnceAndWatchesOnce(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts requests while waiters may look by themselves")
	server := sharedServer(t)
	// queue is how many wait already. Behind one alone the read that closes the gap of the watch makes the event a proof. Behind more a turn
	// is awaited: the first that does so in its queue sets up the watch of its Store and reads once, whatever the length of the queue.
	for _, row := range []struct{ queue int }{{1}, {40}, {140}} {
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
			require.Equal(t, calls{"KV/Txn": 1, "KV/Range": 1}, sent.since())
			release(row.queue - 1)
			lease := <-mine
			require.Empty(t, sent.since())
			require.EqualValues(t, 1, sent.watches.Load())
			require.EqualValues(t, 1, sent.events.Load())
			require.Zero(t, sent.late.Load(), "the server serves watches that begin at a revision every 100 ms")
			require.NoError(t, lease.Release())
		})
	}
}

func TestBusyTryLockIsOneReadAndNoWrite(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts requests, and one is made again where an answer takes a second")
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
	suite.Long(t, suite.Etcd, "counts requests, and one is made again where an answer takes a second")
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
	suite.Long(t, suite.Etcd, "counts requests while waiters may look by themselves")
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
			lease, err := farsync.NewMutex(store, path).Lock(locktest.Apart(t.Context()))
			if err != nil {
				t.Error(err)
				return
			}
			granted <- lease
		})
	}
	// The first watches the holder. The others await their turns, by one watch. A release is one transaction, with which the next is told. It
	// names what stands behind that, too. Only when the names have run out does a release look for the next one, and tell it.
	began := time.Now()
	standing.Await(t, waiters)
	require.LessOrEqual(t, sent.watches.Load(), int64(3), "of the turns, and of the holder and the first")
	lease := holder
	events := sent.events.Load()
	sent.since()
	for range waiters {
		require.NoError(t, lease.Release())
		lease = <-granted
	}
	asked := sent.since()
	if time.Since(began) < turnsAreAwaited {
		require.LessOrEqual(t, asked["KV/Range"], waiters/16+1)
		require.LessOrEqual(t, asked["KV/Txn"], waiters+waiters/16+1)
		require.Zero(t, asked["KV/DeleteRange"])
	}
	require.NoError(t, lease.Release())
	all.Wait()
	// One more where the first was sent the end of its own entry, which it had watched as well: the server had not ended that watch yet. And
	// one where an entry was told its turn that had a proof already.
	require.LessOrEqual(t, sent.events.Load()-events, int64(waiters+2))
}

// Units that are released in the order in which they were acquired wake one waiter each, and no other waiter is sent
// anything. A release out of order is sent to the waiters for which it could make room: as many as the place of the
// holder counts.
func TestReleaseOfAUnitIsSentToThoseItMayLetIn(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts events while watches may be set up again")
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
			if lease, err := units.Acquire(locktest.Apart(context.Background()), 1); err == nil {
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
	suite.Long(t, suite.Etcd, "a crowd of 1,000")
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

// turnsAreAwaited is the least time after which a waiter of newStanding looks by itself that awaits its turn: a quarter of its TTL.
const turnsAreAwaited = 15 * time.Second

// TestCallsOfAnAcquisition counts what contenders send of which each, once it has released, stands in line again before the next releases:
// a transaction to join, and one to leave, with which the next is told. Each 17th at most looks for the next one, and tells it. Of two,
// one watches the other, by a watch that stays.
func TestCallsOfAnAcquisition(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts requests while waiters may look by themselves")
	server, admin := begin(t)
	type grant struct {
		to    *farsync.Mutex
		lease *farsync.Lease
		err   error
	}
	for _, row := range []struct {
		contenders, stores, acquisitions int
		most                             float64
	}{{2, 2, 64, 2.1}, {3, 3, 64, 2.6}, {8, 8, 128, 2.25}, {64, 32, 256, 2.25}, {1000, 32, 256, 2.25}} {
		t.Run(fmt.Sprint(row.contenders), func(t *testing.T) {
			var (
				sent     counter
				path     = newPath(t)
				stores   []*farsync.Store
				standing []*locktest.Standing
				grants   = make(chan grant, row.contenders)
				all      sync.WaitGroup
			)
			defer all.Wait()
			client := newClient(t, server.Endpoint(), sent.dial()...)
			for range row.stores {
				store, s := standingOn(t, client, 40*turnsAreAwaited)
				stores, standing = append(stores, store), append(standing, s)
			}
			join := func(mu *farsync.Mutex) {
				all.Go(func() {
					lease, err := mu.Lock(locktest.Apart(t.Context()))
					grants <- grant{mu, lease, err}
				})
			}
			inLine := func(n int) {
				require.Eventually(t, func() bool {
					resp, err := admin.Get(t.Context(), path+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
					return err == nil && resp.Count == int64(n)
				}, soon, time.Millisecond)
			}
			release := func() grant {
				g := <-grants
				require.NoError(t, g.err)
				require.NoError(t, g.lease.Release())
				return g
			}
			began := time.Now()
			for i := range row.contenders {
				join(farsync.NewMutex(stores[i%row.stores], path))
				inLine(i + 1) // a thousand at once would keep the server, and the tests beside this one
			}
			require.Eventually(t, func() bool {
				all := int64(0)
				for _, s := range standing {
					all += s.Now()
				}
				return all >= int64(row.contenders)-1 // and one for the holder, when it has held for a while
			}, soon, time.Millisecond)
			resets := func() (all int64) {
				for _, s := range standing {
					all += s.Resets()
				}
				return all
			}
			sent.since()
			before := resets()
			for range row.acquisitions {
				join(release().to)
				inLine(row.contenders)
			}
			took, overdue := time.Since(began), resets()-before
			calls, asked := 0, sent.since()
			for method, n := range asked {
				if strings.HasPrefix(method, "KV/") { // others are for the sessions
					calls += n
				}
			}
			for _, store := range stores {
				require.NoError(t, store.Close())
			}
			each := float64(calls) / float64(row.acquisitions)
			t.Logf("%.2f calls an acquisition, %d answers overdue, %s: %v", each, overdue, took, asked)
			if overdue == 0 && took < 10*turnsAreAwaited { // else some have looked by themselves
				require.LessOrEqual(t, each, row.most)
			}
		})
	}
}
