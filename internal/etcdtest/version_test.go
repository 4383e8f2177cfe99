package etcdtest_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/farsync/farsync/internal/locktest"
)

// A downgrade has a client see its server as one of another version, and in a later term: as after a member was
// replaced, and another was elected.
type downgrade struct {
	version atomic.Pointer[string]
	terms   atomic.Uint64
}

func (d *downgrade) options() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithUnaryInterceptor(func(
			ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
		) error {
			err := invoke(ctx, method, in, out, conn, options...)
			if status, is := out.(*pb.StatusResponse); is {
				status.Version = *d.version.Load()
			}
			return err
		}),
		grpc.WithStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			stream, err := open(ctx, desc, conn, method, options...)
			return downgraded{stream, d}, err
		}),
	}
}

type downgraded struct {
	grpc.ClientStream

	by *downgrade
}

func (s downgraded) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if renewed, is := m.(*pb.LeaseKeepAliveResponse); is && err == nil {
		renewed.Header.RaftTerm += s.by.terms.Load()
	}
	return err
}

// TestVersionThatIsSeenUnderARunningStore: Open has found a version without the defect, and a member that has it comes
// later. The first renewal has all members asked, and so has one that shows a later term.
func TestVersionThatIsSeenUnderARunningStore(t *testing.T) {
	server, _ := begin(t)
	var d downgrade
	is := func(version string) { d.version.Store(&version) }
	is("3.7.0")
	var log locktest.Log
	options := ttl(10 * time.Second)
	options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	storeOn(t, newClient(t, server.Endpoint(), d.options()...), options)
	const words = `level=WARN msg="this etcd can let an old leader revoke live leases: upgrade to 3.5.13, 3.4.31 or later" version=`
	warns := func(version string) {
		t.Helper()
		log.Await(t, words+version)
	}
	is("3.5.12")
	warns("3.5.12")
	require.Equal(t, 1, strings.Count(log.String(), words), "none before")
	is("3.4.9")
	d.terms.Add(1)
	warns("3.4.9")
	require.Equal(t, 2, strings.Count(log.String(), words), "once each")
}
