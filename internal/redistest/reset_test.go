package redistest_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/redis"
)

// calls returns how many times the server has carried out a command.
func calls(t testing.TB, admin *client.Client, command string) (n int) {
	text, err := admin.Info(within(t, soon), "commandstats").Result()
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		if fields, found := strings.CutPrefix(line, "cmdstat_"+command+":"); found {
			_, err := fmt.Sscanf(fields, "calls=%d,", &n)
			require.NoError(t, err)
		}
	}
	return n
}

// TestManyHeldLocksAreWatchedOnOneLink: after a while all locks of a Store are watched at once. On this line that takes longer than
// a watch is waited for, while every request is answered. That is no reason for other connections: a new subscription has all
// that wait look again, and so more of them are late.
func TestManyHeldLocksAreWatchedOnOneLink(t *testing.T) {
	suite.Long(t, suite.Redis, "a slow line, which every request has to outlast")
	t.Parallel()
	const ttl, locks = 15 * time.Second, 150
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	var latency atomic.Int64
	to := at(server.Endpoint())
	to.PoolSize = 1
	to.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return slow{conn, &latency}, err
	}
	store, err := openAt(within(t, soon), to, fresh(ttl))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	leases := make([]*farsync.Lease, locks)
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() {
			lease, err := farsync.NewMutex(store, fmt.Sprint("/many/", i)).Lock(within(t, soon))
			if err != nil {
				t.Error(err)
				return
			}
			leases[i] = lease
		})
	}
	all.Wait()
	latency.Store(int64(20 * time.Millisecond))
	require.Eventually(t, func() bool {
		noted, err := admin.Keys(within(t, soon), prefix+"w:*").Result()
		return err == nil && len(noted) == locks
	}, soon, 10*time.Millisecond)
	latency.Store(0)
	require.Equal(t, 1, calls(t, admin, "ssubscribe"))
	for _, lease := range leases {
		require.NoError(t, lease.Err())
	}
}

// TestResetLeavesALinkThatAnswers, and no other.
func TestResetLeavesALinkThatAnswers(t *testing.T) {
	suite.Long(t, suite.Redis, "stops the server")
	t.Parallel()
	server := embedtest.Redis(t)
	var dials atomic.Int64
	to := at(server.Endpoint())
	to.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	s, err := redis.NewService(to, fresh(0))
	require.NoError(t, err)
	in, err := s.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(context.WithoutCancel(t.Context())) })
	gone := driver.Entry{ID: "exclusive-x"}

	find := func() {
		_, err := in.Find(within(t, soon), gone)
		require.ErrorIs(t, err, driver.ErrGone, "which is an answer")
	}
	for range 10 {
		sent := time.Now()
		find()
		before := dials.Load()
		in.Reset()
		if time.Since(sent) < time.Second { // or the machine is so busy that the answer is old
			find()
			require.Equal(t, before, dials.Load())
		}
	}

	before := dials.Load()
	server.Pause()
	require.Eventually(t, func() bool {
		in.Reset()
		return dials.Load() > before // to subscribe
	}, soon, 10*time.Millisecond)
	server.Resume()
	find()
}
