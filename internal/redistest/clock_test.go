package redistest_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/redis"
)

const clockTTL = 4 * time.Second

// logged returns a Store that writes its log into a buffer.
func logged(t *testing.T, endpoint string) (*farsync.Store, *locktest.Log) {
	var log locktest.Log
	return newStore(t, endpoint, &redis.Options{
		Options: farsync.Options{TTL: clockTTL, Logger: slog.New(slog.NewTextHandler(&log, nil))}, Fresh: true,
	}), &log
}

// TestClockThatIsSetForwardByLess than two thirds of the TTL ends no session of a client that is connected, and is logged.
func TestClockThatIsSetForwardByLess(t *testing.T) {
	suite.Long(t, suite.Redis, "sets the server's clock")
	t.Parallel()
	server := embedtest.RedisWithClock(t)
	store, log := logged(t, server.Endpoint())
	section := locktest.NewSection(t, 1)
	lease := lock(t, store, "/clock")
	leave := section.Enter(lease, 1)
	require.NoError(t, server.StepClock(clockTTL/2))
	log.Await(t, "the clock of the redis server was set")
	_, err := farsync.NewMutex(newStore(t, server.Endpoint(), fresh(clockTTL)), "/clock").TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.NoError(t, lease.Err())
	leave()
	require.NoError(t, lease.Release())
	next := lock(t, store, "/clock")
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Release())
}

// TestClockThatIsSetForwardEndsSessionsEarly: by a TTL, while a holder is cut off. Another is granted the lock before the
// holder's lease has ended: two hold, and what checks tokens, or a guard, refuses the old one.
func TestClockThatIsSetForwardEndsSessionsEarly(t *testing.T) {
	suite.Long(t, suite.Redis, "sets the server's clock")
	t.Parallel()
	server := embedtest.RedisWithClock(t)
	proxy := embedtest.NewProxy(t, server.Endpoint())
	data := newClient(t, server.Endpoint())
	require.NoError(t, data.Set(within(t, soon), "balance", 100, 0).Err())
	lease := lock(t, newStore(t, proxy.Addr(), fresh(time.Hour)), "/clock") // so long that it cannot have ended by itself
	proxy.Cut()
	require.NoError(t, server.StepClock(time.Hour+time.Minute))
	next := lock(t, newStore(t, server.Endpoint(), fresh(clockTTL)), "/clock")
	require.NoError(t, lease.Err(), "it knows of nothing")
	require.NoError(t, next.Err())
	require.Greater(t, next.Token(), lease.Token())
	_, err := withdraw.Run(within(t, soon), data, lease, []string{"balance"}, 10)
	require.ErrorIs(t, err, farsync.ErrLost)
	_, err = withdraw.Run(within(t, soon), data, next, []string{"balance"}, 10)
	require.NoError(t, err)
}

// TestClockThatIsSetBack by a TTL ends no lease and gives no lock to two, and tokens rise. The lock of a client that has died stays
// for a TTL longer.
func TestClockThatIsSetBack(t *testing.T) {
	suite.Long(t, suite.Redis, "sets the server's clock")
	t.Parallel()
	server := embedtest.RedisWithClock(t)
	store, log := logged(t, server.Endpoint())
	kept := lock(t, store, "/kept")
	proxy := embedtest.NewProxy(t, server.Endpoint())
	dead := lock(t, newStore(t, proxy.Addr(), fresh(clockTTL)), "/dead")
	proxy.Cut()
	require.NoError(t, server.StepClock(-clockTTL))
	stepped := time.Now()
	log.Await(t, "the clock of the redis server was set")
	next := lock(t, newStore(t, server.Endpoint(), fresh(clockTTL)), "/dead")
	require.ErrorIs(t, dead.Err(), farsync.ErrLost)
	// The deadline lay at least three quarters of a TTL ahead, for a renewal is no older than a quarter.
	require.Greater(t, time.Since(stepped), clockTTL+clockTTL/2)
	require.Greater(t, next.Token(), dead.Token())
	require.NoError(t, kept.Err())
	require.NoError(t, kept.Release())
	again := lock(t, store, "/kept")
	require.Greater(t, again.Token(), kept.Token(), "revisions go on from the last")
	require.NoError(t, again.Release())
}

// TestClockThatIsSetBackInASilence: it was ahead by an hour when the server was introduced, as of a machine that has just started. Nothing is
// granted for a TTL or two, and not for an hour.
func TestClockThatIsSetBackInASilence(t *testing.T) {
	suite.Long(t, suite.Redis, "sets the server's clock")
	t.Parallel()
	server := embedtest.RedisWithClock(t)
	require.NoError(t, server.StepClock(time.Hour))
	options := fresh(fenceTTL)
	options.Fresh = false
	store := newStore(t, server.Endpoint(), options)
	require.NoError(t, server.StepClock(-time.Hour))
	mu := farsync.NewMutex(store, "/clock")
	_, err := mu.TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrUnavailable, "the silence goes on")
	require.NotErrorIs(t, err, farsync.ErrLocked)
	require.NoError(t, lock(t, store, "/clock").Release())
}

// TestSlotThatMovesGrantsNothing: while the slot of the namespace moves to another server of a cluster, half of its keys are on
// either. Nothing is granted then, and nothing but what was held before is held for one TTL more.
func TestSlotThatMovesGrantsNothing(t *testing.T) {
	suite.Long(t, suite.Redis, "moves a slot of a cluster beside a TTL of 4 s")
	t.Parallel()
	cluster := embedtest.RedisClusterOf(t, 3)
	w := &world{ttl: clockTTL, to: at("")}
	w.to.Addrs, w.to.IsClusterMode = cluster.Endpoints(), true
	owner, err := cluster.Owner(within(t, soon), prefix)
	require.NoError(t, err)
	source := newClient(t, cluster.Member(owner).Endpoint())
	target := newClient(t, cluster.Member((owner+1)%3).Endpoint())
	section := locktest.NewSection(t, 1)
	holder := w.open(t, true, nil)
	defer func() { _ = holder.Close() }()
	lease := lock(t, holder, "/move")
	leave := section.Enter(lease, 1)
	other := w.open(t, false, nil)
	defer func() { _ = other.Close() }()

	ctx := within(t, soon)
	slot := source.ClusterKeySlot(ctx, prefix).Val()
	from, to := source.Do(ctx, "CLUSTER", "MYID").String(), target.Do(ctx, "CLUSTER", "MYID").String()
	from, to = from[len(from)-40:], to[len(to)-40:]
	require.NoError(t, target.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", from).Err())
	require.NoError(t, source.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", to).Err())
	// The entry and its queue are at one, the sessions at the other.
	keys := source.ClusterGetKeysInSlot(ctx, int(slot), 100).Val()
	require.NotEmpty(t, keys)
	host, port, _ := net.SplitHostPort(target.Options().Addr)
	for _, key := range keys {
		require.NoError(t, source.Migrate(ctx, host, port, key, 0, soon).Err())
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		_, err := farsync.NewMutex(other, "/move").Lock(short)
		cancel()
		require.Error(t, err, "after %s", key)
	}
	for _, c := range []*embedtest.RedisServer{cluster.Member(owner), cluster.Member((owner + 1) % 3), cluster.Member((owner + 2) % 3)} {
		require.NoError(t, newClient(t, c.Endpoint()).Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", to).Err())
	}
	next := lock(t, other, "/move")
	section.Visit(t.Context(), next, 1)
	leave()
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	require.Greater(t, next.Token(), lease.Token())
	require.Empty(t, section.Overlaps())
}
