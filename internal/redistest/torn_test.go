package redistest_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/redis"
)

// TestTornMessageIsNotLost: a message may arrive in two parts, the first just before the subscription's patience ends. The
// client library forgets that part, and takes each word of the other for the answer to a ping.
func TestTornMessageIsNotLost(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	var tear atomic.Bool
	to := at(server.Endpoint())
	to.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &torn{Conn: conn, tear: &tear}, err
	}
	s, err := redis.NewService(to, fresh(0))
	require.NoError(t, err)
	in, err := s.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(context.WithoutCancel(t.Context())) })
	other := openSession(t, server.Endpoint(), time.Hour)

	first := create(t, other, "/torn", driver.Exclusive).Self
	v := create(t, in, "/torn", driver.Exclusive)
	_, err = in.Watch(within(t, soon), v.Self, []driver.Target{{Entry: v.Entries[0]}}, func() {
		tear.Store(true)
		_, found, err := other.Delete(within(t, soon), first)
		require.NoError(t, err)
		require.True(t, found)
	})
	require.NoError(t, err)
	require.False(t, tear.Load())
}

// torn is a connection on which one message comes in two parts, with a deadline that passes in between.
type torn struct {
	net.Conn
	tear *atomic.Bool
	late bool   // the deadline is to pass
	rest []byte // what comes after it
}

func (c *torn) Read(p []byte) (int, error) {
	switch {
	case c.late:
		c.late = false
		return 0, os.ErrDeadlineExceeded
	case len(c.rest) > 0:
		n := copy(p, c.rest)
		c.rest = c.rest[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	word := []byte("\nsmessage\r\n")
	if i := bytes.Index(p[:n], word); i >= 0 && c.tear.CompareAndSwap(true, false) {
		i += len(word)
		c.late, c.rest = true, bytes.Clone(p[i:n])
		n = i
	}
	return n, err
}
