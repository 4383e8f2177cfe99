package etcdtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/recipe"
)

// TestCallsReturnWhenTheServerIsFrozen: the server takes connections and requests, and answers nothing. Every call
// is back when its ctx ends, or its own bound is met; and when the server goes on, nothing is left of any.
func TestCallsReturnWhenTheServerIsFrozen(t *testing.T) {
	suite.Long(t, suite.Etcd, "stops the server")
	server, _ := beginAlone(t)
	locktest.RunFrozen(t, locktest.Frozen{
		Open: func(t *testing.T, ttl time.Duration) *farsync.Store {
			return newStore(t, server.Endpoint(), &etcd.Options{Options: farsync.Options{TTL: ttl}})
		},
		Long:   3 * 2 * soon, // a third of it is more than a hang
		Short:  3 * time.Second,
		Freeze: server.Pause,
		Resume: server.Resume,
		Late:   soon,
	})
}

// TestNobodyWaitsForWhatAHungServerKeeps: the server hangs for most of a TTL, and goes on with renewals of sessions that their clients have lost.
func TestNobodyWaitsForWhatAHungServerKeeps(t *testing.T) {
	suite.Long(t, suite.Etcd, "stops the server for most of a TTL of 15 s")
	server, _ := beginAlone(t)
	locktest.RunHung(t, locktest.Hung{
		Open: func(t *testing.T, o farsync.Options) *farsync.Store {
			return newStore(t, server.Endpoint(), &etcd.Options{Options: o})
		},
		TTL: locktest.HungTTL, Long: time.Minute, Freeze: server.Pause, Resume: server.Resume,
	})
}

// TestWaitersReturnBehindAFullWatchStream is for waiters on a stream that takes no more requests, as
// that of a frozen server does some 10,000 requests later.
func TestWaitersReturnBehindAFullWatchStream(t *testing.T) {
	server, _ := begin(t)
	store, standing := newStanding(t, server.Endpoint(), grpc.WithChainStreamInterceptor(fullOfCancels))
	lock(t, store, "/full")
	queue := recipe.Queue{Store: beneath.Store(store), Path: "/full"}
	holder, _, err := queue.List(t.Context(), 0)
	require.NoError(t, err)
	const waiters = 10
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	done := make(chan error, waiters)
	for range waiters {
		go func() { done <- queue.Wait(ctx, driver.Target{Entry: holder[0]}) }()
	}
	standing.Await(t, waiters)
	require.NoError(t, locktest.Returns(t, soon, "Wait", func() error {
		giveUp()
		for range waiters {
			if err := <-done; !errors.Is(err, context.Canceled) {
				return err
			}
		}
		return nil
	}))
}

// fullOfCancels makes streams that are full when a watch is to be cancelled.
func fullOfCancels(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, options...)
	return fullStream{stream}, err
}

type fullStream struct{ grpc.ClientStream }

func (s fullStream) SendMsg(m any) error {
	if r, ok := m.(*pb.WatchRequest); ok && r.GetCancelRequest() != nil {
		<-s.Context().Done()
	}
	return s.ClientStream.SendMsg(m)
}
