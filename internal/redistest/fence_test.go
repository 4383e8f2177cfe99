package redistest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/redis"
)

const fenceTTL = 2 * time.Second

var (
	disasters = flag.Int("disasters", 3, "times that each disaster befalls a server while a lock is held")
	failovers = flag.Int("failovers", 1, "the same, for those in which Sentinels or a cluster have to agree")
)

// A world is the servers of one trial, and how clients reach them.
type world struct {
	server *embedtest.RedisServer   // that which is serving
	to     *client.UniversalOptions // for all clients
	ttl    time.Duration
	leads  atomic.Pointer[string] // where the one address leads, where clients have but one
}

// newWorld returns one with a single server, whose address may move to another.
func newWorld(t *testing.T) *world {
	w := &world{server: embedtest.Redis(t), ttl: fenceTTL}
	w.move(w.server)
	w.to = &client.UniversalOptions{
		Addrs: []string{"the.address.of.redis:6379"},
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, *w.leads.Load())
		},
	}
	return w
}

// move has the address lead to another server.
func (w *world) move(to *embedtest.RedisServer) {
	address := to.Endpoint()
	w.leads.Store(&address)
}

// open returns a Store. What it dials goes through dial, if that is not nil.
func (w *world) open(t *testing.T, fresh bool, dial func(context.Context, string, string) (net.Conn, error)) *farsync.Store {
	to := *w.to
	if dial != nil {
		to.Dialer = dial
	}
	store, err := openAt(within(t, soon), &to, &redis.Options{Options: farsync.Options{TTL: w.ttl}, Fresh: fresh})
	require.NoError(t, err)
	return store
}

// A knife cuts one client off from all servers.
type knife struct {
	t       *testing.T
	dial    func(context.Context, string, string) (net.Conn, error)
	mu      sync.Mutex
	proxies map[string]*embedtest.Proxy
	cut     bool
}

func (w *world) knife(t *testing.T) *knife {
	return &knife{t: t, proxies: map[string]*embedtest.Proxy{}, dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

// through dials a server through a proxy that the knife cuts.
func (k *knife) through(w *world) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if w.to.Dialer != nil {
			address = *w.leads.Load()
		}
		k.mu.Lock()
		if k.cut {
			k.mu.Unlock()
			return nil, errors.New("cut off")
		}
		proxy, ok := k.proxies[address]
		if !ok {
			proxy = embedtest.NewProxy(k.t, address)
			k.proxies[address] = proxy
		}
		k.mu.Unlock()
		return k.dial(ctx, network, proxy.Addr())
	}
}

func (k *knife) cutOff() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = true
	for _, proxy := range k.proxies {
		proxy.Cut()
	}
}

// outlived has a holder cut off, right after it was granted, and then a disaster, which prepare may have got ready before the
// lock was taken; at once others want the lock, one of them since before. It is done over and over, some at the same time,
// each with servers of its own. None may enter while the holder is inside and has not been told that its lease has ended,
// and tokens must not go back.
func outlived(t *testing.T, times int, begin func(*testing.T) *world, prepare func(*testing.T, *world) (befall func())) {
	t.Parallel()
	overlaps, visits := atomic.Int64{}, atomic.Int64{}
	t.Run("trial", func(t *testing.T) {
		for i := range times {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				section := locktest.NewSection(t, 1)
				begin(t).outlive(t, section, prepare)
				n, _ := section.Visits()
				visits.Add(int64(n))
				overlaps.Add(int64(len(section.Overlaps())))
			})
		}
	})
	t.Logf("%d times: %d visits, %d overlaps", times, visits.Load(), overlaps.Load())
	require.Zero(t, overlaps.Load())
}

func (w *world) outlive(t *testing.T, section *locktest.Section, prepare func(*testing.T, *world) func()) {
	knife := w.knife(t)
	holder := w.open(t, true, knife.through(w))
	defer func() { _ = holder.Close() }()
	waiter := w.open(t, false, nil) // a Fresh one would take a server without its data for a new one
	defer func() { _ = waiter.Close() }()
	require.NoError(t, lock(t, holder, "/fence").Release())
	befall := prepare(t, w)
	lease := lock(t, holder, "/fence")
	leave := section.Enter(lease, 1)
	knife.cutOff()
	befall()
	var others sync.WaitGroup
	contend := func(store *farsync.Store) {
		for held := 0; held < 2; {
			next, err := farsync.NewMutex(store, "/fence").Lock(within(t, soon))
			if err != nil {
				t.Errorf("the lock is not free again: %v", err)
				return
			}
			if next.Token() <= lease.Token() {
				t.Errorf("token %d after %d", next.Token(), lease.Token())
			}
			section.Visit(t.Context(), next, 1)
			// On a machine that is busy with other things a session may run out at any time.
			if err := next.Release(); err == nil {
				held++
			} else if !errors.Is(err, farsync.ErrLost) {
				t.Error(err)
				return
			}
		}
	}
	others.Go(func() { contend(waiter) })
	for range 2 {
		others.Go(func() {
			store, err := openAt(within(t, soon), w.to, &redis.Options{Options: farsync.Options{TTL: w.ttl}})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = store.Close() }()
			contend(store)
		})
	}
	<-lease.Done()
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	others.Wait()
	leave()
	visits, _ := section.Visits()
	require.Greater(t, visits, 6)
}

