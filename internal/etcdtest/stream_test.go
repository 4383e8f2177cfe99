package etcdtest_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// A tap sees what goes over the watch streams of a client, and may change it or hold it up.
type tap struct {
	send func(ctx context.Context, r *pb.WatchRequest)
	hear func(ctx context.Context, r *pb.WatchResponse)
}

func (p *tap) dial() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
		open grpc.Streamer, options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, cc, method, options...)
		return tapped{stream, p}, err
	})
}

type tapped struct {
	grpc.ClientStream
	*tap
}

func (s tapped) SendMsg(m any) error {
	if r, ok := m.(*pb.WatchRequest); ok && s.send != nil {
		s.send(s.Context(), r)
	}
	return s.ClientStream.SendMsg(m)
}

func (s tapped) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*pb.WatchResponse); ok && s.hear != nil && err == nil {
		s.hear(s.Context(), r)
	}
	return err
}

// A watching is a Watch of the driver's that is under way.
type watching struct {
	stands chan struct{}
	proof  *driver.View
	err    error
	done   chan struct{}
}

func (s session) watching(ctx context.Context, e driver.Entry, on ...driver.Target) *watching {
	w := &watching{stands: make(chan struct{}), done: make(chan struct{})}
	go func() { // ends with ctx
		defer close(w.done)
		w.proof, w.err = s.Watch(ctx, e, on, sync.OnceFunc(func() { close(w.stands) }))
	}()
	return w
}

// gone is a target: the end of e.
func gone(e driver.Entry) driver.Target { return driver.Target{Entry: e} }

func (s session) delete(t testing.TB, e driver.Entry) {
	_, found, err := s.Delete(t.Context(), e)
	require.NoError(t, err)
	require.True(t, found)
}

// TestStreamOutlivesItsWatches: those that follow one another have one stream, and leave nothing on it.
func TestStreamOutlivesItsWatches(t *testing.T) {
	server, _ := begin(t)
	var sent counter
	var cancels atomic.Int64
	p := &tap{send: func(_ context.Context, r *pb.WatchRequest) {
		if r.GetCancelRequest() != nil {
			cancels.Add(1)
		}
	}}
	in := openSession(t, newClient(t, server.Endpoint(), append(sent.dial(), p.dial())...))
	const watches = 20
	for range watches {
		e := in.create(t, "/outlives", driver.Exclusive)
		w := in.watching(t.Context(), driver.Entry{}, gone(e))
		<-w.stands
		in.delete(t, e)
		<-w.done
		require.NoError(t, w.err)
	}
	// The last request to cancel goes with the next request for a watch, or when a renewal shows that all is well.
	require.Eventually(t, func() bool { return sent.ended.Load() == watches-1 }, soon, time.Millisecond)
	for range 2 {
		require.NoError(t, in.Renew(t.Context(), nil))
	}
	require.Eventually(t, func() bool { return sent.ended.Load() == watches }, soon, time.Millisecond)
	require.EqualValues(t, watches, cancels.Load())
	require.EqualValues(t, watches, sent.events.Load())
	require.EqualValues(t, 1, sent.watchStreams.Load())
}

// TestWatchThatIsNotCancelledYetIsToldOnce: its key is used again, before anything else is sent.
func TestWatchThatIsNotCancelledYetIsToldOnce(t *testing.T) {
	server, admin := begin(t)
	var sent counter
	in := openSession(t, newClient(t, server.Endpoint(), sent.dial()...))
	e := in.create(t, newPath(t), driver.Exclusive)
	w := in.watching(t.Context(), driver.Entry{}, gone(e))
	<-w.stands
	in.delete(t, e)
	<-w.done
	for i := range 3 {
		require.EqualValues(t, min(i+1, 2), sent.events.Load())
		_, err := admin.Put(t.Context(), e.ID, "")
		require.NoError(t, err)
		_, err = admin.Delete(t.Context(), e.ID)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return sent.ended.Load() == 1 }, soon, time.Millisecond)
	}
}

// TestWatchesDoNotWaitForOneAnother: after the first answer no other is taken in until all requests are sent.
func TestWatchesDoNotWaitForOneAnother(t *testing.T) {
	server, _ := begin(t)
	watches := 200
	if suite.More(t, suite.Etcd) {
		watches = 1000
	}
	testWatchesAtOnce(t, server, watches, &tap{}, func(p *tap) {
		var sent atomic.Int64
		all := make(chan struct{})
		first := true
		p.send = func(_ context.Context, r *pb.WatchRequest) {
			if r.GetCreateRequest() != nil && sent.Add(1) == int64(watches) {
				close(all)
			}
		}
		p.hear = func(ctx context.Context, _ *pb.WatchResponse) {
			if !first {
				select {
				case <-all:
				case <-ctx.Done():
				}
			}
			first = false
		}
	})
}

