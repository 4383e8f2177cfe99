package etcd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
)

// These tests call the driver itself, for what no primitive shows. They give each call as long as it takes.

func newClient(t testing.TB, endpoints []string, dial ...grpc.DialOption) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialOptions: dial, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// openSession returns a session on the client, closed by t.
func openSession(t testing.TB, client *clientv3.Client) *session {
	s, err := newService(client)
	require.NoError(t, err)
	in, err := s.Open(t.Context(), 10*time.Second)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(context.WithoutCancel(t.Context())) })
	return in.(*session)
}

// create appends an entry to the queue.
func create(t testing.TB, s *session, queue string, k driver.Kind) driver.Entry {
	v, err := s.Create(t.Context(), entry(s, queue, k), 0)
	require.NoError(t, err)
	return v.Self
}

func entry(s *session, queue string, k driver.Kind) driver.Entry {
	return driver.Entry{
		Queue: queue, ID: s.NewID(queue, k, 1), Kind: k, Units: 1, Value: []byte("who"), Since: time.Now(),
	}
}

// A script is what becomes of the next unary calls of a client; those after them pass. carryOut has the server do it.
type script struct {
	mu    sync.Mutex
	fates []func(carryOut func() error) error
}

func (s *script) next(fates ...func(carryOut func() error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fates = fates
}

func (s *script) dial() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, in, out any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		carryOut := func() error { return invoke(ctx, method, in, out, cc, options...) }
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.fates) == 0 {
			return carryOut()
		}
		fate := s.fates[0]
		s.fates = s.fates[1:]
		return fate(carryOut)
	})
}

// lost: the server never hears of the call.
func lost(func() error) error { return status.Error(codes.Unavailable, "the connection broke") }

// saying: the server carries out the call, and the client is answered something else.
func saying(code codes.Code, words string) func(func() error) error {
	return func(carryOut func() error) error {
		if err := carryOut(); err != nil {
			return err
		}
		return status.Error(code, words)
	}
}

// TestRequestsThatAreSentTwiceSaySo: by itself the client repeats a write that a proxy answers with Canceled, and shows
// the last answer alone.
func TestRequestsThatAreSentTwiceSaySo(t *testing.T) {
	var s script
	in := openSession(t, newClient(t, []string{embedtest.Etcd(t).Endpoint()}, s.dial()))
	proxy := saying(codes.Canceled, "the proxy gave up")
	ctx := t.Context()

	v, err := in.Create(ctx, entry(in, "/twice", driver.Write), 0)
	require.NoError(t, err)
	require.False(t, v.Resent)
	require.True(t, v.All)
	s.next(proxy)
	v, err = in.Create(ctx, entry(in, "/twice", driver.Write), 0)
	require.NoError(t, err)
	require.True(t, v.Resent)
	require.False(t, v.All)
	require.Positive(t, v.Self.Revision)

	s.next(proxy)
	_, err = in.Replace(ctx, v.Self, driver.Read, nil)
	require.ErrorIs(t, err, driver.ErrConflict, "with itself; the caller looks")
	now, err := in.Find(ctx, v.Self)
	require.NoError(t, err)
	require.Equal(t, driver.Read, now.Kind)
	_, err = in.Replace(ctx, v.Self, driver.Read, nil)
	require.ErrorIs(t, err, driver.ErrConflict)

	s.next(proxy, saying(codes.PermissionDenied, "no more"))
	_, _, err = in.Delete(ctx, v.Self, nil)
	require.Equal(t, driver.Unknown, in.Outcome(err), "the refusal says nothing of what was sent before")
	v, found, err := in.Delete(ctx, v.Self, nil)
	require.NoError(t, err)
	require.False(t, found)
	require.False(t, v.Resent)
	first := create(t, in, "/twice", driver.Exclusive)
	s.next(proxy)
	v, found, err = in.Delete(ctx, first, nil)
	require.NoError(t, err)
	require.False(t, found)
	require.True(t, v.Resent, "so that nobody takes it for lost")
}

