package etcdtest_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
)

// A peer is another program's lock on a path.
type peer interface {
	lock(ctx context.Context) error
	unlock(ctx context.Context) error
}

// peers are those that the package documentation promises to share a queue with, on a client and a session of their own.
var peers = map[string]func(t *testing.T, client *clientv3.Client, path string) peer{
	"concurrency.Mutex": func(t *testing.T, client *clientv3.Client, path string) peer {
		session, err := concurrency.NewSession(client)
		require.NoError(t, err)
		t.Cleanup(func() { _ = session.Close() })
		return mutexPeer{concurrency.NewMutex(session, path)}
	},
	// What clients in other languages call, and what etcdctl lock does by itself.
	"lock service": func(t *testing.T, client *clientv3.Client, path string) peer {
		lease, err := client.Grant(within(t, soon), 60)
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = client.Revoke(context.WithoutCancel(t.Context()), lease.ID) })
		return &servicePeer{v3lockpb.NewLockClient(client.ActiveConnection()), path, lease.ID, nil}
	},
}

type mutexPeer struct{ *concurrency.Mutex }

func (p mutexPeer) lock(ctx context.Context) error   { return p.Lock(ctx) }
func (p mutexPeer) unlock(ctx context.Context) error { return p.Unlock(ctx) }

type servicePeer struct {
	service v3lockpb.LockClient
	path    string
	lease   clientv3.LeaseID
	key     []byte
}

func (p *servicePeer) lock(ctx context.Context) error {
	resp, err := p.service.Lock(ctx, &v3lockpb.LockRequest{Name: []byte(p.path), Lease: int64(p.lease)})
	if err == nil {
		p.key = resp.Key
	}
	return err
}

func (p *servicePeer) unlock(ctx context.Context) error {
	_, err := p.service.Unlock(ctx, &v3lockpb.UnlockRequest{Key: p.key})
	return err
}

// TestPeersStandInOneQueue: they wait for us and we for them, in the order of arrival.
func TestPeersStandInOneQueue(t *testing.T) {
	for name, open := range peers {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			server := embedtest.Etcd(t)
			client := newClient(t, server.Endpoint())
			store := newStore(t, server.Endpoint(), nil)
			mu := farsync.NewMutex(store, "/shared")
			first, second := open(t, client, "/shared"), open(t, client, "/shared")

			// theirs, ours, theirs, ours
			require.NoError(t, first.lock(within(t, soon)))
			ours := lockBehind(t, mu)
			awaitKeys(t, client, "/shared", 2)
			theirs := make(chan error, 1)
			ctx := within(t, soon)
			go func() { theirs <- second.lock(ctx) }()
			awaitKeys(t, client, "/shared", 3)
			last := lockBehind(t, farsync.NewMutex(store, "/shared"))
			awaitKeys(t, client, "/shared", 4)

			list, err := mu.Participants(t.Context())
			require.NoError(t, err)
			require.Equal(t, []driver.Kind{driver.Foreign, driver.Exclusive, driver.Foreign, driver.Exclusive},
				[]driver.Kind{list[0].Kind, list[1].Kind, list[2].Kind, list[3].Kind})
			require.Equal(t, []bool{true, false, false, false},
				[]bool{list[0].Held, list[1].Held, list[2].Held, list[3].Held})

			_, err = farsync.NewMutex(store, "/shared").TryLock(t.Context())
			require.ErrorIs(t, err, farsync.ErrLocked)
			if _, tries := second.(mutexPeer); tries {
				session, err := concurrency.NewSession(client)
				require.NoError(t, err)
				defer session.Close()
				require.ErrorIs(t, concurrency.NewMutex(session, "/shared").TryLock(t.Context()), concurrency.ErrLocked)
			}
			require.Empty(t, ours)
			require.NoError(t, first.unlock(t.Context()))
			lease := got(t, ours)
			require.Empty(t, theirs)
			require.NoError(t, lease.Release())
			require.NoError(t, <-theirs)
			require.Empty(t, last)
			require.NoError(t, second.unlock(t.Context()))
			final := got(t, last)
			require.Greater(t, final.Token(), lease.Token())
			require.NoError(t, final.Release())

			// Free again, for both.
			lease, err = mu.TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Release())
			require.NoError(t, first.lock(within(t, soon)))
			require.NoError(t, first.unlock(t.Context()))
			require.Empty(t, keysOf(t, client, "/shared"))
		})
	}
}

// TestPeerThatDiesLetsUsIn: its key goes with its lease.
func TestPeerThatDiesLetsUsIn(t *testing.T) {
	for name, open := range peers {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			server := embedtest.Etcd(t)
			client := newClient(t, server.Endpoint())
			dead := open(t, client, "/dead")
			require.NoError(t, dead.lock(within(t, soon)))
			waiter := lockBehind(t, farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/dead"))
			revokeLeaseOf(t, client, awaitKeys(t, client, "/dead", 2)[0])
			require.NoError(t, got(t, waiter).Release())
		})
	}
}

// TestPeersAddUpTogether: nothing but the lock keeps the additions apart. The number is atomic only so that the race
// detector has nothing to say where the lock is at fault: the additions are not.
func TestPeersAddUpTogether(t *testing.T) {
	t.Parallel() // the peers are slow, because they wait
	noLeaks(t)
	server := embedtest.Etcd(t)
	ctx := within(t, 2*soon)
	var number, token atomic.Int64
	section := locktest.NewSection(t, 1)
	add := func(lease locktest.Held) {
		old := number.Load()
		section.Visit(ctx, lease, 1)
		number.Store(old + 1)
	}
	var all sync.WaitGroup
	contend := func(rounds int, once func() error) {
		all.Go(func() {
			for range rounds {
				if err := once(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	rounds := map[string]int{"concurrency.Mutex": 50, "lock service": 10}
	for range 3 {
		for name, open := range peers {
			theirs := open(t, newClient(t, server.Endpoint()), "/sum")
			contend(rounds[name], func() error {
				if err := theirs.lock(ctx); err != nil {
					return err
				}
				add(nil)
				return theirs.unlock(ctx)
			})
		}
		ours := farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/sum")
		contend(50, func() error {
			lease, err := ours.Lock(ctx)
			if err != nil {
				return err
			}
			add(lease)
			if last := token.Swap(int64(lease.Token())); int64(lease.Token()) <= last {
				t.Errorf("token %d after %d", lease.Token(), last)
			}
			return lease.Release()
		})
	}
	all.Wait()
	require.EqualValues(t, 3*(50+10+50), number.Load())
}
