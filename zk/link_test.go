package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
)

// TestFailedWriteOfCredentialsIsSurvived is Z5: the client library repeats them on every connection, and if it cannot
// write them it answers a channel that has no more room, for good.
func TestFailedWriteOfCredentialsIsSurvived(t *testing.T) {
	server := embedtest.ZooKeeper(t)
	var broken atomic.Int32 // SetAuths that are not to be written
	var current atomic.Pointer[flaky]
	w := newWire(10*time.Second, 0, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		f := &flaky{conn, func(p []byte) bool {
			return len(p) > 12 && binary.BigEndian.Uint32(p[8:]) == opSetAuth && broken.Add(-1) >= 0
		}}
		current.Store(f)
		return f, nil
	})
	conn, events, err := client.Connect([]string{server.Endpoint()}, 10*time.Second, client.WithDialer(w.dial),
		client.WithHostProvider(&hosts{wire: w}), client.WithLogInfo(false), client.WithLogger(logger{slog.New(slog.DiscardHandler)}))
	require.NoError(t, err)
	s := newSession(&service{}, w, conn, events)
	t.Cleanup(s.Drop)
	require.NoError(t, conn.AddAuth("digest", []byte("user:password")))
	for range 3 {
		broken.Store(1)
		require.NoError(t, current.Load().Close())
		require.Eventually(t, func() bool { return s.Renew(t.Context(), nil) == nil }, 30*time.Second, time.Millisecond)
		require.Negative(t, broken.Load())
	}
}

// flaky is a connection that fails to write what it is told to.
type flaky struct {
	net.Conn
	fails func(p []byte) bool
}

func (f *flaky) Write(p []byte) (int, error) {
	if f.fails(p) {
		return 0, errors.New("broken pipe")
	}
	return f.Conn.Write(p)
}

// TestPatienceIsBounded is Z4 for a timeout that no server grants: until one has been granted, what was asked for is all
// there is to go by.
func TestPatienceIsBounded(t *testing.T) {
	for asked, patience := range map[time.Duration]time.Duration{
		time.Millisecond: time.Second, 12 * time.Second: 2 * time.Second, 24 * 24 * time.Hour: openFor,
	} {
		require.Equal(t, patience, newWire(asked, 0, nil).patience())
	}
}