// TestServerThatChoosesTheIDs is as etcd's own proxy, which need not answer in the order of requests either: one is made at a time.
func TestServerThatChoosesTheIDs(t *testing.T) {
	server, _ := begin(t)
	var under, most atomic.Int64
	testWatchesAtOnce(t, server, 50, &tap{
		send: func(_ context.Context, r *pb.WatchRequest) {
			if c := r.GetCreateRequest(); c != nil {
				c.WatchId = 0
				most.Store(max(most.Load(), under.Add(1)))
			}
		},
		hear: func(_ context.Context, r *pb.WatchResponse) {
			if r.Created {
				under.Add(-1)
			}
		},
	}, func(*tap) {})
	require.EqualValues(t, 1, most.Load())
}

// testWatchesAtOnce has each of them told of its own entry, and of no other. Half of them are given up.
func testWatchesAtOnce(t *testing.T, server *embedtest.EtcdServer, watches int, p *tap, arm func(*tap)) {
	var sent counter
	in := openSession(t, newClient(t, server.Endpoint(), append(sent.dial(), p.dial())...))
	path := newPath(t)
	entries := make([]driver.Entry, watches)
	for i := range entries {
		entries[i] = in.create(t, fmt.Sprint(path, "/", i), driver.Exclusive)
	}
	arm(p)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	list := make([]*watching, watches)
	for i, e := range entries {
		with := t.Context()
		if i%2 == 0 {
			with = ctx
		}
		list[i] = in.watching(with, driver.Entry{}, gone(e))
	}
	for _, w := range list {
		<-w.stands
	}
	giveUp()
	for i, w := range list {
		if i%2 == 0 {
			<-w.done
			require.ErrorIs(t, w.err, context.Canceled)
		}
	}
	for i, w := range list {
		select {
		case <-w.done:
			require.Zero(t, i%2)
		default:
		}
		in.delete(t, entries[i])
		<-w.done
		if i%2 == 1 {
			require.NoError(t, w.err)
		}
	}
	require.EqualValues(t, 1, sent.watchStreams.Load())
	require.EqualValues(t, watches, sent.watches.Load())
}

// TestReadThatIsOlderThanItsWatchIsMadeAgain: the read is answered, things happen, and only then the request for the watch is sent.
func TestReadThatIsOlderThanItsWatchIsMadeAgain(t *testing.T) {
	for _, row := range []struct {
		name              string
		aheadGoes, itGoes bool
		proves            bool
	}{
		{"nothing that matters", false, false, true},
		{"the one ahead goes", true, false, true},
		{"it goes itself", false, true, false},
		{"both go", true, true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			server, admin := begin(t)
			held, read := make(chan struct{}), make(chan struct{})
			var sent counter
			p := &tap{send: func(ctx context.Context, r *pb.WatchRequest) {
				if r.GetCreateRequest() != nil {
					close(read)
					select {
					case <-held:
					case <-ctx.Done():
					}
				}
			}}
			in := openSession(t, newClient(t, server.Endpoint(), append(sent.dial(), p.dial())...))
			path := newPath(t)
			ahead, e := in.create(t, path, driver.Exclusive), in.create(t, path, driver.Exclusive)
			sent.since()
			w := in.watching(within(t, soon), e, driver.Target{Entry: ahead, Alone: true})
			<-read
			sent.sinceWhen(t, "KV/Range", 1)
			_, err := admin.Put(t.Context(), path+"!other", "") // the watch begins at a later revision than was read
			require.NoError(t, err)
			if row.itGoes {
				in.delete(t, e)
			}
			if row.aheadGoes {
				in.delete(t, ahead)
			}
			close(held)
			if !row.itGoes && !row.aheadGoes {
				<-w.stands
				in.delete(t, ahead)
			}
			<-w.done
			require.NoError(t, w.err)
			require.Equal(t, 1, sent.since()["KV/Range"], "the read that is made again")
			if row.proves {
				require.NotNil(t, w.proof)
				require.True(t, w.proof.All)
				require.Empty(t, w.proof.Entries)
				require.Equal(t, e.ID, w.proof.Self.ID)
			} else {
				require.Nil(t, w.proof)
			}
		})
	}
}

