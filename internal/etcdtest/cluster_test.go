package etcdtest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/internal/suite"
)

// newStoreOf returns a Store on a client of all members, which notices a connection whose other end is silent.
func newStoreOf(t testing.TB, cluster *embedtest.EtcdEnsemble, options *etcd.Options) *farsync.Store {
	return storeOn(t, clientOf(t, clientv3.Config{
		Endpoints: cluster.Endpoints(), DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: time.Second,
	}), options)
}

// leaderOf returns the leader that the members agree on, leaving out the one that has failed, if any.
func leaderOf(t testing.TB, cluster *embedtest.EtcdEnsemble, without ...int) (leader int) {
	t.Helper()
	clients := make([]*clientv3.Client, len(cluster.Endpoints()))
	for i, endpoint := range cluster.Endpoints() {
		clients[i] = newClient(t, endpoint)
	}
	require.Eventually(t, func() bool {
		found := map[uint64]bool{}
		for i, client := range clients {
			if slices.Contains(without, i) {
				continue
			}
			status, err := client.Status(within(t, time.Second), client.Endpoints()[0])
			if err != nil {
				return false
			}
			found[status.Leader] = true
			if status.Leader == status.Header.MemberId {
				leader = i
			}
		}
		return len(found) == 1 && !found[0] && !slices.Contains(without, leader)
	}, soon, 10*time.Millisecond)
	return leader
}

// A memberFault is what befalls a member, and how it ends.
type memberFault struct {
	name   string
	befall func(*embedtest.EtcdEnsemble, int)
	end    func(context.Context, *embedtest.EtcdEnsemble, int) error
}

var memberFaults = []memberFault{
	{"killed",
		func(c *embedtest.EtcdEnsemble, i int) { c.Member(i).Kill() },
		func(ctx context.Context, c *embedtest.EtcdEnsemble, i int) error { return c.Member(i).Restart(ctx) }},
	{"stopped",
		func(c *embedtest.EtcdEnsemble, i int) { c.Member(i).Pause() },
		func(_ context.Context, c *embedtest.EtcdEnsemble, i int) error { c.Member(i).Resume(); return nil }},
	{"cut off",
		func(c *embedtest.EtcdEnsemble, i int) { c.Isolate(i) },
		func(_ context.Context, c *embedtest.EtcdEnsemble, i int) error { c.Heal(); return nil }},
}

// TestLeaderChangeKeepsTheQueue: the leader goes while a lock is held and others wait. Either the lease is
// kept, or its holder is told; whoever waits gets the lock in turn, with a higher token.
func TestLeaderChangeKeepsTheQueue(t *testing.T) {
	suite.Long(t, suite.Etcd, "kills, stops and cuts off the leader")
	t.Parallel()
	noLeaks(t)
	options := ttl(5 * time.Second)
	for _, fault := range memberFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel() // a stopped member is missed after more than 10 s
			cluster := embedtest.EtcdCluster(t, 3)
			leader := leaderOf(t, cluster)
			stores := []*farsync.Store{newStoreOf(t, cluster, options), newStoreOf(t, cluster, options), newStoreOf(t, cluster, options)}
			holder := lock(t, stores[0], "/leader")
			first := lockBehind(t, stores[1], "/leader")
			awaitQueue(t, stores[0], "/leader", 2)
			second := lockBehind(t, stores[2], "/leader")
			awaitQueue(t, stores[0], "/leader", 3)

			fault.befall(cluster, leader)
			leaderOf(t, cluster, leader)
			// A write goes through the new leader, or through members that do not know it yet.
			lease := lock(t, stores[0], "/another")
			_ = lease.Release()
			if lost := holder.Err(); lost == nil {
				require.Empty(t, first)
				if err := holder.Release(); err != nil {
					require.ErrorIs(t, err, context.DeadlineExceeded, "unconfirmed is all that it may be")
				}
			} else {
				t.Log("the lease was lost: ", lost)
				require.ErrorIs(t, holder.Release(), farsync.ErrLost)
			}
			next := got(t, first)
			require.Greater(t, next.Token(), holder.Token())
			require.Empty(t, second)
			if err := next.Release(); err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			last := got(t, second)
			require.Greater(t, last.Token(), next.Token())
			_ = last.Release()

			require.NoError(t, fault.end(within(t, soon), cluster, leader))
			leaderOf(t, cluster)
			for _, store := range stores {
				lease := lock(t, store, "/leader")
				require.NoError(t, lease.Release())
			}
		})
	}
}