// TestRequestsThatAreNotSentAreNotDone: nothing need be looked for after them.
func TestRequestsThatAreNotSentAreNotDone(t *testing.T) {
	var s script
	client := newClient(t, []string{embedtest.Etcd(t).Endpoint()}, s.dial())
	in := openSession(t, client)
	ctx := t.Context()
	s.next(lost)
	_, err := in.Create(ctx, entry(in, "/unsent", driver.Exclusive), 0)
	require.Equal(t, driver.Unknown, in.Outcome(err), "it is not known yet that requests can be counted")
	_ = create(t, in, "/unsent", driver.Exclusive)
	s.next(lost)
	_, err = in.Create(ctx, entry(in, "/unsent", driver.Exclusive), 0)
	require.Equal(t, driver.NotDone, in.Outcome(err))
	s.next(saying(codes.Unavailable, "the connection broke"))
	_, err = in.Create(ctx, entry(in, "/unsent", driver.Exclusive), 0)
	require.Equal(t, driver.Unknown, in.Outcome(err))

	client.KV = namespace.NewKV(client.KV, "elsewhere")
	in = openSession(t, client)
	_ = create(t, in, "/unsent", driver.Exclusive)
	s.next(lost)
	_, err = in.Create(ctx, entry(in, "/unsent", driver.Exclusive), 0)
	require.Equal(t, driver.Unknown, in.Outcome(err), "the requests of a wrapped client are not counted")
}

func TestOutcomes(t *testing.T) {
	client := newClient(t, []string{embedtest.Etcd(t).Endpoint()})
	in := openSession(t, client)
	for _, row := range []struct {
		err  error
		want driver.Outcome
	}{
		{rpctypes.ErrGRPCPermissionDenied, driver.Refused},
		{rpctypes.ErrPermissionDenied, driver.Refused},
		{rpctypes.ErrRequestTooLarge, driver.Refused},
		{rpctypes.ErrNoSpace, driver.Refused},
		{status.Error(codes.Unimplemented, "404 of a gateway"), driver.Refused},
		{errors.ErrUnsupported, driver.Refused},
		{leaselessError("/a/b"), driver.Refused},
		{rpctypes.ErrNoLeader, driver.NotDone},
		{rpctypes.ErrTooManyRequests, driver.NotDone},
		{rpctypes.ErrInvalidAuthToken, driver.NotDone},
		{rpctypes.ErrAuthOldRevision, driver.NotDone},
		{rpctypes.ErrLeaderChanged, driver.Unknown},
		{rpctypes.ErrTimeout, driver.Unknown},
		{context.DeadlineExceeded, driver.Unknown},
		{context.Canceled, driver.Unknown},
		{status.Error(codes.Unavailable, "the connection broke"), driver.Unknown},
		{errors.New("anything else"), driver.Unknown},
		{errSilent, driver.Unknown},
		{rpctypes.ErrLeaseNotFound, driver.Expired},
		{errEnded, driver.Expired},
		{outcomeError{rpctypes.ErrLeaseNotFound, driver.Unknown}, driver.Expired},
	} {
		require.Equal(t, row.want, in.Outcome(row.err), "%v", row.err)
	}
	require.NoError(t, client.Close())
	require.Equal(t, driver.Closed, in.Outcome(context.Canceled))
	<-in.Over()
	require.Equal(t, driver.Closed, in.Outcome(in.Renew(t.Context(), nil)))
}

// TestSessionThatIsOverSaysSo: also where the server would go on answering.
func TestSessionThatIsOverSaysSo(t *testing.T) {
	client := newClient(t, []string{embedtest.Etcd(t).Endpoint()})
	in := openSession(t, client)
	expired := func(err error) {
		t.Helper()
		require.Equal(t, driver.Expired, in.Outcome(err), "%v", err)
	}
	for name, learn := range map[string]func() error{
		"Renew":  func() error { return in.Renew(t.Context(), nil) },
		"Create": func() error { _, err := in.Create(t.Context(), entry(in, "/over", driver.Exclusive), 0); return err },
		"Owned":  func() error { _, err := in.Owned(t.Context(), []string{"/over"}); return err },
	} {
		in = openSession(t, client)
		_, err := client.Revoke(t.Context(), in.lease)
		require.NoError(t, err)
		_, err = in.List(t.Context(), "/over", 0)
		require.NoError(t, err, "it does not know yet")
		expired(learn())
		select {
		case <-in.Over():
		default:
			require.Fail(t, "not over", name)
		}
		_, err = in.List(t.Context(), "/over", 0)
		expired(err)
		require.NoError(t, in.Close(t.Context()))
	}
	in = openSession(t, client)
	held := create(t, in, "/over", driver.Exclusive)
	watched := make(chan error, 1)
	go func() {
		_, err := in.Watch(t.Context(), driver.Entry{}, []driver.Target{{Entry: held}})
		watched <- err
	}()
	in.Drop()
	expired(<-watched)
	expired(in.Renew(t.Context(), nil))
	_, err := client.TimeToLive(t.Context(), in.lease)
	require.NoError(t, err)
}