// always is for a disaster that needs no preparation.
func always(befall func(*testing.T, *world)) func(*testing.T, *world) func() {
	return func(t *testing.T, w *world) func() { return func() { befall(t, w) } }
}

func TestKilledServerWithItsDataKeepsHoldersApart(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server")
	outlived(t, *disasters, newWorld, always(func(t *testing.T, w *world) {
		w.server.Kill()
		require.NoError(t, w.server.Restart(within(t, soon)))
	}))
}

// TestKilledServerWithoutItsDataKeepsHoldersApart, as one without persistence does.
func TestKilledServerWithoutItsDataKeepsHoldersApart(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server")
	outlived(t, *disasters, newWorld, always(func(t *testing.T, w *world) {
		w.server.Kill()
		require.NoError(t, w.server.Forget())
		require.NoError(t, w.server.Restart(within(t, soon)))
	}))
}

// TestAddressThatMovesKeepsHoldersApart: it leads to another server, one that is empty and has been up for long.
func TestAddressThatMovesKeepsHoldersApart(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server")
	outlived(t, *disasters, newWorld, func(t *testing.T, w *world) func() {
		other := embedtest.Redis(t)
		return func() {
			w.move(other)
			w.server.Kill()
		}
	})
}

// TestFlushedServerKeepsHoldersApart: the record of the namespace is gone with everything else.
func TestFlushedServerKeepsHoldersApart(t *testing.T) {
	suite.Long(t, suite.Redis, "cuts a holder off, and empties the server, beside a TTL of 2 s")
	outlived(t, *disasters, newWorld, always(func(t *testing.T, w *world) {
		require.NoError(t, newClient(t, w.server.Endpoint()).FlushAll(within(t, soon)).Err())
	}))
}

// TestFlushedServerIsNotFreshForAStoreThatKnowsIt: a Store with the option Fresh that has been there before knows better.
func TestFlushedServerIsNotFreshForAStoreThatKnowsIt(t *testing.T) {
	suite.Long(t, suite.Redis, "cuts a holder off, and empties the server, beside a TTL of 2 s")
	outlived(t, *disasters, newWorld, func(t *testing.T, w *world) func() {
		veteran := w.open(t, true, nil)
		return func() {
			defer func() { _ = veteran.Close() }()
			require.NoError(t, newClient(t, w.server.Endpoint()).FlushAll(within(t, soon)).Err())
			require.NoError(t, lock(t, veteran, "/other").Release()) // the first to come
		}
	})
}

// TestFlushedScriptsEndNothing: the server was not restarted, and its data says so.
func TestFlushedScriptsEndNothing(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	a, b := newStore(t, server.Endpoint(), fresh(time.Hour)), newStore(t, server.Endpoint(), fresh(time.Hour))
	lease := lock(t, a, "/flushed")
	require.NoError(t, newClient(t, server.Endpoint()).ScriptFlush(within(t, soon)).Err())
	require.NoError(t, lock(t, b, "/other").Release(), "without a silence, which would be of an hour")
	_, err := farsync.NewMutex(b, "/flushed").TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.NoError(t, lease.Release())
}

// TestStaleReplicaKeepsHoldersApart: it hears nothing of the lock, and is made the master by hand.
func TestStaleReplicaKeepsHoldersApart(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server, and promotes a replica")
	outlived(t, *disasters, newWorld, func(t *testing.T, w *world) func() {
		replica := replicaOf(t, w.server.Endpoint())
		stale(t, replica)
		return func() {
			w.server.Kill()
			promote(t, replica)
			w.move(replica)
		}
	})
}

// TestLostSecondKeepsHoldersApart: the server comes back with the data of a moment before the lock was taken, as with
// appendfsync everysec after a power cut.
func TestLostSecondKeepsHoldersApart(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server")
	outlived(t, *disasters, newWorld, func(t *testing.T, w *world) func() {
		w.server.Pause()
		saved, err := w.server.Save()
		require.NoError(t, err)
		w.server.Resume()
		return func() {
			w.server.Kill()
			require.NoError(t, w.server.Load(saved))
			require.NoError(t, w.server.Restart(within(t, soon)))
		}
	})
}

// longTTL is more than a failover takes, so that the lease of the holder still runs when it is over.
const longTTL = 5 * time.Second

