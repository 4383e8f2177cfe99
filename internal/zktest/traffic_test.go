package zktest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// requests are by operation. Those that keep the session are left out.
type requests = map[int32]int

// TestTrafficOfALock: a free lock is a create and a list, which follow each other at once, and its release a delete. A try reads
// first; if the lock is busy it reads the head's node, and writes nothing.
func TestTrafficOfALock(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "counts requests, and a request is made again that has no answer within a second")
	server, conn := begin(t)
	persistent(t, conn, "/traffic/free")
	store, other := newTapped(t, server, withTTL(longest)), newTapped(t, server, withTTL(longest))
	mu := farsync.NewMutex(store.Store, "/traffic/free")
	for _, row := range []struct {
		lock func(context.Context) (*farsync.Lease, error)
		want requests
	}{
		{mu.Lock, requests{opCreate: 1, opGetChildren: 1}},
		{mu.TryLock, requests{opCreate: 1, opGetChildren: 2}},
	} {
		for range 10 {
			store.tap.since()
			lease, err := row.lock(within(t, soon))
			require.NoError(t, err)
			require.Equal(t, row.want, store.tap.since())
			other.tap.since()
			_, err = farsync.NewMutex(other.Store, "/traffic/free").TryLock(within(t, soon))
			require.ErrorIs(t, err, farsync.ErrLocked)
			require.Equal(t, requests{opGetChildren: 1, opGetData: 1}, other.tap.since())
			_, err = farsync.NewMutex(store.Store, "/traffic/free").TryLock(within(t, soon))
			require.ErrorIs(t, err, farsync.ErrLocked)
			require.Empty(t, store.tap.since(), "this Store holds it")
			require.NoError(t, lease.Release())
			require.Equal(t, requests{opDelete: 1}, store.tap.since())
		}
	}
	require.Zero(t, store.tap.fired())
}

// TestFreeLockTakesOneRoundTrip: the queue is asked for before the node is known to be there. Here the reply to the
// create is held back until that is so, for good if it never is.
func TestFreeLockTakesOneRoundTrip(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "counts requests, and a request is made again that has no answer within a second")
	server, conn := begin(t)
	persistent(t, conn, "/traffic/overlapped")
	store := newTapped(t, server, withTTL(longest))
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

// TestContendedLockWatchesOnceAndReadsOnceAfterTheWakeUp: where one is ahead alone, it watches its own node as well, and reads
// nothing after the wake-up. Where several are ahead, it reads the node of the first, too: it may be a node that nobody will remove.
func TestContendedLockWatchesOnceAndReadsOnceAfterTheWakeUp(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "counts requests, and a request is made again that has no answer within a second")
	server, conn := begin(t)
	for queue, want := range map[int][2]requests{
		1:  {{opCreate: 1, opGetChildren: 1, opGetData: 2}, {}},
		40: {{opCreate: 1, opGetChildren: 1, opGetData: 2}, {opGetChildren: 1}},
	} {
		t.Run(fmt.Sprint(queue, " ahead"), func(t *testing.T) {
			path := fmt.Sprint("/traffic/contended", queue)
			persistent(t, conn, path)
			others := newStore(t, server, withTTL(longest))
			var leases []chan *farsync.Lease
			for i := range queue {
				leases = append(leases, lockBehind(t, others, path))
				awaitNodes(t, conn, path, i+1)
			}
			store := newTapped(t, server, withTTL(longest)) // so that it is not renewed while it waits
			var watching atomic.Bool
			store.tap.onRequest(func(op int32, frame []byte) verdict {
				if op == opGetData {
					watching.Store(frame[len(frame)-1] == 1)
				}
				return pass
			})
			store.tap.since()
			mine := lockBehind(t, store.Store, path)
			store.tap.await(t, opGetData, want[0][opGetData])
			for i := range queue - 1 {
				require.NoError(t, got(t, leases[i]).Release())
			}
			awaitNodes(t, conn, path, 2)
			require.Equal(t, want[0], store.tap.since())
			require.True(t, watching.Load())
			require.NoError(t, got(t, leases[queue-1]).Release())
			lease := got(t, mine)
			require.Equal(t, want[1], store.tap.since())
			require.Equal(t, 1, store.tap.fired())
			require.NoError(t, lease.Release())
		})
	}
}