// TestFailedRenewalLeavesItsMember: the next one is sent to another, whatever else the client has sent meanwhile.
func TestFailedRenewalLeavesItsMember(t *testing.T) {
	cluster := embedtest.EtcdCluster(t, 3)
	in := openSession(t, newClient(t, cluster.Endpoints()))
	require.NoError(t, in.Renew(t.Context(), nil))
	for range 3 {
		_, err := in.List(t.Context(), "/", 0) // the client has connected to all
		require.NoError(t, err)
	}
	leader, err := cluster.Leader(t.Context())
	require.NoError(t, err)
	follower := (leader + 1) % 3
	// Bring the stream to the follower.
	leave := func() (member string) {
		in.mu.Lock()
		defer in.mu.Unlock()
		member = "http://" + in.atRest.member
		in.atRest.leave()
		in.atRest = nil
		return member
	}
	on := func() string {
		in.mu.Lock()
		defer in.mu.Unlock()
		return "http://" + in.atRest.member
	}
	for on() != cluster.Endpoints()[follower] {
		leave()
		require.NoError(t, in.Renew(t.Context(), nil))
	}
	_, before := in.Granted()
	cluster.Member(follower).Pause()
	defer cluster.Member(follower).Resume()
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = in.Renew(short, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, driver.Unknown, in.Outcome(err))
	_, from := in.Granted()
	require.Equal(t, before, from, "only an answer moves it")
	for range 2 {
		// What else is sent takes its turn with the members, so that a new stream would be dealt the silent one.
		stream, err := in.leases.LeaseKeepAlive(in.life)
		require.NoError(t, err)
		_ = stream.CloseSend()
		sent := time.Now()
		require.NoError(t, in.Renew(t.Context(), nil))
		_, from = in.Granted()
		require.False(t, from.Before(sent))
		require.NotEqual(t, cluster.Endpoints()[follower], leave())
		in.mu.Lock()
		in.silent = cluster.Endpoints()[follower][len("http://"):]
		in.mu.Unlock()
	}
}

// TestRenewalsShareAStream: while they are answered.
func TestRenewalsShareAStream(t *testing.T) {
	var streams atomic.Int64
	in := openSession(t, newClient(t, []string{embedtest.Etcd(t).Endpoint()}, grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
			options ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			streams.Add(1)
			return open(ctx, desc, cc, method, options...)
		})))
	for range 5 {
		require.NoError(t, in.Renew(t.Context(), nil))
	}
	require.EqualValues(t, 1, streams.Load())
}

