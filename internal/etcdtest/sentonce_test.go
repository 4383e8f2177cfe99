package etcdtest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/farsync/farsync"
)

// A locker acquires a lock of a path.
type locker struct {
	name   string
	method string // of the call by which its entry is deleted
	lock   func(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error)
}

// The entry of a mutex knows turns, and the entry of a writer does not.
var lockers = []locker{
	{"a mutex", txn, func(ctx context.Context, s *farsync.Store, path string) (*farsync.Lease, error) {
		return farsync.NewMutex(s, path).Lock(ctx)
	}},
	{"a writer", deleteRange, func(ctx context.Context, s *farsync.Store, path string) (*farsync.Lease, error) {
		return farsync.NewRWMutex(s, path).Lock(ctx)
	}},
}

// owe has the member of a client owe its Store the answer to a read that was given up.
func (l *faults) owe(t *testing.T, store *farsync.Store, path string) {
	for sent := new(atomic.Bool); !sent.Load(); { // a read of a caller whose time is over before is not sent
		l.next(getRange, func(ctx context.Context, send func(context.Context) (any, error)) error {
			if _, err := send(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			sent.Store(true)
			<-ctx.Done()
			return errBroken
		})
		read, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := store.Participants(read, path)
		cancel()
		if err == nil {
			t.Error("the read was answered")
			return
		}
	}
}

// A lateProxy takes one join, and answers that it is canceled. The member is asked to carry it out when the test says
// so.
type lateProxy struct {
	join atomic.Pointer[pb.TxnRequest]
	took func()
}

func (p *lateProxy) dial() grpc.DialOption { return grpc.WithChainUnaryInterceptor(p.intercept) }

func (p *lateProxy) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	join, ok := req.(*pb.TxnRequest)
	if !ok || p.took == nil || !p.join.CompareAndSwap(nil, join) {
		return invoke(ctx, method, req, reply, cc, options...)
	}
	// What the connection sees of it: a message that is sent.
	if err := invoke(ctx, method, new(pb.TxnRequest), reply, cc, options...); err != nil {
		return err
	}
	p.took()
	return errProxy
}

// land has the join carried out.
func (p *lateProxy) land(t *testing.T, admin *clientv3.Client) {
	resp, err := pb.NewKVClient(admin.ActiveConnection()).Txn(within(t, soon), p.join.Load())
	require.NoError(t, err)
	require.True(t, resp.Succeeded, "the late join has made an entry")
}

// TestLateJoinThroughAProxyIsRemoved: a proxy takes a join, answers that it is canceled, and the member carries it out
// when the lock was acquired by another attempt, and released. Where the first attempt did not count as sent nobody
// would look for its entry, and the path would be locked for as long as the process lives.
func TestLateJoinThroughAProxyIsRemoved(t *testing.T) {
	for _, of := range lockers {
		t.Run(of.name, func(t *testing.T) {
			server, admin := begin(t)
			l, proxy := new(faults), new(lateProxy)
			store := newStore(t, server.Endpoint(), nil, append(l.dial(), proxy.dial())...)
			path := newPath(t)
			proxy.took = func() { l.owe(t, store, path+"/other") }
			lease, err := of.lock(within(t, soon), store, path)
			require.NoError(t, err)
			require.NoError(t, lease.Release())
			require.Empty(t, keysOf(t, admin, path))
			proxy.land(t, admin)
			lease, err = of.lock(within(t, soon), newStore(t, server.Endpoint(), nil), path)
			require.NoError(t, err)
			require.NoError(t, lease.Release())
			require.Empty(t, keysOf(t, admin, path))
		})
	}
}

// TestReleaseThroughAProxyIsNoLoss: a proxy has a release carried out, and answers that it is canceled. What it finds
// when it is sent again is its own work.
func TestReleaseThroughAProxyIsNoLoss(t *testing.T) {
	for _, of := range lockers {
		t.Run(of.name, func(t *testing.T) {
			server, admin := begin(t)
			l := new(faults)
			store := newStore(t, server.Endpoint(), nil, l.dial()...)
			path := newPath(t)
			lease, err := of.lock(within(t, soon), store, path)
			require.NoError(t, err)
			l.next(of.method, func(ctx context.Context, send func(context.Context) (any, error)) error {
				_, err := send(ctx)
				if err != nil {
					return err
				}
				l.owe(t, store, path+"/other")
				return errProxy
			})
			require.NoError(t, lease.Release())
			require.Empty(t, keysOf(t, admin, path))
		})
	}
}