// TestWatchThatIsGivenUpAsItIsTold: whichever comes first, the stream goes on for the others.
func TestWatchThatIsGivenUpAsItIsTold(t *testing.T) {
	server, _ := begin(t)
	var sent counter
	in := openSession(t, newClient(t, server.Endpoint(), sent.dial()...))
	path := newPath(t)
	other := in.create(t, path+"/other", driver.Exclusive)
	stays := in.watching(t.Context(), driver.Entry{}, gone(other))
	<-stays.stands
	for i := range 100 {
		e := in.create(t, path, driver.Exclusive)
		ctx, giveUp := context.WithCancel(t.Context())
		w := in.watching(ctx, driver.Entry{}, gone(e))
		if i%2 == 0 {
			<-w.stands
		}
		var all sync.WaitGroup
		all.Go(giveUp)
		in.delete(t, e)
		all.Wait()
		<-w.done
		if w.err != nil {
			require.ErrorIs(t, w.err, context.Canceled)
		}
	}
	in.delete(t, other)
	<-stays.done
	require.NoError(t, stays.err)
	require.EqualValues(t, 1, sent.watchStreams.Load())
}

// TestWatchesOfAStreamThatBreaksEnd: what they may have missed is not known. The next has a stream of its own.
func TestWatchesOfAStreamThatBreaksEnd(t *testing.T) {
	server, _ := begin(t)
	proxy := embedtest.NewProxy(t, server.Endpoint())
	var sent counter
	in := openSession(t, newClient(t, "http://"+proxy.Addr(), sent.dial()...))
	path := newPath(t)
	ahead, e := in.create(t, path, driver.Exclusive), in.create(t, path, driver.Exclusive)
	for i := range 10 {
		w := in.watching(t.Context(), e, driver.Target{Entry: ahead, Alone: true})
		<-w.stands
		require.EqualValues(t, i+1, sent.watchStreams.Load())
		proxy.Reset()
		<-w.done
		require.Error(t, w.err)
		require.Equal(t, driver.Unknown, in.Outcome(w.err), "%v", w.err)
		require.Nil(t, w.proof)
		require.Eventually(t, func() bool { return in.Renew(within(t, time.Second), nil) == nil }, soon, time.Millisecond)
	}
}

// TestWatchThatMayHaveMissedSomethingProvesNothing: a server that has compacted what a watch was to be told ends it.
func TestWatchThatMayHaveMissedSomethingProvesNothing(t *testing.T) {
	server, _ := begin(t)
	p := &tap{hear: func(_ context.Context, r *pb.WatchResponse) {
		if len(r.Events) > 0 {
			r.CompactRevision, r.Canceled, r.Events = r.Header.Revision, true, nil
		}
	}}
	in := openSession(t, newClient(t, server.Endpoint(), p.dial()))
	path := newPath(t)
	ahead, e := in.create(t, path, driver.Exclusive), in.create(t, path, driver.Exclusive)
	w := in.watching(t.Context(), e, driver.Target{Entry: ahead, Alone: true})
	<-w.stands
	in.delete(t, ahead)
	<-w.done
	require.NoError(t, w.err)
	require.Nil(t, w.proof)
}

// TestWatchThatIsEndedSaysWhy: also one that stood.
func TestWatchThatIsEndedSaysWhy(t *testing.T) {
	server, _ := begin(t)
	var reason atomic.Pointer[string]
	p := &tap{hear: func(_ context.Context, r *pb.WatchResponse) {
		if len(r.Events) > 0 { // also of an earlier row, whose watch the server has not ended
			r.Canceled, r.Events, r.CancelReason = true, nil, *reason.Load()
		}
	}}
	var sent counter
	in := openSession(t, newClient(t, server.Endpoint(), append(sent.dial(), p.dial())...))
	path := newPath(t)
	for _, row := range []struct {
		reason  string
		is      error
		outcome driver.Outcome
		streams int64 // so far
	}{
		{"", nil, driver.Unknown, 1},
		{"something else", nil, driver.Unknown, 1},
		{rpctypes.ErrGRPCPermissionDenied.Error(), rpctypes.ErrPermissionDenied, driver.Refused, 1},
		{rpctypes.ErrPermissionDenied.Error(), rpctypes.ErrPermissionDenied, driver.Refused, 1},
		{rpctypes.ErrGRPCInvalidAuthToken.Error(), rpctypes.ErrInvalidAuthToken, driver.NotDone, 1},
		{rpctypes.ErrGRPCAuthOldRevision.Error(), rpctypes.ErrAuthOldRevision, driver.NotDone, 2},
		{"", nil, driver.Unknown, 3},
	} {
		reason.Store(&row.reason)
		e := in.create(t, path, driver.Exclusive)
		w := in.watching(t.Context(), driver.Entry{}, gone(e))
		<-w.stands
		require.Equal(t, row.streams, sent.watchStreams.Load(), row.reason)
		in.delete(t, e)
		<-w.done
		require.ErrorContains(t, w.err, row.reason[max(0, len(row.reason)-10):])
		require.Equal(t, row.outcome, in.Outcome(w.err), row.reason)
		if row.is != nil {
			require.ErrorIs(t, w.err, row.is)
		}
	}
}