// TestSentinelsFailoverToAStaleReplicaKeepsHoldersApart: the replica hears nothing of the lock, and the Sentinels make it the
// master.
func TestSentinelsFailoverToAStaleReplicaKeepsHoldersApart(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server, and waits for a failover")
	outlived(t, *failovers, withSentinels, func(t *testing.T, w *world) func() {
		return func() { w.server.Kill() }
	})
}

func withSentinels(t *testing.T) *world {
	w := &world{server: embedtest.Redis(t), ttl: longTTL}
	replica := replicaOf(t, w.server.Endpoint())
	sentinels := embedtest.Sentinels(t, 3, w.server)
	stale(t, replica)
	w.to = &client.UniversalOptions{Addrs: sentinels.Endpoints(), MasterName: sentinels.Name}
	return w
}

// TestClustersFailoverToAStaleReplicaKeepsHoldersApart: the same, and the other masters of a Redis Cluster make it the master.
func TestClustersFailoverToAStaleReplicaKeepsHoldersApart(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server, and waits for a failover")
	outlived(t, *failovers, withCluster, func(t *testing.T, w *world) func() {
		return func() { w.server.Kill() }
	})
}

func withCluster(t *testing.T) *world {
	cluster := embedtest.RedisClusterOf(t, 3)
	owner, err := cluster.Owner(within(t, soon), prefix)
	require.NoError(t, err)
	stale(t, cluster.Member(owner+3))
	return &world{
		server: cluster.Member(owner), ttl: longTTL,
		to: &client.UniversalOptions{Addrs: cluster.Endpoints(), IsClusterMode: true},
	}
}

// stale has a replica hear nothing more of its master: it gives a password that the master does not have.
func stale(t *testing.T, replica *embedtest.RedisServer) {
	admin := newClient(t, replica.Endpoint())
	require.NoError(t, admin.ConfigSet(within(t, soon), "masterauth", "wrong").Err())
	require.NoError(t, admin.Do(within(t, soon), "CLIENT", "KILL", "TYPE", "master").Err())
	require.Eventually(t, func() bool {
		text, err := admin.Info(within(t, soon), "replication").Result()
		return err == nil && strings.Contains(text, "master_link_status:down")
	}, soon, 10*time.Millisecond)
}

// replicaOf starts a replica, and waits until it has what its master has.
func replicaOf(t *testing.T, endpoint string) *embedtest.RedisServer {
	host, port, err := net.SplitHostPort(endpoint)
	require.NoError(t, err)
	replica := embedtest.Redis(t, "--replicaof", host+" "+port)
	awaitReplicas(t, endpoint, 1)
	return replica
}

func awaitReplicas(t *testing.T, endpoint string, n int) {
	admin := newClient(t, endpoint)
	require.Eventually(t, func() bool {
		require.NoError(t, admin.Set(within(t, soon), "mark", time.Now().String(), 0).Err())
		confirmed, err := admin.Wait(within(t, soon), n, time.Second).Result()
		return err == nil && confirmed == int64(n)
	}, soon, 10*time.Millisecond)
}

// promote makes a replica a master.
func promote(t *testing.T, replica *embedtest.RedisServer) {
	require.NoError(t, newClient(t, replica.Endpoint()).Do(within(t, soon), "REPLICAOF", "NO", "ONE").Err())
}

// demote makes a master a replica of another.
func demote(t *testing.T, server, of *embedtest.RedisServer) {
	host, port, err := net.SplitHostPort(of.Endpoint())
	require.NoError(t, err)
	require.NoError(t, newClient(t, server.Endpoint()).Do(within(t, soon), "REPLICAOF", host, port).Err())
	awaitReplicas(t, of.Endpoint(), 1)
}

// TestMasterThatComesBackIsNewToTheNamespace: it has not been restarted, so it still knows the scripts that it was given
// when it was master before. What it has now is the data of another.
func TestMasterThatComesBackIsNewToTheNamespace(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server, and promotes a replica")
	t.Parallel()
	a := embedtest.Redis(t)
	one := newStore(t, a.Endpoint(), fresh(fenceTTL)) // knows a and its scripts throughout
	require.NoError(t, lock(t, one, "/fence").Release())
	b := replicaOf(t, a.Endpoint())
	promote(t, b)
	demote(t, a, b)
	// Of what b grants a hears nothing any more.
	proxy := embedtest.NewProxy(t, b.Endpoint())
	section := locktest.NewSection(t, 1)
	holder := newStore(t, proxy.Addr(), fresh(fenceTTL))
	require.NoError(t, lock(t, holder, "/before").Release()) // and a has heard that b was introduced
	awaitReplicas(t, b.Endpoint(), 1)
	require.NoError(t, newClient(t, b.Endpoint()).Do(within(t, soon), "CLIENT", "KILL", "TYPE", "replica").Err())
	promote(t, a)
	lease := lock(t, holder, "/fence")
	leave := section.Enter(lease, 1)
	proxy.Cut()
	b.Kill()
	next := lock(t, one, "/fence")
	section.Visit(t.Context(), next, 1)
	leave()
	require.Empty(t, section.Overlaps())
	require.Greater(t, next.Token(), lease.Token())
}