// TestContendersReadTheirQueueTwice: three lock in turn, again and again. Each reads the queue when it has joined, and
// when the node ahead of it has gone. It watches that node, and has read the node of the holder.
//
// Timers make requests, too. A request is made again that has no answer within a second, and a create without an answer
// is looked for from then on; a hold is watched after three seconds; a session is renewed after a quarter of its TTL,
// and then proves itself before it holds. So the requests of a client are compared for as long as each of its turns
// takes less than that, and its session is young.
func TestContendersReadTheirQueueTwice(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "counts requests, and a request is made again that has no answer within a second")
	server, conn := begin(t)
	const path, clients = "/traffic/round", 3
	persistent(t, conn, path)
	var stores [clients]tapped
	var waits [clients]chan *farsync.Lease
	var joined [clients]time.Time
	var timers [clients]bool // may have fired
	opened, compared := time.Now(), 0
	for i := range stores {
		stores[i] = newTapped(t, server, withTTL(longest)) // so that it is not renewed while it waits
		joined[i] = time.Now()
		waits[i] = lockBehind(t, stores[i].Store, path)
		awaitNodes(t, conn, path, i+1)
	}
	section := locktest.NewSection(t, 1)
	for n := range 8 * clients {
		i := n % clients
		store := stores[i]
		lease := got(t, waits[i])
		section.Visit(t.Context(), lease, 1)
		require.NoError(t, lease.Release())
		seen := store.tap.since()
		timers[i] = timers[i] || time.Since(joined[i]) >= time.Second || time.Since(opened) >= longest/8
		if n >= clients && !timers[i] { // the first stood behind nobody, the second behind one alone
			require.Equal(t, requests{opCreate: 1, opGetData: 2, opGetChildren: 2, opDelete: 1}, seen, "turn %d", n)
			compared++
		}
		joined[i] = time.Now()
		waits[i] = lockBehind(t, store.Store, path)
		awaitNodes(t, conn, path, clients)
		store.tap.await(t, opGetData, 2)
	}
	t.Logf("%d of %d turns were compared", compared, 7*clients)
}

// TestCopiedNodeBlocksNobodyUnseen: somebody has copied a node of farsync's, as a node that stays, and its number is lower than today's numbers.
// Who holds goes on, and who locks from now on is refused at once, by name, though others wait.
func TestCopiedNodeBlocksNobodyUnseen(t *testing.T) {
	server, conn := begin(t)
	const path = "/traffic/copied"
	persistent(t, conn, path)
	require.NoError(t, conn.Delete(nodeNamed(t, conn, path+"/counted-"), -1)) // it has the lowest number
	lease := lock(t, newStore(t, server, withTTL(longest)), path)
	behind := lockBehind(t, newStore(t, server, withTTL(longest)), path)
	awaitNodes(t, conn, path, 2)
	mu := farsync.NewMutex(newStore(t, server, withTTL(longest)), path)
	copied := path + "/_c_ABCDEFGHIJKL7-lock-0000000000"
	_, err := conn.Create(copied, nil, 0, client.WorldACL(client.PermAll))
	require.NoError(t, err)
	_, err = mu.Lock(within(t, soon))
	require.ErrorContains(t, err, copied)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	awaitNodes(t, conn, path, 3) // its own has gone
	require.NoError(t, lease.Err())
	require.NoError(t, conn.Delete(copied, -1))
	require.NoError(t, lease.Release())
	require.NoError(t, got(t, behind).Release())
	lease, err = mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, lease.Release())
}

