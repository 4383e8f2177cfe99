package etcdtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/suite"
)

// These tests call the driver itself, for what no primitive shows. They give each call as long as it takes.

// A session is one of the driver's.
type session struct {
	driver.Session
	Outcome func(error) driver.Outcome
}

// openSession returns a session on the client, closed by t.
func openSession(t testing.TB, client *clientv3.Client) session {
	service, err := etcd.NewService(client)
	require.NoError(t, err)
	in, err := service.Open(t.Context(), 10*soon) // nothing renews it
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(context.WithoutCancel(t.Context())) })
	return session{in, service.Outcome}
}

// faultySession is openSession through faults.
func faultySession(t testing.TB) (session, *faults, *clientv3.Client) {
	f := new(faults)
	client := newClient(t, sharedServer(t).Endpoint(), f.dial()...)
	return openSession(t, client), f, client
}

// entry returns one that is to be created.
func (s session) entry(queue string, k driver.Kind) driver.Entry {
	return driver.Entry{
		Queue: queue, ID: s.NewID(queue, k, 1), Kind: k, Units: 1, Value: []byte("who"), Since: time.Now(),
	}
}

// create appends an entry to the queue.
func (s session) create(t testing.TB, queue string, k driver.Kind) driver.Entry {
	v, err := s.Create(t.Context(), s.entry(queue, k), 0)
	require.NoError(t, err)
	return v.Self
}

// find returns e as it is, known by its ID alone.
func (s session) find(t testing.TB, e driver.Entry) driver.Entry {
	now, err := s.Find(t.Context(), driver.Entry{Queue: e.Queue, ID: e.ID})
	require.NoError(t, err)
	return now
}

// TestEndOfBothProvesNothing: an entry and the one that was alone ahead of it go at one revision, with the session of both.
func TestEndOfBothProvesNothing(t *testing.T) {
	server, admin := begin(t)
	for range 10 {
		in := openSession(t, newClient(t, server.Endpoint()))
		first, second := in.create(t, "/both", driver.Exclusive), in.create(t, "/both", driver.Exclusive)
		stands, proofs := make(chan struct{}), make(chan *driver.View, 1)
		ctx := within(t, soon)
		go func() {
			on := []driver.Target{{Entry: first, Alone: true}}
			proof, _ := in.Watch(ctx, second, on, sync.OnceFunc(func() { close(stands) }))
			proofs <- proof
		}()
		<-stands
		revokeLeaseOf(t, admin, keysOf(t, admin, "/both")[0])
		require.Nil(t, <-proofs)
	}
}

// TestEventBeforeTheReadProvesNothing: an entry goes before its watch is on, which is therefore not told. Then the one goes that was
// alone ahead of it, before the read that would tell.
func TestEventBeforeTheReadProvesNothing(t *testing.T) {
	server, _ := begin(t)
	for range 3 {
		in := openSession(t, newClient(t, server.Endpoint()))
		first, second := in.create(t, "/before", driver.Exclusive), in.create(t, "/before", driver.Exclusive)
		_, _, err := in.Delete(t.Context(), second)
		require.NoError(t, err)
		proofs := make(chan *driver.View, 1)
		ctx := within(t, soon)
		go func() {
			on := []driver.Target{{Entry: first, Alone: true}}
			on[0].Entry.Ahead = 50 // the watch rests for half a second
			proof, _ := in.Watch(ctx, second, on, func() {})
			proofs <- proof
		}()
		for range 20 { // while they are answered the watch comes on, mostly
			in.find(t, first)
		}
		_, _, err = in.Delete(t.Context(), first)
		require.NoError(t, err)
		require.Nil(t, <-proofs)
	}
}

