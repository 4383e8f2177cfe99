package etcdtest_test

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/locktest"
)

// What the tests of every store share.
const soon = locktest.Soon

var (
	within, awaitQueue      = locktest.Within, locktest.AwaitQueue
	lock, lockBehind, ended = locktest.Lock, locktest.LockBehind, locktest.Ended
)

// got waits for a lease.
func got(t testing.TB, leases <-chan *farsync.Lease) *farsync.Lease {
	t.Helper()
	return locktest.Got(t, leases)
}

// noLeaks is that of locktest. The server of all is there before and after.
func noLeaks(t testing.TB) {
	sharedServer(t)
	locktest.NoLeaks(t)
}

func TestMain(m *testing.M) {
	embedtest.Child()
	locktest.AtOnce(8)
	os.Exit(shared.Run(m))
}

// shared is the server of all tests that do it no harm.
var shared = locktest.Shared[*embedtest.EtcdEnsemble]{Start: func(ctx context.Context, dir string) (*embedtest.EtcdEnsemble, error) {
	return embedtest.StartEtcd(ctx, dir, 1)
}}

// sharedServer returns it.
func sharedServer(t testing.TB) *embedtest.EtcdServer {
	t.Helper()
	server, err := shared.Get()
	require.NoError(t, err)
	return server.Member(0)
}

// begin begins a test that runs beside others, and leaves no goroutines. The client is to see what is there.
func begin(t *testing.T) (server *embedtest.EtcdServer, admin *clientv3.Client) {
	t.Parallel()
	noLeaks(t)
	return sharedServer(t), newClient(t, sharedServer(t).Endpoint())
}

// beginAlone is begin on a server of its own, which the test may stop or fill, or of which it counts the sessions.
func beginAlone(t *testing.T) (server *embedtest.EtcdServer, admin *clientv3.Client) {
	t.Parallel()
	noLeaks(t)
	server = embedtest.Etcd(t)
	return server, newClient(t, server.Endpoint())
}

// newPath returns a path of t's own.
func newPath(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return "/" + name + "/" + rand.Text()
}

// newClient returns a client of the endpoint that says nothing, closed by t.
func newClient(t testing.TB, endpoint string, options ...grpc.DialOption) *clientv3.Client {
	return clientOf(t, clientv3.Config{Endpoints: []string{endpoint}, DialOptions: options})
}

// clientOf is newClient for other settings.
func clientOf(t testing.TB, config clientv3.Config) *clientv3.Client {
	config.Logger = zap.NewNop()
	client, err := clientv3.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// connectToAll makes sure that the client is connected to all members.
func connectToAll(t testing.TB, client *clientv3.Client) {
	for range 6 {
		_, err := client.Get(within(t, soon), "/")
		require.NoError(t, err)
	}
}

// ttl returns options with a TTL.
func ttl(d time.Duration) *etcd.Options { return &etcd.Options{Options: farsync.Options{TTL: d}} }

// noting is ttl with states that are noted.
func noting(states *locktest.States, d time.Duration) *etcd.Options {
	return &etcd.Options{Options: farsync.Options{TTL: d, OnState: states.Hook}}
}

// short is a TTL that is over soon, for tests of make long alone: the others have 10 s or more.
var short = ttl(2 * time.Second)

// newStore returns a Store on a client of its own, closed by t.
func newStore(t testing.TB, endpoint string, options *etcd.Options, dial ...grpc.DialOption) *farsync.Store {
	return storeOn(t, newClient(t, endpoint, dial...), options)
}

// storeOn returns a Store on the client, closed by t.
func storeOn(t testing.TB, client *clientv3.Client, options *etcd.Options) *farsync.Store {
	store, err := etcd.Open(within(t, soon), client, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// newStanding is newStore on a driver that counts the watches that stand.
func newStanding(t testing.TB, endpoint string, dial ...grpc.DialOption) (*farsync.Store, *locktest.Standing) {
	return standingOn(t, newClient(t, endpoint, dial...), time.Minute)
}

// standingOn is newStanding for a client that several may have.
func standingOn(t testing.TB, client *clientv3.Client, ttl time.Duration) (*farsync.Store, *locktest.Standing) {
	service, err := etcd.NewService(client)
	require.NoError(t, err)
	standing := &locktest.Standing{Service: service}
	store, err := farsync.Open(within(t, soon), standing, &farsync.Options{TTL: ttl})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store, standing
}

// A counter counts what a client sends and receives.
type counter struct {
	mu    sync.Mutex
	calls map[string]int // that were answered

	keepaliveStreams, watchStreams atomic.Int64
	watches, events, compactions   atomic.Int64
	ended                          atomic.Int64 // watches, by the server
	ranges                         sync.Map     // the watches of several keys, each a watchOn
	wide, wideEnded                atomic.Int64 // events and ended, of these
	answers                        atomic.Int64
	late                           atomic.Int64 // watches that were to begin at a revision
	renewals, progress             atomic.Int64 // requests for them
	renewer                        atomic.Value // the address of the member that was asked for the last renewal
}

func (c *counter) dial() []grpc.DialOption {
	c.calls = map[string]int{}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.unary), grpc.WithChainStreamInterceptor(c.stream)}
}

func (c *counter) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	err := invoke(ctx, method, req, reply, cc, options...)
	if err == nil || ctx.Err() == nil { // one that is given up is made again: on a busy machine it may be late
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls[method[len("/etcdserverpb."):]]++
	}
	if err == nil {
		c.answers.Add(1)
	}
	return err
}