// TestSurveyShowsWholeQueuesInTheOrderOfTheirPaths: which is not that of their keys.
func TestSurveyShowsWholeQueuesInTheOrderOfTheirPaths(t *testing.T) {
	client := newClient(t, []string{embedtest.Etcd(t).Endpoint()})
	in := openSession(t, client)
	ctx := t.Context()
	var want []string
	for _, queue := range []string{"/s/a", "/s/a-b", "/s/a/b", "/s/a/n", "/s/b"} {
		for range 2 {
			want = append(want, create(t, in, queue, driver.Exclusive).ID)
		}
	}
	_ = create(t, in, "/other", driver.Exclusive)
	_, err := in.SetRegister(ctx, "/s/c", "5 5", 0, driver.Entry{}) // no entry of /s
	require.NoError(t, err)
	require.NoError(t, in.Tell(ctx, driver.Entry{Queue: "/s/b", ID: want[8], Revision: find(t, in, "/s/b", want[8]).Revision}, "x"))
	ids := func(after string, limit int) (list []string) {
		entries, err := in.Survey(ctx, "/s", after, limit)
		require.NoError(t, err)
		for _, e := range entries {
			list = append(list, e.ID)
			require.Equal(t, "who", string(e.Value))
		}
		return list
	}
	require.Equal(t, want, ids("", 0))
	require.Equal(t, want[:2], ids("", 1))
	require.Equal(t, want[:4], ids("", 3))
	require.Equal(t, want[2:4], ids("/s/a", 1))
	require.Equal(t, want[4:], ids("/s/a-b", 100))
	require.Empty(t, ids("/s/b", 1))
	for range surveyPage {
		want = append(want, create(t, in, "/s/d", driver.Exclusive).ID)
	}
	require.Equal(t, want, ids("", 0), "over pages")
}

func find(t testing.TB, s *session, queue, id string) driver.Entry {
	e, err := s.Find(t.Context(), driver.Entry{Queue: queue, ID: id})
	require.NoError(t, err)
	return e
}

// TestAWritersValueIsNeverChanged: the key would be a reader's from then on.
func TestAWritersValueIsNeverChanged(t *testing.T) {
	in := openSession(t, newClient(t, []string{embedtest.Etcd(t).Endpoint()}))
	e := create(t, in, "/value", driver.Write)
	_, err := in.Replace(t.Context(), e, driver.Write, []byte("else"))
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.Equal(t, driver.Write, find(t, in, "/value", e.ID).Kind)
	e, err = in.Replace(t.Context(), e, driver.Read, nil)
	require.NoError(t, err)
	_, err = in.Replace(t.Context(), e, driver.Read, []byte("else"))
	require.NoError(t, err)
	now := find(t, in, "/value", e.ID)
	require.Equal(t, driver.Read, now.Kind)
	require.Equal(t, "else", string(now.Value))
}

// TestReplaceThatExceedsTheQuotaIsUnknown: the transaction that does is carried out, and answered no space. Those after it
// are refused, and are known to be.
func TestReplaceThatExceedsTheQuotaIsUnknown(t *testing.T) {
	var s script
	in := openSession(t, newClient(t, []string{embedtest.Etcd(t).Endpoint()}, s.dial()))
	full := status.Convert(rpctypes.ErrGRPCNoSpace)
	e := create(t, in, "/full", driver.Write)
	s.next(func(func() error) error { return full.Err() })
	_, err := in.Replace(t.Context(), e, driver.Read, nil)
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)
	require.Equal(t, driver.Refused, in.Outcome(err))
	s.next(saying(full.Code(), full.Message()))
	_, err = in.Replace(t.Context(), e, driver.Read, nil)
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)
	require.Equal(t, driver.Unknown, in.Outcome(err))
	require.Equal(t, driver.Read, find(t, in, "/full", e.ID).Kind)
}

// TestGrantedCountsFromTheSending: an answer that comes late proves nothing of the time that it was under way. But it
// counts, also if nothing waits for it any more.
func TestGrantedCountsFromTheSending(t *testing.T) {
	proxy := embedtest.NewProxy(t, embedtest.Etcd(t).Endpoint())
	in := openSession(t, newClient(t, []string{"http://" + proxy.Addr()}))
	require.NoError(t, in.Renew(t.Context(), nil))
	_, before := in.Granted()
	proxy.CutReplies()
	begun := time.Now()
	require.ErrorIs(t, in.Renew(timeout(t, 50*time.Millisecond), nil), context.DeadlineExceeded)
	given := time.Now()
	_, from := in.Granted()
	require.Equal(t, before, from)
	proxy.Heal()
	require.Eventually(t, func() bool {
		_, from = in.Granted()
		return from.After(before)
	}, 30*time.Second, time.Millisecond)
	require.False(t, from.Before(begun))
	require.True(t, from.Before(given))
	require.NoError(t, in.Renew(t.Context(), nil))
}

// timeout returns a context that ends after d.
func timeout(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
