package etcd_test

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

func newLossy(t *testing.T, server *embedtest.EtcdServer, options *etcd.Options) lossy {
	f := new(faults)
	return lossy{
		faults: f,
		store:  newStore(t, server.Endpoint(), options, f.dial()...),
		admin:  newClient(t, server.Endpoint()),
		other:  newStore(t, server.Endpoint(), nil),
	}
}

// TestLostJoinIsMadeOnce is C1 and E2: whatever is lost on the way, who goes on asking gets one entry, and the lock.
func TestLostJoinIsMadeOnce(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	for _, row := range []struct {
		name  string
		fates []fate
	}{
		{"the reply", times(1, loseReply)},
		{"three replies", times(3, loseReply)},
		{"the request", times(1, loseRequest)},
		{"three requests", times(3, loseRequest)},
		{"a reply, then a request", []fate{loseReply, loseRequest}},
		{"a request, then a reply", []fate{loseRequest, loseReply}},
		{"the reply, without a word", times(1, silence(loseReply))},
		{"the request, without a word", times(1, silence(loseRequest))},
		{"three replies, behind a proxy", times(3, answer(errProxy))},
	} {
		for _, by := range acquirers {
			t.Run(row.name+"/"+by.name, func(t *testing.T) {
				t.Parallel()
				path := "/once/" + rand.Text()
				l := newLossy(t, server, &etcd.Options{Options: farsync.Options{TTL: 3 * time.Second}})
				mu := farsync.NewMutex(l.store, path)
				before := l.calls(txn)
				l.next(txn, row.fates...)
				lease, err := by.lock(mu, within(t, soon))
				require.NoError(t, err)
				require.Equal(t, len(row.fates)+1, l.calls(txn)-before)
				keys := keysOf(t, l.admin, path)
				require.Len(t, keys, 1)
				require.Equal(t, keys[0].CreateRevision, lease.Token().Revision())
				require.NoError(t, lease.Err())
				require.NoError(t, lease.Release())
				require.Empty(t, keysOf(t, l.admin, path))
			})
		}
	}
}

// TestLostJoinIsRemovedBehind is C1 for a caller who gives up: nothing stays in the way of others, although the session
// lives on.
func TestLostJoinIsRemovedBehind(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	for _, row := range []struct {
		name    string
		joins   func(giveUp context.CancelFunc) []fate
		deletes []fate
	}{
		{"the reply", func(end context.CancelFunc) []fate { return []fate{before(end, loseReply)} }, nil},
		{"the request", func(end context.CancelFunc) []fate { return []fate{before(end, loseRequest)} }, nil},
		{"three replies",
			func(end context.CancelFunc) []fate { return []fate{loseReply, loseReply, before(end, loseReply)} }, nil},
		{"a reply, then a request",
			func(end context.CancelFunc) []fate { return []fate{loseReply, before(end, loseRequest)} }, nil},
		{"the reply, without a word",
			func(end context.CancelFunc) []fate { return []fate{silence(before(end, loseReply))} }, nil},
		{"the reply, and the replies to the removal",
			func(end context.CancelFunc) []fate { return []fate{before(end, loseReply)} }, times(3, loseReply)},
		{"the reply, and the requests of the removal",
			func(end context.CancelFunc) []fate { return []fate{before(end, loseReply)} }, times(3, loseRequest)},
	} {
		for _, by := range acquirers {
			t.Run(row.name+"/"+by.name, func(t *testing.T) {
				l := newLossy(t, server, &etcd.Options{Options: farsync.Options{TTL: 3 * time.Second}})
				anchor, err := farsync.NewMutex(l.store, "/anchor").Lock(t.Context())
				require.NoError(t, err)
				ctx, giveUp := context.WithCancel(t.Context())
				l.next(txn, row.joins(giveUp)...)
				l.next(deleteRange, row.deletes...)
				_, err = by.lock(farsync.NewMutex(l.store, "/behind"), ctx)
				require.ErrorIs(t, err, context.Canceled)
				lease, err := farsync.NewMutex(l.other, "/behind").Lock(within(t, soon))
				require.NoError(t, err)
				require.NoError(t, lease.Release())
				awaitKeys(t, l.admin, "/behind", 0)
				require.NoError(t, anchor.Err(), "the session was not given up for it")
			})
		}
	}
}