func (c *counter) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, options...)
	if err != nil { // a member that is to be avoided was refused, for example
		return nil, err
	}
	switch method {
	case "/etcdserverpb.Watch/Watch":
		c.watchStreams.Add(1)
	case "/etcdserverpb.Lease/LeaseKeepAlive":
		c.keepaliveStreams.Add(1)
	}
	return &countedStream{stream, c}, nil
}

// renewedBy returns the address of the member to which the last renewal was sent.
func (c *counter) renewedBy() string { return c.renewer.Load().(string) }

// since returns the unary calls that were answered since the last call of since.
func (c *counter) since() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = map[string]int{}
	return calls
}

// sinceWhen is since, once there were n calls of the method. It polls: nothing tells when a client has sent.
func (c *counter) sinceWhen(t testing.TB, method string, n int) map[string]int {
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.calls[method] >= n
	}, soon, time.Millisecond)
	return c.since()
}

// keysOf returns the keys under the path, oldest first.
func keysOf(t testing.TB, client *clientv3.Client, path string) []*mvccpb.KeyValue {
	resp, err := client.Get(within(t, soon), path+"/", clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(t, err)
	return resp.Kvs
}

// awaitKeys waits until there are n keys under the path, and returns them. It polls, so that it sees what anybody else
// would see who came by.
func awaitKeys(t testing.TB, client *clientv3.Client, path string, n int) (keys []*mvccpb.KeyValue) {
	t.Helper()
	require.Eventually(t, func() bool {
		keys = keysOf(t, client, path)
		return len(keys) == n
	}, soon, 5*time.Millisecond)
	return keys
}

// revokeLeaseOf ends the session to which a key belongs, as the server would that heard no more of it.
func revokeLeaseOf(t testing.TB, client *clientv3.Client, key *mvccpb.KeyValue) {
	_, err := client.Revoke(within(t, soon), clientv3.LeaseID(key.Lease))
	require.NoError(t, err)
}

// A watchOn is a watch by its ID, which is the stream's.
type watchOn struct {
	on *countedStream
	id int64
}

type countedStream struct {
	grpc.ClientStream
	*counter
}

func (s *countedStream) SendMsg(m any) error {
	if _, ok := m.(*pb.LeaseKeepAliveRequest); ok {
		s.renewals.Add(1)
		if to, ok := grpcpeer.FromContext(s.Context()); ok {
			s.renewer.Store(to.Addr.String())
		}
	}
	if r, ok := m.(*pb.WatchRequest); ok && r.GetProgressRequest() != nil {
		s.progress.Add(1)
	}
	if r, ok := m.(*pb.WatchRequest); ok && r.GetCreateRequest() != nil {
		s.watches.Add(1)
		if len(r.GetCreateRequest().RangeEnd) > 0 {
			s.ranges.Store(watchOn{s, r.GetCreateRequest().WatchId}, true)
		}
		if r.GetCreateRequest().StartRevision > 0 {
			s.late.Add(1)
		}
	}
	return s.ClientStream.SendMsg(m)
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*pb.WatchResponse); ok && err == nil {
		_, wide := s.ranges.Load(watchOn{s, r.WatchId})
		if len(r.Events) > 0 {
			s.events.Add(1)
		}
		if wide && len(r.Events) > 0 {
			s.wide.Add(1)
		}
		if r.Canceled {
			s.ended.Add(1)
		}
		if wide && r.Canceled {
			s.wideEnded.Add(1)
		}
		if r.CompactRevision > 0 {
			s.compactions.Add(1)
		}
	}
	return err
}
