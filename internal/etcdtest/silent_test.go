package etcdtest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// TestOneSilentFollowerOfThreeIsNoOutage: it takes connections and answers nothing. The clients know all three members and
// have no keepalive of gRPC's, so that none of them ever notices by itself.
func TestOneSilentFollowerOfThreeIsNoOutage(t *testing.T) {
	suite.Long(t, suite.Etcd, "stops a member")
	t.Parallel()
	noLeaks(t)
	cluster := embedtest.EtcdCluster(t, 3)
	leader := leaderOf(t, cluster)
	follower := cluster.Member((leader + 1) % 3)
	admin := newClient(t, cluster.Member(leader).Endpoint())
	open := func(d time.Duration, sent *counter, told *locktest.States) *farsync.Store {
		client := clientOf(t, clientv3.Config{Endpoints: cluster.Endpoints(), DialOptions: sent.dial()})
		connectToAll(t, client)
		return storeOn(t, client, noting(told, d))
	}
	type client struct {
		counter
		locktest.States
		*farsync.Store
	}
	var patient, giving, quick, second client
	// With a long TTL an attempt without an answer must not last for a third of it; with a short one no renewal may be
	// missed twice.
	for c, d := range map[*client]time.Duration{
		&patient: time.Minute, &giving: time.Minute, &quick: 4 * time.Second, &second: 4 * time.Second,
	} {
		c.Store = open(d, &c.counter, &c.States)
	}
	held := lock(t, quick.Store, "/silent/held")
	waiting := lockBehind(t, second.Store, "/silent/held")
	awaitKeys(t, admin, "/silent/held", 2)
	before := quick.renewals.Load()

	follower.Pause()
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() { // free locks, and their releases
			lease, err := farsync.NewMutex(patient.Store, fmt.Sprint("/silent/free", i)).Lock(within(t, soon))
			if err != nil {
				t.Error(err)
				return
			}
			if err := lease.Release(); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() { // locks that are given up while their request is with the silent member, or not
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if lease, err := farsync.NewMutex(giving.Store, fmt.Sprint("/silent/given-up", i)).Lock(ctx); err == nil {
				_ = lease.Release()
			}
		})
	}
	for i, store := range []*farsync.Store{quick.Store, second.Store, quick.Store, second.Store} {
		all.Go(func() { // a contended lock
			for range 2 {
				lease, err := farsync.NewMutex(store, "/silent/contended").Lock(within(t, soon))
				if err != nil {
					t.Errorf("contender %d: %v", i, err)
					return
				}
				// All attempts of a third of this TTL may come to the silent member. Then the removal continues in the
				// background, as the next contender finds.
				if err := lease.Release(); err != nil && !errors.Is(err, farsync.ErrUnavailable) {
					t.Errorf("contender %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	require.Eventually(t, func() bool { return quick.renewals.Load() >= before+12 }, soon, 10*time.Millisecond)
	require.NoError(t, held.Err(), "the session has outlived its TTL several times")
	require.NotContains(t, quick.All(), farsync.StateLost)
	if err := held.Release(); err != nil { // as above
		require.ErrorIs(t, err, farsync.ErrUnavailable)
	}
	require.NoError(t, got(t, waiting).Release())

	follower.Resume() // what was with it is carried out now
	for i := range 12 {
		for _, path := range []string{"/silent/free", "/silent/given-up"} {
			lease, err := farsync.NewMutex(giving.Store, fmt.Sprint(path, i)).Lock(within(t, soon))
			require.NoError(t, err)
			require.NoError(t, lease.Release())
		}
	}
	for i := range 12 {
		awaitKeys(t, admin, fmt.Sprint("/silent/free", i), 0)
		awaitKeys(t, admin, fmt.Sprint("/silent/given-up", i), 0)
	}
}

// TestWaiterLeavesASilentMember: the member that serves its watch is stopped, and gRPC does not notice. No renewal can
// be sent to it either, so the session knows that others answer.
func TestWaiterLeavesASilentMember(t *testing.T) {
	suite.Long(t, suite.Etcd, "stops a member")
	t.Parallel()
	noLeaks(t)
	cluster := embedtest.EtcdCluster(t, 3)
	leader := leaderOf(t, cluster)
	follower := cluster.Member((leader + 1) % 3)
	holder := lock(t, newStore(t, cluster.Member(leader).Endpoint(), nil), "/leaves")
	admin := newClient(t, cluster.Member(leader).Endpoint())
	var sent counter
	client := clientOf(t, clientv3.Config{Endpoints: []string{follower.Endpoint()}, DialOptions: sent.dial()})
	store := storeOn(t, client, ttl(4*time.Second))
	waiter := lockBehind(t, store, "/leaves")
	awaitKeys(t, admin, "/leaves", 2)
	require.Eventually(t, func() bool { return sent.progress.Load() > 0 }, soon, time.Millisecond)
	before := sent.watchStreams.Load()
	client.SetEndpoints(cluster.Endpoints()...) // its watch is with the follower; now it may go elsewhere
	connectToAll(t, client)

	follower.Pause()
	require.NoError(t, holder.Release())
	lease := got(t, waiter)
	// The read beside its next watch, by another member, may be answered before the stream for that is opened.
	require.Eventually(t, func() bool { return sent.watchStreams.Load() > before }, soon, time.Millisecond)
	require.NoError(t, lease.Release())
	follower.Resume()
}

// TestIdleWatchStreamIsKept: it is silent, and answers when it is asked.
func TestIdleWatchStreamIsKept(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts streams while a TTL of 4 s is renewed")
	server, _ := begin(t)
	holder := lock(t, newStore(t, server.Endpoint(), nil), "/idle")
	var sent counter
	store := newStore(t, server.Endpoint(), ttl(4*time.Second), sent.dial()...)
	var waiters []chan *farsync.Lease
	for range 10 {
		waiters = append(waiters, lockBehind(t, store, "/idle"))
	}
	before := sent.renewals.Load()
	require.Eventually(t, func() bool { return sent.renewals.Load() >= before+8 }, soon, time.Millisecond)
	require.LessOrEqual(t, sent.watchStreams.Load(), int64(2), "one, and another if the server was stalled meanwhile")
	require.LessOrEqual(t, sent.progress.Load(), sent.renewals.Load(), "one message a renewal, for all watches")
	require.NoError(t, holder.Release())
	for range waiters {
		// Which of them came first is not known.
		var lease *farsync.Lease
		require.Eventually(t, func() bool {
			for _, waiter := range waiters {
				select {
				case lease = <-waiter:
					return true
				default:
				}
			}
			return false
		}, soon, time.Millisecond)
		require.NoError(t, lease.Release())
	}
}

// TestProxyThatKnowsNoProgressKeepsItsWatches: etcd's own proxy does not answer such a request. After two streams that were
// given up in vain, no more is asked.
func TestProxyThatKnowsNoProgressKeepsItsWatches(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts streams while a TTL of 2 s is renewed")
	server, _ := begin(t)
	holder := lock(t, newStore(t, server.Endpoint(), nil), "/proxy")
	var sent counter
	store := newStore(t, server.Endpoint(), short, append(sent.dial(), grpc.WithChainStreamInterceptor(withoutProgress))...)
	waiter := lockBehind(t, store, "/proxy")
	require.Eventually(t, func() bool { return sent.watchStreams.Load() >= 3 }, soon, time.Millisecond)
	before, asked, streams := sent.renewals.Load(), sent.progress.Load(), sent.watchStreams.Load()
	require.Eventually(t, func() bool { return sent.renewals.Load() >= before+6 }, soon, time.Millisecond)
	require.LessOrEqual(t, sent.watchStreams.Load(), streams+1, "one more if the server was stalled while the last was begun")
	require.Equal(t, asked, sent.progress.Load())
	require.NoError(t, holder.Release())
	require.NoError(t, got(t, waiter).Release())
}

// withoutProgress makes streams that lose requests for progress.
func withoutProgress(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, options...)
	return progressless{stream}, err
}

type progressless struct{ grpc.ClientStream }

func (s progressless) SendMsg(m any) error {
	if r, ok := m.(*pb.WatchRequest); ok && r.GetProgressRequest() != nil {
		return nil
	}
	return s.ClientStream.SendMsg(m)
}

// TestMetadataOfTheCallerStaysHere: it is not for etcd, and the client would open a watch stream for each.
func TestMetadataOfTheCallerStaysHere(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts streams, and one is given up where an answer takes a second")
	server, _ := begin(t)
	holder := lock(t, newStore(t, server.Endpoint(), nil), "/metadata")
	var seen atomic.Int64
	look := func(ctx context.Context) {
		if md, _ := metadata.FromOutgoingContext(ctx); len(md.Get("request-id")) > 0 {
			seen.Add(1)
		}
	}
	var sent counter
	store := newStore(t, server.Endpoint(), nil, append(sent.dial(),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, in, out any, cc *grpc.ClientConn,
			invoke grpc.UnaryInvoker, options ...grpc.CallOption,
		) error {
			look(ctx)
			return invoke(ctx, method, in, out, cc, options...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
			open grpc.Streamer, options ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			look(ctx)
			return open(ctx, desc, cc, method, options...)
		}))...)
	const waiters = 20
	var all sync.WaitGroup
	ctx, giveUp := context.WithCancel(within(t, soon))
	for i := range waiters {
		all.Go(func() {
			with := metadata.AppendToOutgoingContext(ctx, "request-id", fmt.Sprint(i))
			_, err := farsync.NewMutex(store, "/metadata").Lock(locktest.Apart(with))
			if ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return sent.watches.Load() >= waiters }, soon, time.Millisecond)
	require.LessOrEqual(t, sent.watchStreams.Load(), int64(2), "one, and another if the server was stalled meanwhile")
	require.Zero(t, seen.Load())
	giveUp()
	all.Wait()
	require.NoError(t, holder.Release())
}

// TestNamespacedClientServes: all of it is in the namespace, and exclusive there.
func TestNamespacedClientServes(t *testing.T) {
	server, _ := begin(t)
	inside := func() *farsync.Store {
		client := newClient(t, server.Endpoint())
		client.KV = namespace.NewKV(client.KV, "/tenant")
		client.Watcher = namespace.NewWatcher(client.Watcher, "/tenant")
		client.Lease = namespace.NewLease(client.Lease, "/tenant")
		return storeOn(t, client, ttl(time.Minute))
	}
	outside := newStore(t, server.Endpoint(), ttl(time.Minute))
	holder := lock(t, inside(), "/lock")
	waiter := lockBehind(t, inside(), "/lock")
	awaitQueue(t, outside, "/tenant/lock", 2)
	other := lock(t, outside, "/lock")
	require.NoError(t, holder.Release())
	require.NoError(t, got(t, waiter).Release())
	require.NoError(t, other.Release())
	awaitQueue(t, outside, "/tenant/lock", 0)
}
