package redistest_test

import (
	"context"
	"net"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// TestFailoverWhileTheOldMasterLives: for how long two hold. The silence of the new master keeps no holder from another
// who is renewed by the old master all the while. Each such holder is told when it leaves the old master: by its first
// request at the new one, which knows no session of before, or by its own deadline.
func TestFailoverWhileTheOldMasterLives(t *testing.T) {
	suite.Long(t, suite.Redis, "promotes a replica, and waits for sessions to run out")
	t.Parallel()
	const ttl = longTTL
	master := embedtest.Redis(t)
	replica := replicaOf(t, master.Endpoint())
	open := func(to string) (*locktest.Way, *farsync.Store) {
		way := locktest.NewWay(to)
		store, err := openAt(within(t, soon), &client.UniversalOptions{
			Addrs:  []string{"the.address.of.redis:6379"},
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return way.Dial(ctx) },
		}, fresh(ttl))
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return way, store
	}
	_, stays := open(master.Endpoint())
	partedBy, parted := open(master.Endpoint())
	followedBy, follows := open(master.Endpoint())
	earlier := map[string]*farsync.Lease{
		"/stays": lock(t, stays, "/stays"), "/parted": lock(t, parted, "/parted"), "/follows": lock(t, follows, "/follows"),
	}
	promote(t, replica)
	_, now := open(replica.Endpoint()) // it finds the new master out, and waits for its silence to end
	next := map[string]*farsync.Lease{}
	for path, lease := range earlier {
		next[path] = lock(t, now, path)
		require.Greater(t, next[path].Token(), lease.Token(), "what checks tokens refuses the earlier holder from now on")
		require.NoError(t, lease.Err(), "two hold")
	}

	gone := time.Now()
	partedBy.Lead("")
	followedBy.Lead(replica.Endpoint())
	locktest.Ended(t, earlier["/follows"])
	t.Logf("the holder who follows was told after %v, at a TTL of %v", time.Since(gone), ttl)
	require.ErrorIs(t, earlier["/follows"].Err(), farsync.ErrLost)
	require.NoError(t, next["/follows"].Err(), "the new master knew of the failover before: it ends nothing once more")

	locktest.Ended(t, earlier["/parted"])
	require.ErrorIs(t, earlier["/parted"].Err(), farsync.ErrLost)
	require.LessOrEqual(t, earlier["/parted"].Deadline().Sub(gone), ttl, "it counts from the last renewal that was answered")

	// A holder who stays goes on for as long as the old master takes the renewals.
	lease, later := earlier["/stays"], gone.Add(2*ttl)
	require.Eventually(t, func() bool {
		return lease.Err() != nil || lease.Deadline().After(later)
	}, soon, time.Millisecond)
	require.NoError(t, lease.Err(), "two hold still")
	for path, lease := range next {
		require.NoError(t, lease.Release(), path)
	}
	require.NoError(t, lease.Release())
}