// TestMasterThatMissedAnotherIsNewToTheNamespace: it hung, was not restarted, and has received nothing of what its replica granted as the
// master. In its data it is the one that was introduced last. A Store that was at the other knows better.
func TestMasterThatMissedAnotherIsNewToTheNamespace(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server, and promotes a replica")
	t.Parallel()
	w := newWorld(t)
	a := w.server
	veteran := w.open(t, true, nil)
	t.Cleanup(func() { _ = veteran.Close() })
	require.NoError(t, lock(t, veteran, "/fence").Release())
	b := replicaOf(t, a.Endpoint())
	require.NoError(t, newClient(t, a.Endpoint()).ConfigSet(within(t, soon), "masterauth", "wrong").Err()) // it will not hear of b
	a.Pause()
	promote(t, b)
	w.move(b)
	knife := w.knife(t)
	holder := w.open(t, false, knife.through(w))
	t.Cleanup(func() { _ = holder.Close() })
	require.NoError(t, lock(t, holder, "/fence").Release())
	require.NoError(t, lock(t, veteran, "/fence").Release())
	a.Resume()
	host, port, err := net.SplitHostPort(b.Endpoint())
	require.NoError(t, err)
	require.NoError(t, newClient(t, a.Endpoint()).Do(within(t, soon), "REPLICAOF", host, port).Err())
	section := locktest.NewSection(t, 1)
	lease := lock(t, holder, "/fence")
	leave := section.Enter(lease, 1)
	knife.cutOff()
	b.Kill()
	promote(t, a)
	w.move(a)
	next := lock(t, veteran, "/fence")
	section.Visit(t.Context(), next, 1)
	leave()
	require.Empty(t, section.Overlaps())
	require.Greater(t, next.Token(), lease.Token())
}

// TestMasterThatWasAReplicaInBetweenIsNewToTheNamespace: it was made a replica, took the data of its master, which is behind, and was made
// the master again, before any Store had made a request at the other. It was not restarted, and in its data it is the one that was introduced
// last.
func TestMasterThatWasAReplicaInBetweenIsNewToTheNamespace(t *testing.T) {
	suite.Long(t, suite.Redis, "cuts a holder off, and promotes a replica")
	t.Parallel()
	a := embedtest.Redis(t)
	one := newStore(t, a.Endpoint(), fresh(longTTL))
	require.NoError(t, lock(t, one, "/fence").Release())
	b := replicaOf(t, a.Endpoint())
	stale(t, b)
	proxy := embedtest.NewProxy(t, a.Endpoint())
	section := locktest.NewSection(t, 1)
	lease := lock(t, newStore(t, proxy.Addr(), fresh(longTTL)), "/fence")
	leave := section.Enter(lease, 1)
	proxy.Cut()
	promote(t, b)
	demote(t, a, b)
	promote(t, a)
	next := lock(t, one, "/fence")
	section.Visit(t.Context(), next, 1)
	leave()
	require.Empty(t, section.Overlaps())
	require.Greater(t, next.Token(), lease.Token())
}

// TestStoppedServerLosesNothing: what is held is held to its deadline, and what waits is served.
func TestStoppedServerLosesNothing(t *testing.T) {
	suite.Long(t, suite.Redis, "stops the server")
	t.Parallel()
	server := embedtest.Redis(t)
	section := locktest.NewSection(t, 1)
	stores := []*farsync.Store{
		newStore(t, server.Endpoint(), fresh(fenceTTL)), newStore(t, server.Endpoint(), fresh(fenceTTL)),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for _, store := range stores {
		for range 2 {
			workers.Go(func() {
				for ctx.Err() == nil {
					lease, err := farsync.NewMutex(store, "/stop").Lock(ctx)
					if err != nil {
						continue
					}
					section.Visit(ctx, lease, 1)
					_ = lease.Release() // the server may not answer
				}
			})
		}
	}
	before, _ := section.Visits()
	for i := range *disasters {
		server.Pause()
		<-time.After(fenceTTL * time.Duration(i%4) / 3) // a third of a TTL, up to one: sessions run out in some
		server.Resume()
		require.Eventually(t, func() bool {
			now, _ := section.Visits()
			defer func() { before = now }()
			return now > before
		}, soon, 10*time.Millisecond, "the lock is taken again")
	}
	cancel()
	workers.Wait()
	require.Empty(t, section.Overlaps())
}
