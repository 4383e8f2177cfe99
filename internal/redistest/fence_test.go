package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/redis"
)

const (
	fenceTTL = 2 * time.Second
	times    = 20
)

// A disaster befalls a server of which a holder has been cut off. It returns the address of what then serves.
type disaster func(t *testing.T, server *embedtest.RedisServer) (endpoint string)

// always is a disaster that needs no preparation.
func always(befall disaster) func(*testing.T, *embedtest.RedisServer) disaster {
	return func(*testing.T, *embedtest.RedisServer) disaster { return befall }
}

// outlived has a holder cut off, right after a renewal, and then the disaster, which was prepared before the lock was taken;
// at once others want the lock. It is done over and over, some at the same time, each with servers of its own. None may
// enter while the holder is inside and has not been told that its lease has ended, and tokens must not go back.
func outlived(t *testing.T, times int, prepare func(*testing.T, *embedtest.RedisServer) disaster) {
	t.Helper()
	noLeaks(t)
	limit := make(chan struct{}, 4) // at a time, for each takes a server or two
	var all sync.WaitGroup
	for i := range times {
		all.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			t.Run(fmt.Sprint(i), func(t *testing.T) { outlivesOnce(t, prepare) })
		})
	}
	all.Wait()
}

func outlivesOnce(t *testing.T, prepare func(*testing.T, *embedtest.RedisServer) disaster) {
	server := embedtest.Redis(t)
	proxy := embedtest.NewProxy(t, server.Endpoint())
	section := locktest.NewSection(t, 1)
	holder := newStore(t, proxy.Addr(), fresh(fenceTTL))
	require.NoError(t, lock(t, holder, "/fence").Release())
	befall := prepare(t, server)
	lease := lock(t, holder, "/fence")
	leave := section.Enter(lease, 1)
	proxy.Cut()
	address := befall(t, server)
	settings := &redis.Options{Options: farsync.Options{TTL: fenceTTL}}
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			store, err := open(within(t, soon), address, settings)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = store.Close() }()
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
		})
	}
	<-lease.Done()
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	others.Wait()
	leave()
	visits, _ := section.Visits()
	require.Greater(t, visits, 6)
	require.Empty(t, section.Overlaps())
}

func TestKilledServerWithItsDataKeepsHoldersApart(t *testing.T) {
	outlived(t, times, always(func(t *testing.T, server *embedtest.RedisServer) string {
		server.Kill()
		require.NoError(t, server.Restart(within(t, soon)))
		return server.Endpoint()
	}))
}

// TestKilledServerWithoutItsDataKeepsHoldersApart, as one without persistence does.
func TestKilledServerWithoutItsDataKeepsHoldersApart(t *testing.T) {
	outlived(t, times, always(func(t *testing.T, server *embedtest.RedisServer) string {
		server.Kill()
		require.NoError(t, server.Forget())
		require.NoError(t, server.Restart(within(t, soon)))
		return server.Endpoint()
	}))
}

// TestServerAtAnotherAddressKeepsHoldersApart, one that is empty and has been up for longer than the TTL.
func TestServerAtAnotherAddressKeepsHoldersApart(t *testing.T) {
	outlived(t, times/4, always(func(t *testing.T, server *embedtest.RedisServer) string {
		server.Kill()
		return embedtest.Redis(t).Endpoint()
	}))
}

// TestFlushedServerKeepsHoldersApart: the record of the namespace is gone with everything else.
func TestFlushedServerKeepsHoldersApart(t *testing.T) {
	outlived(t, times/4, always(func(t *testing.T, server *embedtest.RedisServer) string {
		require.NoError(t, newClient(t, server.Endpoint()).FlushAll(within(t, soon)).Err())
		return server.Endpoint()
	}))
}

// TestStaleReplicaKeepsHoldersApart: it has stopped before the lock was taken, and is made the master.
func TestStaleReplicaKeepsHoldersApart(t *testing.T) {
	outlived(t, times, func(t *testing.T, server *embedtest.RedisServer) disaster {
		replica := replicaOf(t, server.Endpoint())
		replica.Pause()
		return func(t *testing.T, server *embedtest.RedisServer) string {
			server.Kill()
			replica.Resume()
			promote(t, replica)
			return replica.Endpoint()
		}
	})
}

// TestLostSecondKeepsHoldersApart: the server comes back with the data of a moment before the lock was taken, as with
// appendfsync everysec after a power cut.
func TestLostSecondKeepsHoldersApart(t *testing.T) {
	outlived(t, times, func(t *testing.T, server *embedtest.RedisServer) disaster {
		server.Pause()
		saved, err := server.Save()
		require.NoError(t, err)
		server.Resume()
		return func(t *testing.T, server *embedtest.RedisServer) string {
			server.Kill()
			require.NoError(t, server.Load(saved))
			require.NoError(t, server.Restart(within(t, soon)))
			return server.Endpoint()
		}
	})
}

// replicaOf starts a replica, and waits until it has what its master has.
func replicaOf(t *testing.T, endpoint string) *embedtest.RedisServer {
	host, port, err := net.SplitHostPort(endpoint)
	require.NoError(t, err)
	replica := embedtest.Redis(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
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
	noLeaks(t)
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

// TestStoppedServerLosesNothing: what is held is held to its deadline, and what waits is served.
func TestStoppedServerLosesNothing(t *testing.T) {
	noLeaks(t)
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
	for i := range times {
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
