package etcdtest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
)

// errProxy is what a proxy in between answers when its own connection breaks. The client then sends again by itself.
var errProxy = status.Error(codes.Canceled, "the proxy gave up")

// An acquirer is Lock or TryLock.
type acquirer struct {
	name string
	lock func(*farsync.Mutex, context.Context) (*farsync.Lease, error)
}

var acquirers = []acquirer{{"Lock", (*farsync.Mutex).Lock}, {"TryLock", (*farsync.Mutex).TryLock}}

// A lossy is a Store that loses what it is told to, and a client that sees what is there.
type lossy struct {
	*faults
	store *farsync.Store
	admin *clientv3.Client
	other *farsync.Store
}

// beginLossy is begin with a lossy.
func beginLossy(t *testing.T) lossy {
	server, _ := begin(t)
	return newLossy(t, server, nil)
}

func newLossy(t *testing.T, server *embedtest.EtcdServer, options *etcd.Options) lossy {
	f := new(faults)
	return lossy{
		faults: f,
		store:  newStore(t, server.Endpoint(), options, f.dial()...),
		admin:  newClient(t, server.Endpoint()),
		other:  newStore(t, server.Endpoint(), nil),
	}
}

// TestLostJoinIsMadeOnce is C1 and E2: each request that is lost costs one more, and there is one key.
func TestLostJoinIsMadeOnce(t *testing.T) {
	server, _ := begin(t)
	for _, row := range []struct {
		name    string
		fates   []fate
		repeats int // that the client makes by itself, and that are not sent
	}{
		{"three replies", times(3, loseReply), 0},
		{"three requests", times(3, loseRequest), 0},
		{"a reply, then a request", []fate{loseReply, loseRequest}, 0},
		{"a request, then a reply", []fate{loseRequest, loseReply}, 0},
		{"the reply, without a word", times(1, silence(loseReply)), 0},
		{"the request, without a word", times(1, silence(loseRequest)), 0},
		{"a reply, behind a proxy", times(1, answer(errProxy)), 1},
	} {
		for _, by := range acquirers {
			t.Run(row.name+"/"+by.name, func(t *testing.T) {
				t.Parallel()
				path := "/once/" + rand.Text()
				l := newLossy(t, server, ttl(3*time.Second))
				before := l.calls(txn)
				l.next(txn, row.fates...)
				lease, err := by.lock(farsync.NewMutex(l.store, path), within(t, soon))
				require.NoError(t, err)
				require.Equal(t, len(row.fates)+1+row.repeats, l.calls(txn)-before)
				keys := keysOf(t, l.admin, path)
				require.Len(t, keys, 1)
				require.Equal(t, keys[0].CreateRevision, lease.Token().Revision())
				require.NoError(t, lease.Release())
				require.Empty(t, keysOf(t, l.admin, path))
			})
		}
	}
}