// TestRefusedAfterLostReplyIsRemovedBehind is C1 where the service has carried out a request and refuses it when it is
// sent again: the refusal says nothing about the first.
func TestRefusedAfterLostReplyIsRemovedBehind(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	l := newLossy(t, embedtest.Etcd(t), nil)
	l.next(txn, loseReply, refuse(rpctypes.ErrGRPCPermissionDenied))
	_, err := farsync.NewMutex(l.store, "/refused").Lock(within(t, soon))
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	awaitKeys(t, l.admin, "/refused", 0)
}

// TestLostReadAfterJoinIsRepeated: a Join in a long queue needs a read to know its place.
func TestLostReadAfterJoinIsRepeated(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	l := newLossy(t, embedtest.Etcd(t), nil)
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

// TestLostDeleteIsNoLoss is C2: Release is told that the key is gone already, and knows that it may have been its own
// doing.
func TestLostDeleteIsNoLoss(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	for _, row := range []struct {
		name  string
		fates []fate
	}{
		{"the reply", times(1, loseReply)},
		{"three replies", times(3, loseReply)},
		{"the request", times(1, loseRequest)},
		{"three requests", times(3, loseRequest)},
		{"a reply, then a request", []fate{loseReply, loseRequest}},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := newLossy(t, server, &etcd.Options{Options: farsync.Options{TTL: 3 * time.Second}})
			mu := farsync.NewMutex(l.store, "/delete")
			lease, err := mu.Lock(within(t, soon))
			require.NoError(t, err)
			l.next(deleteRange, row.fates...)
			require.NoError(t, lease.Release())
			require.Empty(t, keysOf(t, l.admin, "/delete"))
			require.ErrorIs(t, lease.Release(), farsync.ErrReleased)
		})
	}
}

// TestUnconfirmedReleaseGoesOnBehind is C2 where the service does not confirm in time: the lease has ended, Release
// says that it is not sure, and the key goes all the same.
func TestUnconfirmedReleaseGoesOnBehind(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	for name, f := range map[string]fate{"the reply": loseReply, "the request": loseRequest} {
		t.Run(name, func(t *testing.T) {
			l := newLossy(t, server, &etcd.Options{Options: farsync.Options{TTL: 3 * time.Second}})
			mu := farsync.NewMutex(l.store, "/unconfirmed")
			lease, err := mu.Lock(within(t, soon))
			require.NoError(t, err)
			l.next(deleteRange, times(4, silence(f))...)
			err = lease.Release()
			require.ErrorIs(t, err, farsync.ErrUnavailable)
			require.NotErrorIs(t, err, farsync.ErrLost)
			require.ErrorIs(t, lease.Err(), farsync.ErrReleased)
			next, err := mu.Lock(within(t, soon))
			require.NoError(t, err, "C2: nobody queues behind his own entry for ever")
			require.NoError(t, next.Release())
			awaitKeys(t, l.admin, "/unconfirmed", 0)
		})
	}
}