// TestRequestsAreSentOnce: by itself the client repeats a write that a proxy answers with Canceled, and shows the last answer
// alone. Of that it is kept, and the attempt is unknown.
func TestRequestsAreSentOnce(t *testing.T) {
	in, f, _ := faultySession(t)
	ctx, proxy := t.Context(), answer(errProxy)
	unknown := func(err error) {
		t.Helper()
		require.Equal(t, driver.Unknown, in.Outcome(err), "%v", err)
	}
	e := in.entry("/once", driver.Write)
	f.next(txn, proxy)
	_, err := in.Create(ctx, e, 0)
	unknown(err)
	v, err := in.Create(ctx, e, 1)
	require.NoError(t, err)
	require.False(t, v.All)
	require.Positive(t, v.Self.Revision)
	require.Equal(t, v.Self.Revision, v.Self.Version)

	f.next(txn, proxy)
	_, err = in.Replace(ctx, v.Self, driver.Read, nil)
	unknown(err)
	require.Equal(t, driver.Read, in.find(t, v.Self).Kind)
	f.next(deleteRange, proxy)
	_, _, err = in.Delete(ctx, v.Self)
	unknown(err)
	_, found, err := in.Delete(ctx, v.Self)
	require.NoError(t, err)
	require.False(t, found)
}

// TestRequestsThatAreNotSentAreNotDone: nothing need be looked for after them.
func TestRequestsThatAreNotSentAreNotDone(t *testing.T) {
	f := new(faults)
	f.next("/etcdserverpb.Auth/AuthStatus", refuse(rpctypes.ErrGRPCPermissionDenied)) // else that request is counted
	client := newClient(t, sharedServer(t).Endpoint(), f.dial()...)
	in := openSession(t, client)
	outcome := func(of fate) driver.Outcome {
		f.next(txn, of)
		_, err := in.Create(t.Context(), in.entry("/unsent", driver.Exclusive), 0)
		require.Error(t, err)
		return in.Outcome(err)
	}
	require.Equal(t, driver.Unknown, outcome(loseRequest), "it is not known yet that requests can be counted")
	in.create(t, "/unsent", driver.Exclusive)
	require.Equal(t, driver.NotDone, outcome(loseRequest))
	require.Equal(t, driver.Unknown, outcome(loseReply))

	client.KV = namespace.NewKV(client.KV, "elsewhere")
	in = openSession(t, client)
	in.create(t, "/unsent", driver.Exclusive)
	require.Equal(t, driver.Unknown, outcome(loseRequest), "the requests of a wrapped client are not counted")
}

// TestWriteThatExceedsTheQuotaIsDone: the transaction that does is carried out, and answered no space. Those after it are
// refused, and are known to be.
func TestWriteThatExceedsTheQuotaIsDone(t *testing.T) {
	in, f, _ := faultySession(t)
	ctx, full := t.Context(), rpctypes.ErrGRPCNoSpace
	refused := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, rpctypes.ErrNoSpace)
		require.Equal(t, driver.Refused, in.Outcome(err))
	}
	e := in.entry("/full", driver.Write)
	f.next(txn, refuse(full))
	_, err := in.Create(ctx, e, 0)
	refused(err)
	f.next(txn, answer(full))
	v, err := in.Create(ctx, e, 1)
	require.NoError(t, err)
	e = in.find(t, e)
	require.Equal(t, e.Revision, v.Self.Revision)

	f.next(txn, refuse(full))
	_, err = in.Replace(ctx, e, driver.Read, nil)
	refused(err)
	f.next(txn, answer(full))
	_, err = in.Replace(ctx, e, driver.Read, nil)
	require.ErrorIs(t, err, driver.ErrConflict, "with itself; the caller looks")
	require.Equal(t, driver.Read, in.find(t, e).Kind)

	f.next(txn, answer(full), loseReply)
	_, err = in.Create(ctx, in.entry("/full", driver.Write), 0)
	require.Equal(t, driver.Unknown, in.Outcome(err), "and the look is lost")

	for range 2 { // the second is behind another
		e = in.entry("/full/mutex", driver.Exclusive)
		f.next(txn, answer(full), nil, loseRequest)
		v, err = in.Create(ctx, e, 0)
		require.NoError(t, err, "it is there whatever becomes of a request after that")
		require.Equal(t, in.find(t, e).Revision, v.Self.Revision)
	}
	for _, kind := range []driver.Kind{driver.Exclusive, driver.Write} {
		e = in.entry("/full/unread", kind)
		f.next(txn, answer(full))
		f.next(getRange, loseRequest)
		_, err = in.Create(ctx, e, 0)
		require.Equal(t, driver.Unknown, in.Outcome(err), "it is there, and was not read")
		in.find(t, e)
	}
}

