package redistest_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/redis"
)

// TestSlowLineKeepsItsSession: once a renewal was late, the next go over new connections. On this line one takes four times the
// latency, longer than an attempt waits: what counts are answers that come after the wait for them was given up.
func TestSlowLineKeepsItsSession(t *testing.T) {
	suite.Long(t, suite.Redis, "a slow line, on which renewals are late")
	t.Parallel()
	const ttl = 10 * time.Second
	server := embedtest.Redis(t)
	var latency atomic.Int64
	to := at(server.Endpoint())
	to.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return slow{conn, &latency}, err
	}
	var suspended atomic.Bool
	store, err := redis.Open(within(t, soon), to, &redis.Options{
		Options: farsync.Options{TTL: ttl, OnState: func(s farsync.State) {
			if s == farsync.StateSuspended {
				suspended.Store(true)
				latency.Store(int64(ttl / 10))
			}
		}}, Fresh: true,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	lease := lock(t, store, "/slow")
	latency.Store(int64(ttl * 3 / 10)) // until the first renewal is late
	admin, begun := newClient(t, server.Endpoint()), time.Now()
	require.Eventually(t, func() bool {
		require.NoError(t, lease.Err())
		last, err := admin.ZRangeWithScores(within(t, soon), prefix+"sessions", -1, -1).Result()
		require.NoError(t, err)
		require.NotEmpty(t, last)
		return time.UnixMicro(int64(last[0].Score)).After(begun.Add(2 * ttl))
	}, soon, 10*time.Millisecond)
	require.True(t, suspended.Load())
	latency.Store(0)
	require.NoError(t, lease.Release())
}

// slow is a connection on which whatever is read comes later.
type slow struct {
	net.Conn
	latency *atomic.Int64
}

func (c slow) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	<-time.After(time.Duration(c.latency.Load()))
	return n, err
}
