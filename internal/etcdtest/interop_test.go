package etcdtest_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// A peer is another program's lock on a path, or its candidate in an election, under a lease of its own.
type peer interface {
	enter(ctx context.Context, value string) error
	leave(ctx context.Context) error
}

// A rival is a candidate.
type rival interface {
	peer
	proclaim(ctx context.Context, value string) error
	// leader returns what it believes the leader's value to be.
	leader(ctx context.Context) (string, error)
}

// peers are those that the package documentation promises to share a queue with.
var peers = map[string]func(t *testing.T, client *clientv3.Client, path string) peer{
	// What etcdctl lock does too.
	"concurrency.Mutex": func(t *testing.T, client *clientv3.Client, path string) peer {
		return mutexPeer{concurrency.NewMutex(sessionOf(t, client), path)}
	},
	// What clients in other languages call.
	"lock service": func(t *testing.T, client *clientv3.Client, path string) peer {
		return &lockPeer{v3lockpb.NewLockClient(client.ActiveConnection()), path, int64(sessionOf(t, client).Lease()), nil}
	},
	// What etcdctl elect does too.
	"concurrency.Election": func(t *testing.T, client *clientv3.Client, path string) peer {
		return electionPeer{concurrency.NewElection(sessionOf(t, client), path)}
	},
	"election service": func(t *testing.T, client *clientv3.Client, path string) peer {
		return &candidatePeer{v3electionpb.NewElectionClient(client.ActiveConnection()), path, int64(sessionOf(t, client).Lease()), nil}
	},
}

// sessionOf returns a session of its own, closed by t.
func sessionOf(t testing.TB, client *clientv3.Client) *concurrency.Session {
	session, err := concurrency.NewSession(client)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

type mutexPeer struct{ *concurrency.Mutex }

func (p mutexPeer) enter(ctx context.Context, _ string) error { return p.Lock(ctx) }
func (p mutexPeer) leave(ctx context.Context) error           { return p.Unlock(ctx) }

type lockPeer struct {
	service v3lockpb.LockClient
	path    string
	lease   int64
	key     []byte
}

func (p *lockPeer) enter(ctx context.Context, _ string) error {
	resp, err := p.service.Lock(ctx, &v3lockpb.LockRequest{Name: []byte(p.path), Lease: p.lease})
	p.key = resp.GetKey()
	return err
}

func (p *lockPeer) leave(ctx context.Context) error {
	_, err := p.service.Unlock(ctx, &v3lockpb.UnlockRequest{Key: p.key})
	return err
}

type electionPeer struct{ *concurrency.Election }

func (p electionPeer) enter(ctx context.Context, value string) error { return p.Campaign(ctx, value) }
func (p electionPeer) leave(ctx context.Context) error               { return p.Resign(ctx) }
func (p electionPeer) proclaim(ctx context.Context, value string) error {
	return p.Proclaim(ctx, value)
}

func (p electionPeer) leader(ctx context.Context) (string, error) {
	resp, err := p.Leader(ctx)
	if err != nil {
		return "", err
	}
	return string(resp.Kvs[0].Value), nil
}

type candidatePeer struct {
	service v3electionpb.ElectionClient
	path    string
	lease   int64
	key     *v3electionpb.LeaderKey
}

func (p *candidatePeer) enter(ctx context.Context, value string) error {
	resp, err := p.service.Campaign(ctx, &v3electionpb.CampaignRequest{Name: []byte(p.path), Lease: p.lease, Value: []byte(value)})
	p.key = resp.GetLeader()
	return err
}

func (p *candidatePeer) leave(ctx context.Context) error {
	_, err := p.service.Resign(ctx, &v3electionpb.ResignRequest{Leader: p.key})
	return err
}

func (p *candidatePeer) proclaim(ctx context.Context, value string) error {
	_, err := p.service.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: p.key, Value: []byte(value)})
	return err
}

func (p *candidatePeer) leader(ctx context.Context) (string, error) {
	resp, err := p.service.Leader(ctx, &v3electionpb.LeaderRequest{Name: []byte(p.path)})
	return string(resp.GetKv().GetValue()), err
}

// ours returns how farsync stands in the queue of a peer of that name.
func ours(store *farsync.Store, name, path, value string) func(context.Context) (*farsync.Lease, error) {
	if strings.Contains(strings.ToLower(name), "election") {
		return func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewElection(store, path).Campaign(ctx, value)
		}
	}
	return farsync.NewMutex(store, path).Lock
}