// TestWatchesOutliveTheirCredentials: the tokens of all clients end when authentication is switched off and on. A stream keeps the one
// that it was opened with.
func TestWatchesOutliveTheirCredentials(t *testing.T) {
	server, admin := beginAlone(t)
	r := newRealm(t, server, admin)
	var sent counter
	open := func(dial ...grpc.DialOption) *farsync.Store {
		return storeOn(t, r.as("writer", dial...), ttl(time.Minute))
	}
	holders, waiters := open(), open(sent.dial()...)
	first := lock(t, holders, "/locks/first")
	waiting := lockBehind(t, waiters, "/locks/first")
	awaitQueue(t, holders, "/locks/first", 2)
	require.Eventually(t, func() bool { return sent.watches.Load() > 0 }, soon, time.Millisecond)

	r.must(r.root.AuthDisable(t.Context()))
	r.must(admin.AuthEnable(t.Context()))
	second := lock(t, holders, "/locks/second")
	behind := lockBehind(t, waiters, "/locks/second")
	awaitQueue(t, holders, "/locks/second", 2)
	require.Eventually(t, func() bool { return sent.watchStreams.Load() > 1 }, soon, time.Millisecond)
	require.NoError(t, second.Release())
	require.NoError(t, got(t, behind).Release())
	require.NoError(t, first.Release())
	require.NoError(t, got(t, waiting).Release())
}

// TestCloseJoinsTheStream: a silent server does not hold it up, nor one that takes no more.
func TestCloseJoinsTheStream(t *testing.T) {
	server, _ := begin(t)
	proxy := embedtest.NewProxy(t, server.Endpoint())
	p := &tap{send: func(ctx context.Context, r *pb.WatchRequest) {
		if r.GetCancelRequest() != nil {
			<-ctx.Done()
		}
	}}
	in := openSession(t, newClient(t, "http://"+proxy.Addr(), p.dial()))
	e := in.create(t, newPath(t), driver.Exclusive)
	ctx, giveUp := context.WithCancel(t.Context())
	w := in.watching(ctx, driver.Entry{}, gone(e))
	<-w.stands
	giveUp()
	<-w.done
	left := in.watching(t.Context(), driver.Entry{}, gone(e))
	proxy.Cut()
	in.Drop()
	<-left.done
	require.Equal(t, driver.Expired, in.Outcome(left.err))
	proxy.Heal() // and the session can be closed
}

// watchingInSilence begins a watch on an entry, to which the server does not answer until the proxy is healed.
func watchingInSilence(t *testing.T) (in session, proxy *embedtest.Proxy, e driver.Entry, began time.Time, w *watching) {
	server, _ := begin(t)
	proxy = embedtest.NewProxy(t, server.Endpoint())
	sent := make(chan struct{})
	p := &tap{send: func(_ context.Context, r *pb.WatchRequest) {
		if r.GetCreateRequest() != nil {
			close(sent)
		}
	}}
	in = openSession(t, newClient(t, "http://"+proxy.Addr(), p.dial()))
	e = in.create(t, newPath(t), driver.Exclusive)
	proxy.Cut()
	began = time.Now()
	w = in.watching(t.Context(), driver.Entry{}, gone(e))
	<-sent
	return in, proxy, e, began, w
}

// TestResetKeepsAStreamOnWhichAWatchWasJustBegun: another request is late.
func TestResetKeepsAStreamOnWhichAWatchWasJustBegun(t *testing.T) {
	in, proxy, e, began, w := watchingInSilence(t)
	in.Reset()
	moment := time.Since(began) < time.Second/2 // unless the machine is busy
	proxy.Heal()
	select {
	case <-w.stands:
	case <-w.done:
	}
	in.delete(t, e)
	<-w.done
	if moment {
		require.NoError(t, w.err)
	}
}

// TestLookOfAWatchEndsWithTheStream: where that is given up, another member is to be asked.
func TestLookOfAWatchEndsWithTheStream(t *testing.T) {
	in, proxy, _, _, w := watchingInSilence(t)
	require.Eventually(t, func() bool {
		in.Reset()
		select {
		case <-w.done:
			return true
		default:
			return false
		}
	}, soon, time.Millisecond)
	require.ErrorContains(t, w.err, "the watch stream is silent")
	require.Equal(t, driver.Unknown, in.Outcome(w.err))
	proxy.Heal()
}