// TestHeadIsReadOnce by the waiters of a Store, however many join behind it.
func TestHeadIsReadOnce(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "counts requests, and a request is made again that has no answer within a second")
	server, conn := begin(t)
	const path = "/traffic/head"
	persistent(t, conn, path)
	lease := lock(t, newStore(t, server, withTTL(longest)), path)
	behind := lockBehind(t, newStore(t, server, withTTL(longest)), path)
	awaitNodes(t, conn, path, 2)
	store, head := newTapped(t, server, withTTL(longest)), nodeOf(t, lease)
	var reads atomic.Int32
	store.tap.onRequest(func(op int32, frame []byte) verdict {
		if op == opGetData && strings.Contains(string(frame), head) {
			reads.Add(1)
		}
		return pass
	})
	ctx, cancel := context.WithCancel(within(t, soon))
	gaveUp := make(chan error, 1)
	go func() { // joined below
		_, err := farsync.NewMutex(store.Store, path).Lock(ctx)
		gaveUp <- err
	}()
	store.tap.await(t, opGetData, 2) // the other is the watch of the waiter's
	cancel()
	require.ErrorIs(t, got(t, gaveUp), context.Canceled)
	awaitNodes(t, conn, path, 2)
	mine := lockBehind(t, store.Store, path)
	awaitNodes(t, conn, path, 3)
	require.NoError(t, lease.Release())
	require.NoError(t, got(t, behind).Release())
	require.NoError(t, got(t, mine).Release())
	require.EqualValues(t, 1, reads.Load())
}

// nodeNamed makes a node with a number.
func nodeNamed(t testing.TB, conn *client.Conn, prefix string) string {
	path, err := conn.Create(prefix, nil, client.FlagSequence, client.WorldACL(client.PermAll))
	require.NoError(t, err)
	return path
}