// TestLostMessagesLeaveNothing is C1, C2 and E3 with one message of each kind; storetest.RunStore has every placement.
// Whatever is lost, the next client gets the lock, no key is left, and the session lives on.
func TestLostMessagesLeaveNothing(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	denied := rpctypes.ErrGRPCPermissionDenied
	givesUp := func(t *testing.T, l lossy, path string, by acquirer, last fate) {
		ctx, giveUp := context.WithCancel(t.Context())
		l.next(txn, loseReply, before(giveUp, last))
		_, err := by.lock(farsync.NewMutex(l.store, path), ctx)
		require.ErrorIs(t, err, context.Canceled)
		awaitKeys(t, l.admin, path, 0)
	}
	releases := func(fates ...fate) func(*testing.T, lossy, string) error {
		return func(t *testing.T, l lossy, path string) error {
			lease := lock(t, l.store, path)
			l.next(deleteRange, fates...)
			err := lease.Release()
			require.ErrorIs(t, lease.Err(), farsync.ErrReleased)
			return err
		}
	}
	for _, row := range []struct {
		name string
		play func(t *testing.T, l lossy, path string) error
		want error
	}{
		{"a join that is given up", func(t *testing.T, l lossy, path string) error {
			for _, by := range acquirers {
				givesUp(t, l, path, by, loseReply)
				givesUp(t, l, path, by, loseRequest)
			}
			return nil
		}, nil},
		{"a join that is refused", func(t *testing.T, l lossy, path string) error {
			l.next(txn, loseReply, refuse(denied))
			_, err := farsync.NewMutex(l.store, path).Lock(within(t, soon))
			return err
		}, rpctypes.ErrPermissionDenied},
		{"a join that comes late", func(t *testing.T, l lossy, path string) error {
			second, land := delay()
			l.next(txn, loseReply, second)
			require.NoError(t, lock(t, l.store, path).Release())
			reply, err := land(t.Context())
			require.NoError(t, err)
			require.True(t, reply.(*pb.TxnResponse).Succeeded, "the late request has made a key")
			return nil
		}, nil},
		{"a join that is given up and comes late", func(t *testing.T, l lossy, path string) error {
			second, land := delay()
			givesUp(t, l, path, acquirers[0], second)
			reply, err := land(t.Context())
			require.NoError(t, err)
			require.True(t, reply.(*pb.TxnResponse).Succeeded, "the late request has made a key")
			return nil
		}, nil},
		{"replies to a release", releases(times(3, loseReply)...), nil},
		{"requests of a release", releases(times(3, loseRequest)...), nil},
		{"a release without a word", releases(times(4, silence(loseReply))...), farsync.ErrUnavailable},
		{"a release that is refused", releases(times(4, refuse(denied))...), rpctypes.ErrPermissionDenied},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			path := "/lost/" + rand.Text()
			l := newLossy(t, server, ttl(3*time.Second))
			anchor := lock(t, l.store, path+"-anchor")
			require.ErrorIs(t, row.play(t, l, path), row.want)
			require.NoError(t, lock(t, l.other, path).Release())
			awaitKeys(t, l.admin, path, 0)
			require.NoError(t, anchor.Err())
		})
	}
}

// TestLostReadAfterJoinIsRepeated: a Join in a long queue needs a read to know its place.
func TestLostReadAfterJoinIsRepeated(t *testing.T) {
	l := beginLossy(t)
	const long = 150 // more than a join is shown
	for range long {
		lockBehind(t, farsync.NewMutex(l.other, "/long"))
	}
	awaitKeys(t, l.admin, "/long", long)
	ctx, giveUp := context.WithCancel(t.Context())
	l.next(getRange, loseRequest, loseReply, before(giveUp, loseReply))
	_, err := farsync.NewMutex(l.store, "/long").Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	awaitKeys(t, l.admin, "/long", long)
	l.next(getRange, loseRequest, loseReply)
	lockBehind(t, farsync.NewMutex(l.store, "/long"))
	awaitKeys(t, l.admin, "/long", long+1)
}

// TestLookingForALateJoinWritesNothing is E3: when the service comes back from an outage, many look for what they may
// have left behind.
func TestLookingForALateJoinWritesNothing(t *testing.T) {
	l := beginLossy(t)
	ctx, giveUp := context.WithCancel(t.Context())
	l.next(txn, before(giveUp, loseReply))
	_, err := farsync.NewMutex(l.store, "/look").Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return l.calls(timeToLive) >= 5 }, soon, time.Millisecond)
	require.Equal(t, 1, l.calls(deleteRange))
	require.Zero(t, l.calls(getRange))
	require.Empty(t, keysOf(t, l.admin, "/look"))
}

// TestEveryErrorTellsWhy: who gave up, what the service said last, where.
func TestEveryErrorTellsWhy(t *testing.T) {
	l := beginLossy(t)
	enough := errors.New("enough")
	ctx, giveUp := context.WithCancelCause(t.Context())
	l.next(txn, before(func() { giveUp(enough) }, loseRequest))
	_, err := farsync.NewMutex(l.store, "/why").Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, enough)
	require.ErrorContains(t, err, "lock /why")
	require.ErrorContains(t, err, "the connection broke")
}
