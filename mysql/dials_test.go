package mysql_test

import (
	"context"
	"crypto/rand"
	"net"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/mysql"
)

// TestAnAttemptDialsOnce: a server that closes each connection at once, as one that starts or a balancer without a
// server behind it does, is dialed once by each attempt. The Store decides when the next is made.
func TestAnAttemptDialsOnce(t *testing.T) {
	t.Parallel()
	var dials atomic.Int64
	name := rand.Text()
	client.RegisterDialContext(name, func(context.Context, string) (net.Conn, error) {
		dials.Add(1)
		here, there := net.Pipe()
		_ = there.Close()
		return here, nil
	})
	t.Cleanup(func() { client.DeregisterDialContext(name) })
	service, err := mysql.NewService("root@"+name+"(nowhere)/test", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, service.Close()) })
	for attempt := range int64(3) {
		_, err = service.Open(t.Context(), time.Minute)
		require.Error(t, err)
		t.Logf("%d: %v, %v", dials.Load(), service.Outcome(err), err)
		require.Equal(t, attempt+1, dials.Load())
	}
	require.Error(t, service.End(t.Context(), "a session"))
	require.EqualValues(t, 4, dials.Load(), "by the connections of calls, too")
}
