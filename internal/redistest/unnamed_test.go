package redistest_test

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/redis"
)

// TestServerWithoutARunIDIsRefused: nothing would tell it from the server that it was before a restart.
func TestServerWithoutARunIDIsRefused(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	to := at(server.Endpoint())
	to.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return unnamed{conn}, err
	}
	_, err := redis.Open(within(t, soon), to, fresh(0))
	require.ErrorContains(t, err, "run_id")
	require.NotErrorIs(t, err, farsync.ErrUnavailable)
}

// unnamed is a connection to a server that has no run ID.
type unnamed struct{ net.Conn }

func (c unnamed) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	copy(p, bytes.Replace(p[:n], []byte("\nrun_id:"), []byte("\nrun_it:"), 1))
	return n, err
}
