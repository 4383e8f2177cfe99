package etcdtest_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
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

// TestLostJoinIsMadeOnce: each request that is lost costs one more, and there is one key.
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

// TestLateJoinIsRemoved: a join that was given up is carried out when its key was removed. Until then it is
// looked for, by reads alone: when a service comes back from an outage, many look for what they may have left behind.
func TestLateJoinIsRemoved(t *testing.T) {
	l := beginLossy(t)
	ctx, giveUp := context.WithCancel(t.Context())
	second, land := delay()
	l.next(txn, loseReply, before(giveUp, second))
	_, err := farsync.NewMutex(l.store, "/late").Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return l.calls(timeToLive) >= 5 }, soon, time.Millisecond)
	require.Equal(t, 1, l.calls(deleteRange))
	require.Zero(t, l.calls(getRange))
	require.Empty(t, keysOf(t, l.admin, "/late"))
	reply, err := land(t.Context())
	require.NoError(t, err)
	require.True(t, reply.(*pb.TxnResponse).Succeeded, "the late request has made a key")
	require.NoError(t, lock(t, l.other, "/late").Release())
	require.Empty(t, keysOf(t, l.admin, "/late"))
}