// TestKeyThatIsTakenAwayIsALoss: if no reply was lost, the key was not gone by the holder's own doing.
func TestKeyThatIsTakenAwayIsALoss(t *testing.T) {
	noLeaks(t)
	l := newLossy(t, embedtest.Etcd(t), nil)
	lease, err := farsync.NewMutex(l.store, "/taken").Lock(t.Context())
	require.NoError(t, err)
	_, err = l.admin.Delete(within(t, soon), "/taken/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.ErrorIs(t, lease.Release(), farsync.ErrLost)
}

// TestLateJoinIsRemovedBehind is E3: a request that the client had given up lands after all was over, and makes a key
// that nobody waits for any more.
func TestLateJoinIsRemovedBehind(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := embedtest.Etcd(t)
	late := func(t *testing.T, l lossy, land func(context.Context) (any, error)) {
		awaitKeys(t, l.admin, "/late", 0)
		reply, err := land(t.Context())
		require.NoError(t, err)
		require.True(t, reply.(*pb.TxnResponse).Succeeded, "the late request has made a key")
		lease, err := farsync.NewMutex(l.other, "/late").Lock(within(t, soon))
		require.NoError(t, err)
		require.NoError(t, lease.Release())
		awaitKeys(t, l.admin, "/late", 0)
	}
	t.Run("of a lock that was released", func(t *testing.T) {
		l := newLossy(t, server, nil)
		first, land := delay()
		l.next(txn, first)
		lease, err := farsync.NewMutex(l.store, "/late").Lock(within(t, soon))
		require.NoError(t, err)
		require.NoError(t, lease.Release())
		late(t, l, land)
	})
	t.Run("of a lock that was given up", func(t *testing.T) {
		l := newLossy(t, server, nil)
		ctx, giveUp := context.WithCancel(t.Context())
		first, land := delay()
		l.next(txn, before(giveUp, first))
		_, err := farsync.NewMutex(l.store, "/late").Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		late(t, l, land)
	})
	t.Run("of a lock that was given up while waiting", func(t *testing.T) {
		l := newLossy(t, server, nil)
		holder, err := farsync.NewMutex(l.other, "/late").Lock(within(t, soon))
		require.NoError(t, err)
		ctx, giveUp := context.WithCancel(t.Context())
		first, land := delay()
		l.next(txn, first)
		done := make(chan error, 1)
		go func() {
			_, err := farsync.NewMutex(l.store, "/late").Lock(ctx)
			done <- err
		}()
		awaitKeys(t, l.admin, "/late", 2)
		giveUp()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, holder.Release())
		late(t, l, land)
	})
	t.Run("of a lock whose release was unconfirmed", func(t *testing.T) {
		l := newLossy(t, server, nil)
		first, land := delay()
		l.next(txn, first)
		lease, err := farsync.NewMutex(l.store, "/late").Lock(within(t, soon))
		require.NoError(t, err)
		l.next(deleteRange, loseReply)
		require.NoError(t, lease.Release())
		late(t, l, land)
	})
	t.Run("of a permit that came before the size", func(t *testing.T) {
		l := newLossy(t, server, nil)
		first, land := delay()
		l.next(txn, first)
		lease, err := farsync.NewSemaphore(l.store, "/late", 2).Acquire(within(t, soon), 1)
		require.NoError(t, err)
		require.NoError(t, lease.Release())
		late(t, l, land)
	})
}

// TestLookingForALateJoinWritesNothing is E3: when the service comes back from an outage, many look for what they may
// have left behind.
func TestLookingForALateJoinWritesNothing(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	l := newLossy(t, embedtest.Etcd(t), nil)
	ctx, giveUp := context.WithCancel(t.Context())
	l.next(txn, before(giveUp, loseReply))
	_, err := farsync.NewMutex(l.store, "/look").Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return l.calls(timeToLive) >= 5 }, soon, time.Millisecond)
	require.Equal(t, 1, l.calls(deleteRange))
	require.Zero(t, l.calls(getRange))
	require.Empty(t, keysOf(t, l.admin, "/look"))
}

// TestLateJoinOfALiveLockChangesNothing is E3 while the lock is held.
func TestLateJoinOfALiveLockChangesNothing(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	l := newLossy(t, embedtest.Etcd(t), nil)
	first, land := delay()
	l.next(txn, first)
	lease, err := farsync.NewMutex(l.store, "/live").Lock(within(t, soon))
	require.NoError(t, err)
	reply, err := land(t.Context())
	require.NoError(t, err)
	require.False(t, reply.(*pb.TxnResponse).Succeeded)
	keys := keysOf(t, l.admin, "/live")
	require.Len(t, keys, 1)
	require.Equal(t, lease.Token().Revision(), keys[0].ModRevision)
	require.NoError(t, lease.Release())
	awaitKeys(t, l.admin, "/live", 0)
}

// TestEveryErrorTellsWhy: who gave up, what the service said last, where.
func TestEveryErrorTellsWhy(t *testing.T) {
	noLeaks(t)
	l := newLossy(t, embedtest.Etcd(t), nil)
	enough := errors.New("enough")
	ctx, giveUp := context.WithCancelCause(t.Context())
	l.next(txn, before(func() { giveUp(enough) }, loseRequest))
	_, err := farsync.NewMutex(l.store, "/why").Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, enough)
	require.ErrorContains(t, err, "lock /why")
	require.ErrorContains(t, err, "the connection broke")
}