// TestWritesOfASession is what proof by a quorum costs (docs/adr/0011): a session that holds is renewed by a proposal every quarter of its
// TTL, however many locks it holds, and one of a thousand waiters by Syncs.
func TestWritesOfASession(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "counts the renewals of a TTL of 3 s")
	server, _ := begin(t)
	const waiters, locks, renewals, ttl = 300, 20, 3, 3 * time.Second
	idle, holder, store := newTapped(t, server, withTTL(ttl)), newTapped(t, server, withTTL(ttl)), newTapped(t, server, withTTL(ttl))
	for i := range locks {
		lock(t, holder.Store, fmt.Sprint("/traffic/proposals", i))
	}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range waiters {
		all.Go(func() {
			_, err := farsync.NewMutex(store.Store, "/traffic/proposals0").Lock(locktest.Apart(ctx))
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
	suite.Long(t, suite.ZooKeeper, "counts requests while waiters may look again")
	server, conn := begin(t)
	const waiters = 200
	persistent(t, conn, "/traffic/herd")
	store, standing := newStanding(t, server)
	lease := lock(t, newStore(t, server, nil), "/traffic/herd")
	store.tap.since()
	granted := make(chan *farsync.Lease, waiters)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer all.Wait()
	defer cancel()
	for range waiters {
		all.Go(func() {
			lease, err := farsync.NewMutex(store.Store, "/traffic/herd").Lock(locktest.Apart(ctx))
			if err != nil {
				t.Error(err)
				return
			}
			granted <- lease
		})
	}
	began := time.Now()
	standing.Await(t, waiters)
	require.GreaterOrEqual(t, len(listed(t, "wchc", store.tap.sessionID())), waiters)
	require.NoError(t, lease.Release())
	lease = got(t, granted)
	lists := 0
	for range waiters - 1 {
		store.tap.since()
		events := store.tap.fired()
		require.NoError(t, lease.Release())
		lease = got(t, granted)
		asked := store.tap.since()
		lists += asked[opGetChildren]
		require.Equal(t, 1, asked[opDelete])
		if time.Since(began) < locktest.LooksAgain {
			require.Equal(t, 1, asked[opGetChildren]+asked[opGetData], "it reads its own node, or the queue")
		}
		require.Equal(t, events+1, store.tap.fired())
	}
	require.Less(t, lists, waiters/10, "one list serves many")
	require.NoError(t, lease.Release())
}

// TestReleaseOfAUnitIsSentToTheOneItLetsIn: units that are released in the order in which they were acquired wake one waiter each, and no other is sent anything.
func TestReleaseOfAUnitIsSentToTheOneItLetsIn(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "counts events for longer than waiters wait between two looks")
	server, conn := begin(t)
	const size, waiters = 8, 56
	persistent(t, conn, "/traffic/units")
	store, looker := newTapped(t, server, nil), newStore(t, server, nil)
	units := farsync.NewSemaphore(store.Store, "/traffic/units", size)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var leases []chan *farsync.Lease
	for i := range size + waiters {
		granted := make(chan *farsync.Lease, 1)
		leases = append(leases, granted)
		all.Go(func() {
			if lease, err := units.Acquire(locktest.Apart(ctx), 1); err == nil {
				granted <- lease
			}
		})
		awaitQueue(t, looker, "/traffic/units", i+1)
	}
	store.tap.await(t, opGetData, size+waiters-1) // for a session watches a node once, whoever waits for it
	for i := range waiters {
		events := store.tap.fired()
		require.NoError(t, got(t, leases[i]).Release())
		next := got(t, leases[i+size])
		require.Equal(t, events+1, store.tap.fired())
		leases[i+size] <- next
	}
}

// TestMutexesShareOneSession, and a list reads the nodes that are asked for.
func TestMutexesShareOneSession(t *testing.T) {
	server, _ := begin(t)
	p, seen := newTap(t, server), new(passwords)
	p.keep(seen)
	store := newStore(t, p.addr(), withTTL(longest))
	mutexes := 100
	if suite.More(t, suite.ZooKeeper) {
		mutexes = 500
	}
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
	require.Equal(t, 1, seen.count())
	of := len(listed(t, "dump", p.sessionID()))
	require.Equal(t, mutexes, of, "ephemerals of the one session")
	for _, lease := range leases {
		require.NoError(t, lease.Release())
	}
}

// TestReadsOfACrowdAreShared: each that joins reads the whole queue, and waits for the answers to all others.
func TestReadsOfACrowdAreShared(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "counts the reads of 400 that come at once")
	server, conn := begin(t)
	persistent(t, conn, "/traffic/crowd")
	p := newTap(t, server)
	in := openSession(t, p.addr(), 10*time.Second)
	const crowd = 400
	p.since()
	var all errgroup.Group
	for range crowd {
		all.Go(func() error {
			e := driver.Entry{Queue: "/traffic/crowd", Kind: driver.Candidate, Units: 1}
			e.ID = in.NewID(e.Queue, e.Kind, 1)
			_, err := in.Create(within(t, soon), e, 0)
			return err
		})
	}
	require.NoError(t, all.Wait())
	asked := p.since()
	require.Equal(t, crowd, asked[opCreate])
	require.Less(t, asked[opGetChildren], crowd/2)

	v, err := in.List(within(t, soon), "/traffic/crowd", 1) // an election of many candidates has one leader to read
	require.NoError(t, err)
	require.Len(t, v.Entries, 1)
	require.Equal(t, requests{opGetChildren: 1, opGetData: 1}, p.since())
}

// listed returns what the shared server lists of a session under a word: the paths that it watches, or its nodes.
func listed(t testing.TB, word string, session int64) (paths []string) {
	t.Helper()
	list, err := sharedServer(t).FourLetter(within(t, soon), word)
	require.NoError(t, err)
	_, mine, _ := strings.Cut(list, fmt.Sprintf("0x%x%s\n", uint64(session), map[string]string{"dump": ":"}[word]))
	for line := range strings.Lines(mine) {
		path, ok := strings.CutPrefix(line, "\t")
		if !ok {
			break
		}
		paths = append(paths, strings.TrimSpace(path))
	}
	return paths
}
