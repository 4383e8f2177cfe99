package etcd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/farsync/farsync/driver"
)

func TestOutcomes(t *testing.T) {
	ctx, closeClient := context.WithCancel(t.Context())
	in := newSession(&service{client: clientv3.NewCtxClient(ctx)}, 1, time.Second, time.Now())
	for _, row := range []struct {
		err  error
		want driver.Outcome
	}{
		{rpctypes.ErrGRPCPermissionDenied, driver.Refused},
		{rpctypes.ErrPermissionDenied, driver.Refused},
		{rpctypes.ErrRequestTooLarge, driver.Refused},
		{rpctypes.ErrNoSpace, driver.Refused},
		{status.Error(codes.Unimplemented, "404 of a gateway"), driver.Refused},
		{errors.ErrUnsupported, driver.Refused},
		{stray(driver.Entry{ID: "/a/b"}), driver.Refused},
		{rpctypes.ErrNoLeader, driver.NotDone},
		{rpctypes.ErrTooManyRequests, driver.NotDone},
		{rpctypes.ErrInvalidAuthToken, driver.NotDone},
		{rpctypes.ErrAuthOldRevision, driver.NotDone},
		{rpctypes.ErrCompacted, driver.NotDone},
		{rpctypes.ErrLeaderChanged, driver.Unknown},
		{rpctypes.ErrTimeout, driver.Unknown},
		{context.DeadlineExceeded, driver.Unknown},
		{context.Canceled, driver.Unknown},
		{status.Error(codes.Unavailable, "the connection broke"), driver.Unknown},
		{errors.New("anything else"), driver.Unknown},
		{errSilent, driver.Unknown},
		{rpctypes.ErrLeaseNotFound, driver.Expired},
		{errEnded, driver.Expired},
		{fmt.Errorf("%w: %w", errUnsent, context.Canceled), driver.NotDone},
		{fmt.Errorf("%w: %w", errUnsent, rpctypes.ErrLeaseNotFound), driver.Expired},
	} {
		require.Equal(t, row.want, in.Outcome(row.err), "%v", row.err)
	}
	closeClient()
	require.Equal(t, driver.Closed, in.Outcome(context.Canceled))
	<-in.Over()
	require.Equal(t, driver.Closed, in.Outcome(in.Renew(t.Context(), nil)))
}