// TestSessionThatIsOverSaysSo: also where the server would go on answering. What it says of one request is true of all.
func TestSessionThatIsOverSaysSo(t *testing.T) {
	client := newClient(t, sharedServer(t).Endpoint())
	in := openSession(t, client)
	expired := func(err error) {
		t.Helper()
		require.Equal(t, driver.Expired, in.Outcome(err), "%v", err)
	}
	for name, learn := range map[string]func() error{
		"Renew":  func() error { return in.Renew(t.Context(), nil) },
		"Create": func() error { _, err := in.Create(t.Context(), in.entry("/over", driver.Exclusive), 0); return err },
		"Owned":  func() error { _, err := in.Owned(t.Context(), []string{"/over"}); return err },
	} {
		in = openSession(t, client)
		in.create(t, "/over", driver.Exclusive)
		revokeLeaseOf(t, client, keysOf(t, client, "/over")[0])
		_, err := in.List(t.Context(), "/over", 0)
		require.NoError(t, err, "it does not know yet")
		err = learn()
		expired(err)
		if name != "Create" { // of which the server says that it does not find the lease
			require.ErrorContains(t, err, "expired or was revoked")
		}
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
	held := in.create(t, "/over", driver.Exclusive)
	watched := make(chan error, 1)
	go func() {
		_, err := in.Watch(t.Context(), driver.Entry{}, []driver.Target{{Entry: held}}, func() {})
		watched <- err
	}()
	in.Drop()
	expired(<-watched)
	expired(in.Renew(t.Context(), nil))
}

// TestFailedRenewalLeavesItsMember: the next one is sent to another, whatever else the client has sent meanwhile.
func TestFailedRenewalLeavesItsMember(t *testing.T) {
	suite.Long(t, suite.Etcd, "stops a member")
	cluster := embedtest.EtcdCluster(t, 3)
	follower := cluster.Member((leaderOf(t, cluster) + 1) % 3)
	var sent counter
	client := clientOf(t, clientv3.Config{Endpoints: cluster.Endpoints(), DialOptions: sent.dial()})
	connectToAll(t, client)
	var sessions []session // that are renewed by the follower
	for len(sessions) < 3 {
		in := openSession(t, client)
		require.NoError(t, in.Renew(t.Context(), nil))
		_, err := client.Get(t.Context(), "/") // so that the members are not dealt in the same order each time
		require.NoError(t, err)
		if "http://"+sent.renewedBy() == follower.Endpoint() {
			sessions = append(sessions, in)
		}
	}
	follower.Pause()
	defer follower.Resume()
	for i, in := range sessions {
		_, before := in.Granted()
		err := in.Renew(within(t, 200*time.Millisecond), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, driver.Unknown, in.Outcome(err))
		require.Equal(t, follower.Endpoint(), "http://"+sent.renewedBy())
		_, from := in.Granted()
		require.Equal(t, before, from, "only an answer moves it")
		for range i {
			// What else is sent takes its turn with the members, so that a new stream may be dealt the silent one.
			stream, err := pb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(t.Context())
			require.NoError(t, err)
			require.NoError(t, stream.CloseSend())
		}
		began := time.Now()
		require.NoError(t, in.Renew(t.Context(), nil))
		require.NotEqual(t, follower.Endpoint(), "http://"+sent.renewedBy())
		_, from = in.Granted()
		require.False(t, from.Before(began))
	}
}

// TestUnansweredRequestLeavesItsMember: those after it are sent to others, whatever else the client has sent meanwhile.
func TestUnansweredRequestLeavesItsMember(t *testing.T) {
	suite.Long(t, suite.Etcd, "stops a member")
	cluster := embedtest.EtcdCluster(t, 3)
	follower := cluster.Member((leaderOf(t, cluster) + 1) % 3)
	client := clientOf(t, clientv3.Config{Endpoints: cluster.Endpoints()})
	connectToAll(t, client)
	in := openSession(t, client)
	ask := func(d time.Duration) error {
		_, err := in.Register(within(t, d), "/mute")
		return err
	}
	follower.Pause()
	defer follower.Resume()
	require.Eventually(t, func() bool { return ask(200*time.Millisecond) != nil }, soon, time.Millisecond)
	for i := range 30 {
		for range i % 3 {
			stream, err := pb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(t.Context())
			require.NoError(t, err)
			require.NoError(t, stream.CloseSend())
		}
		require.NoError(t, ask(soon/2))
	}
}

// TestRenewalsShareAStream: while they are answered.
func TestRenewalsShareAStream(t *testing.T) {
	var sent counter
	in := openSession(t, newClient(t, sharedServer(t).Endpoint(), sent.dial()...))
	for range 5 {
		require.NoError(t, in.Renew(t.Context(), nil))
	}
	require.EqualValues(t, 5, sent.renewals.Load())
	require.EqualValues(t, 1, sent.keepaliveStreams.Load())
}

// TestAWritersValueIsNeverChanged: the key would be a reader's from then on.
func TestAWritersValueIsNeverChanged(t *testing.T) {
	in := openSession(t, newClient(t, sharedServer(t).Endpoint()))
	e := in.create(t, "/value", driver.Write)
	_, err := in.Replace(t.Context(), e, driver.Write, []byte("else"))
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.Equal(t, driver.Write, in.find(t, e).Kind)
	e, err = in.Replace(t.Context(), e, driver.Read, nil)
	require.NoError(t, err)
	_, err = in.Replace(t.Context(), e, driver.Read, []byte("else"))
	require.NoError(t, err)
	now := in.find(t, e)
	require.Equal(t, driver.Read, now.Kind)
	require.Equal(t, "else", string(now.Value))
}

// TestWordsOfAKeyThatIsUsedAgain: the words that an entry has left behind are taken back also when a later entry has its key by
// then, and that entry's own stay.
func TestWordsOfAKeyThatIsUsedAgain(t *testing.T) {
	server, client := begin(t)
	in, other := openSession(t, newClient(t, server.Endpoint())), openSession(t, newClient(t, server.Endpoint()))
	queue := newPath(t)
	left := func() int { return len(keysOf(t, client, queue+"!ask")) }
	tell := func(e driver.Entry, words string) {
		lasts, err := other.Tell(within(t, soon), e, words)
		require.NoError(t, err)
		require.True(t, lasts)
	}
	e := in.create(t, queue, driver.Exclusive)
	tell(e, "give it back")
	_, _, err := in.Delete(within(t, soon), e)
	require.NoError(t, err)
	require.Equal(t, 1, left())
	next := in.create(t, queue, driver.Exclusive)
	require.Equal(t, e.ID, next.ID, "a key that is used again")
	tell(e, "")
	require.Zero(t, left())
	tell(next, "you, too")
	tell(e, "")
	heard, err := in.Heard(within(t, soon), next)
	require.NoError(t, err)
	require.Equal(t, "you, too", heard)
	_, _, err = in.Delete(within(t, soon), next)
	require.NoError(t, err)
	tell(next, "")
	require.Zero(t, left())
}

// TestRenewalOutlivesItsConnection: the only member there is is asked again, although it has not answered the last time.
func TestRenewalOutlivesItsConnection(t *testing.T) {
	proxy := embedtest.NewProxy(t, sharedServer(t).Endpoint())
	in := openSession(t, newClient(t, "http://"+proxy.Addr()))
	for range 3 {
		require.NoError(t, in.Renew(t.Context(), nil))
		proxy.Reset()
		require.Eventually(t, func() bool { return in.Renew(within(t, time.Second), nil) == nil }, soon, time.Millisecond)
	}
}

// TestEndOfASessionLeavesASilentMember: what is known of the members while the session lives is also of use to its end.
func TestEndOfASessionLeavesASilentMember(t *testing.T) {
	suite.Long(t, suite.Etcd, "stops a member")
	cluster := embedtest.EtcdCluster(t, 3)
	follower := cluster.Member((leaderOf(t, cluster) + 1) % 3)
	client := clientOf(t, clientv3.Config{Endpoints: cluster.Endpoints()})
	connectToAll(t, client)
	var sessions []session
	for range 9 {
		sessions = append(sessions, openSession(t, client))
	}
	follower.Pause()
	defer follower.Resume()
	for _, in := range sessions {
		require.Eventually(t, func() bool {
			_, err := in.Register(within(t, 200*time.Millisecond), "/mute")
			return err != nil
		}, soon, time.Millisecond)
	}
	for i, in := range sessions {
		for range i % 3 {
			stream, err := pb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(t.Context())
			require.NoError(t, err)
			require.NoError(t, stream.CloseSend())
		}
		require.NoError(t, in.Close(within(t, soon/2)))
	}
}