// TestWaiterLeavesAMemberThatIsCutOff: the member that serves the waiter's watch hears no more of what
// happens, and its connection to the waiter is well.
func TestWaiterLeavesAMemberThatIsCutOff(t *testing.T) {
	suite.Long(t, suite.Etcd, "cuts off a member")
	t.Parallel()
	noLeaks(t)
	cluster := embedtest.EtcdCluster(t, 3)
	leader := leaderOf(t, cluster)
	follower := (leader + 1) % 3
	holder := lock(t, newStore(t, cluster.Member(leader).Endpoint(), nil), "/cut")
	ledger := newClient(t, cluster.Member(leader).Endpoint())

	free := clientOf(t, clientv3.Config{Endpoints: []string{cluster.Member(follower).Endpoint()}})
	bound := clientOf(t, clientv3.Config{Endpoints: []string{cluster.Member(follower).Endpoint()}})
	waiter := lockBehind(t, storeOn(t, free, nil), "/cut")
	awaitKeys(t, ledger, "/cut", 2)
	stuck := lockBehind(t, storeOn(t, bound, nil), "/cut")
	awaitKeys(t, ledger, "/cut", 3)
	// Its watch is with the follower. Now it may go elsewhere.
	free.SetEndpoints(cluster.Endpoints()...)

	cluster.Isolate(follower)
	begun := time.Now()
	require.NoError(t, holder.Release())
	lease := got(t, waiter)
	t.Logf("served %v after the cut", time.Since(begun).Round(time.Millisecond))
	require.Empty(t, stuck)
	require.NoError(t, lease.Release())

	cluster.Heal()
	begun = time.Now()
	next := got(t, stuck)
	t.Logf("who knows that member only is served %v after the end of the cut", time.Since(begun).Round(time.Millisecond))
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Release())
}

// TestFaultsOfMembersKeepHoldersApart has four processes contend while one member after the other fails. Each holder
// looks whether somebody else believes to hold as well, and writes with its token to a resource that checks it.
func TestFaultsOfMembersKeepHoldersApart(t *testing.T) {
	suite.Long(t, suite.Etcd, "members fail while contenders with a TTL of 3 s race")
	t.Parallel()
	noLeaks(t)
	cluster := embedtest.EtcdCluster(t, 3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	section := locktest.NewSection(t, 1)
	var mark, sum atomic.Int64
	var turns [4]atomic.Int64
	var all sync.WaitGroup
	for i := range turns {
		mu := farsync.NewMutex(newStoreOf(t, cluster, ttl(3*time.Second)), "/apart")
		all.Go(func() {
			for ctx.Err() == nil {
				lease, err := mu.Lock(ctx)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				leave := section.Enter(lease, 1)
				if last := mark.Swap(int64(lease.Token())); int64(lease.Token()) <= last {
					t.Errorf("token %d after %d", lease.Token(), last)
				}
				_ = pause.For(ctx, time.Millisecond)
				sum.Add(1)
				leave()
				_ = lease.Release() // lost or unconfirmed: both happen here
				turns[i].Add(1)
			}
		})
	}
	progress := func() {
		for i := range turns {
			before := turns[i].Load()
			require.Eventually(t, func() bool { return turns[i].Load() > before }, soon, time.Millisecond, "contender %d", i)
		}
	}
	progress()
	for _, fault := range memberFaults {
		if fault.name == "stopped" {
			continue // it takes long, and TestLeaderChangeKeepsTheQueue has it
		}
		leader := leaderOf(t, cluster)
		fault.befall(cluster, leader)
		begun := time.Now()
		progress()
		t.Logf("leader %s: all are served again after %v", fault.name, time.Since(begun).Round(time.Millisecond))
		require.NoError(t, fault.end(within(t, soon), cluster, leader))
		leaderOf(t, cluster)
		begun = time.Now()
		progress()
		t.Logf("and %v after its return", time.Since(begun).Round(time.Millisecond))
	}
	stop()
	all.Wait()
	t.Logf("%d turns", sum.Load())
	ledger := clientOf(t, clientv3.Config{Endpoints: cluster.Endpoints()})
	awaitKeys(t, ledger, "/apart", 0)
}