// TestPeersStandInOneQueue: they wait for us and we for them, in the order of arrival, and each reads who leads.
func TestPeersStandInOneQueue(t *testing.T) {
	server, client := begin(t)
	store := newStore(t, server.Endpoint(), ttl(time.Minute))
	for name, open := range peers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, path := within(t, soon), newPath(t)
			first, second := open(t, client, path), open(t, client, path)
			election := farsync.NewElection(store, path)
			leads := func(value string) { // of candidates
				t.Helper()
				for _, p := range []peer{first, second} {
					if r, ok := p.(rival); ok {
						theirs, err := r.leader(ctx)
						require.NoError(t, err)
						require.Equal(t, value, theirs)
						leader, err := election.Leader(ctx)
						require.NoError(t, err)
						require.Equal(t, value, leader.Value)
					}
				}
			}

			// theirs, ours, theirs, ours
			require.NoError(t, first.enter(ctx, "first"))
			next := locktest.Behind(t, ours(store, name, path, "ours"))
			awaitKeys(t, client, path, 2)
			theirs := make(chan error, 1)
			go func() { theirs <- second.enter(ctx, "second") }()
			awaitKeys(t, client, path, 3)
			last := locktest.Behind(t, ours(store, name, path, "last"))
			awaitKeys(t, client, path, 4)
			leads("first")
			queue := awaitQueue(t, store, path, 4)
			if r, ok := first.(rival); ok {
				require.NoError(t, r.proclaim(ctx, "first, still"))
				leads("first, still")
				list, err := store.Participants(ctx, path)
				require.NoError(t, err)
				for i, value := range []string{"first, still", "ours", "second", "last"} {
					require.Equal(t, value, list[i].Holder)
					require.Equal(t, i == 0, list[i].Held)
				}
			} else {
				require.Equal(t, []driver.Kind{driver.Foreign, driver.Exclusive, driver.Foreign, driver.Exclusive},
					[]driver.Kind{queue[0].Kind, queue[1].Kind, queue[2].Kind, queue[3].Kind})
				_, err := farsync.NewMutex(store, path).TryLock(ctx)
				require.ErrorIs(t, err, farsync.ErrLocked)
				require.ErrorIs(t, concurrency.NewMutex(sessionOf(t, client), path).TryLock(ctx), concurrency.ErrLocked)
			}
			require.Empty(t, next)
			require.NoError(t, first.leave(ctx))
			lease := got(t, next)
			leads("ours")
			if _, ok := second.(rival); ok {
				require.NoError(t, election.Proclaim(ctx, lease, "ours, still"))
				leads("ours, still")
			}
			require.Empty(t, theirs)
			require.NoError(t, lease.Release())
			require.NoError(t, locktest.Got(t, theirs))
			leads("second")
			require.Empty(t, last)
			require.NoError(t, second.leave(ctx))
			final := got(t, last)
			leads("last")
			require.Greater(t, final.Token(), lease.Token())
			require.NoError(t, final.Release())
			require.Empty(t, keysOf(t, client, path))
		})
	}
}

// TestPeersDieForOneAnother: the key of one that is dead goes with its lease, and the next has its turn. Of candidates the
// observers of both see it.
func TestPeersDieForOneAnother(t *testing.T) {
	server, client := begin(t)
	for name, open := range peers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, path := within(t, soon), newPath(t)
			store := newStore(t, server.Endpoint(), nil) // which loses its session
			seen := func(string) {}
			if strings.Contains(strings.ToLower(name), "election") {
				seen = observe(t, ctx, client, store, path)
			}
			require.NoError(t, open(t, client, path).enter(ctx, "theirs"))
			seen("theirs")
			next := locktest.Behind(t, ours(store, name, path, "ours"))
			revokeLeaseOf(t, client, awaitKeys(t, client, path, 2)[0])
			lease := got(t, next)
			seen("ours")
			heir, theirs := open(t, client, path), make(chan error, 1)
			go func() { theirs <- heir.enter(ctx, "heir") }()
			revokeLeaseOf(t, client, awaitKeys(t, client, path, 2)[0])
			require.NoError(t, locktest.Got(t, theirs))
			seen("heir")
			ended(t, lease)
			require.ErrorIs(t, lease.Err(), farsync.ErrLost)
			require.NoError(t, heir.leave(ctx))
		})
	}
}

// observe returns a function that waits until an observer of each program has seen a leader. Both end with t.
func observe(t *testing.T, ctx context.Context, client *clientv3.Client, store *farsync.Store, path string) func(string) {
	ctx, cancel := context.WithCancel(ctx)
	values, observing := make(chan string, 10), make(chan struct{})
	go func() {
		defer close(observing)
		for leader, err := range farsync.NewElection(store, path).Observe(ctx) {
			if err == nil && leader.Token != 0 { // somebody leads
				values <- leader.Value
			}
		}
	}()
	observed := concurrency.NewElection(sessionOf(t, client), path).Observe(ctx)
	t.Cleanup(func() {
		cancel()
		<-observing
		for range observed { // until it ends
		}
	})
	return func(value string) {
		t.Helper()
		require.Equal(t, value, locktest.Got(t, values))
		require.Equal(t, value, string(locktest.Got(t, observed).Kvs[0].Value))
	}
}

// TestPeersAddUpTogether: nothing but the lock keeps the additions apart. The number is atomic only so that the race
// detector has nothing to say where the lock is at fault: the additions are not.
//
// No watch of ours begins at a revision, as those of concurrency.Mutex do, which the server serves every 100 ms.
func TestPeersAddUpTogether(t *testing.T) {
	suite.Long(t, suite.Etcd, "contenders race, and what they send is counted")
	server, _ := begin(t)
	ctx, path := within(t, 2*soon), newPath(t)
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
	rounds := map[string]int{"concurrency.Mutex": 30, "lock service": 10}
	var ourCalls, theirCalls counter
	ourDial, theirDial := ourCalls.dial(), theirCalls.dial()
	for range 3 {
		for name, n := range rounds {
			theirs := peers[name](t, newClient(t, server.Endpoint(), theirDial...), path)
			contend(n, func() error {
				if err := theirs.enter(ctx, ""); err != nil {
					return err
				}
				add(nil)
				return theirs.leave(ctx)
			})
		}
		mu := farsync.NewMutex(newStore(t, server.Endpoint(), nil, ourDial...), path)
		contend(50, func() error {
			lease, err := mu.Lock(ctx)
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
	require.EqualValues(t, 3*(30+10+50), number.Load())
	require.Zero(t, ourCalls.late.Load())
	require.Positive(t, theirCalls.late.Load())
}
