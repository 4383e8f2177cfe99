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
	"google.golang.org/grpc"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/suite"
)

// A server that has been sent 5,000 joins at once answers each of them late, and a renewal behind them too late.
func TestCrowdOfJoinsIsSentInParts(t *testing.T) {
	suite.Long(t, suite.Etcd, "a crowd of 400")
	server, _ := beginAlone(t)
	const crowd, most = 400, 128
	var under, highest atomic.Int64
	count := func(ctx context.Context, method string, in, out any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if txn, ok := in.(*pb.TxnRequest); ok && len(txn.Success) > 1 && txn.Success[len(txn.Success)-1].GetRequestPut() != nil { // else it deletes
			n := under.Add(1)
			defer under.Add(-1)
			for was := highest.Load(); n > was && !highest.CompareAndSwap(was, n); {
				was = highest.Load()
			}
		}
		return invoke(ctx, method, in, out, cc, options...)
	}
	store := newStore(t, server.Endpoint(), ttl(time.Minute), grpc.WithChainUnaryInterceptor(count))
	path := newPath(t)
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			lease, err := farsync.NewMutex(store, fmt.Sprint(path, "/", i)).Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			_ = lease.Release() // late, perhaps
		})
	}
	all.Wait()
	require.LessOrEqual(t, highest.Load(), int64(most))
}
