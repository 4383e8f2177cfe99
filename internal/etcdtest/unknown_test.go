package etcdtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/suite"
)

// errProxy is what a proxy in between answers when its own connection breaks. The client then sends again by itself.
var errProxy = status.Error(codes.Canceled, "the proxy gave up")

// An acquirer is Lock or TryLock.
type acquirer struct {
	name string
	lock func(*farsync.Mutex, context.Context) (*farsync.Lease, error)
}

var acquirers = []acquirer{{"Lock", (*farsync.Mutex).Lock}, {"TryLock", (*farsync.Mutex).TryLock}}

// TestLateJoinIsRemoved: a join that was given up is carried out when its key was removed. Until then it is
// looked for, by reads alone: when a service comes back from an outage, many look for what they may have left behind.
func TestLateJoinIsRemoved(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts requests, and one is made again where an answer takes a second")
	server, admin := begin(t)
	l := new(faults)
	store := newStore(t, server.Endpoint(), nil, l.dial()...)
	ctx, giveUp := context.WithCancel(t.Context())
	path := newPath(t)
	second, land := delay()
	l.next(txn, loseReply, before(giveUp, second))
	_, err := farsync.NewMutex(store, path).Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return l.calls(timeToLive) >= 5 }, soon, time.Millisecond)
	require.Equal(t, 3, l.calls(txn), "two to join, and one to leave")
	require.Equal(t, 1, l.calls(getRange), "for the revision of what is to be deleted")
	require.Empty(t, keysOf(t, admin, path))
	reply, err := land(t.Context())
	require.NoError(t, err)
	require.True(t, reply.(*pb.TxnResponse).Succeeded, "the late request has made a key")
	require.NoError(t, lock(t, newStore(t, server.Endpoint(), nil), path).Release())
	require.Empty(t, keysOf(t, admin, path))
}
