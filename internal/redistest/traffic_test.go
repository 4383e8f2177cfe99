package redistest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// TestRequestsOfALock: a free lock takes one request and its release another; one that has to wait takes a third, to look.
func TestRequestsOfALock(t *testing.T) {
	suite.Long(t, suite.Redis, "counts requests, while leases that are held for 3 s are watched")
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	requests := func() int { return commands(t, admin)["evalsha"] }
	store := newStore(t, server.Endpoint(), fresh(time.Hour))
	require.NoError(t, lock(t, store, "/traffic").Release())
	const times = 20
	before := requests()
	for range times {
		require.NoError(t, lock(t, store, "/traffic").Release())
	}
	require.Equal(t, 2*times, requests()-before)

	lease, other := lock(t, store, "/traffic"), newStore(t, server.Endpoint(), fresh(time.Hour))
	before = requests()
	for range times {
		_, err := farsync.NewMutex(other, "/traffic").TryLock(within(t, soon))
		require.ErrorIs(t, err, farsync.ErrLocked)
	}
	require.Equal(t, times, requests()-before, "one that is taken")
	before = requests()
	_, err := farsync.NewMutex(store, "/traffic").TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.Equal(t, before, requests(), "one that is taken by this Store")
	require.NoError(t, lease.Release())

	for _, waiters := range []int{8, 64} {
		contend(t, server, waiters, 1, func(store *farsync.Store) (*farsync.Lease, error) {
			return farsync.NewMutex(store, "/traffic").Lock(within(t, soon))
		})
	}
}

// TestRequestsOfAPermit: as many as of a mutex, and one message, to the one that is granted, however many wait and in whatever order
// units come free.
func TestRequestsOfAPermit(t *testing.T) {
	suite.Long(t, suite.Redis, "counts requests, while leases that are held for 3 s are watched")
	t.Parallel()
	server := embedtest.Redis(t)
	for _, waiters := range []int{8, 64} {
		contend(t, server, waiters, 8, func(store *farsync.Store) (*farsync.Lease, error) {
			return farsync.NewSemaphore(store, "/traffic", 8).Acquire(within(t, soon), 1)
		})
	}
}

// contend has a number of Stores wait for what others hold, with acquire, and go one after the other. It counts what that takes: a
// request to join, one message, one request to look and one to leave.
func contend(
	t *testing.T, server *embedtest.RedisServer, waiters, holders int, acquire func(*farsync.Store) (*farsync.Lease, error),
) {
	admin := newClient(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), fresh(time.Hour))
	var held []*farsync.Lease
	for range holders {
		lease, err := acquire(store)
		require.NoError(t, err)
		held = append(held, lease)
	}
	stores := make([]*farsync.Store, waiters)
	for i := range stores {
		stores[i] = newStore(t, server.Endpoint(), fresh(time.Hour))
	}
	before, told := commands(t, admin)["evalsha"], commands(t, admin)["spublish"]
	var all sync.WaitGroup
	for _, store := range stores {
		all.Go(func() {
			lease, err := acquire(store)
			if err == nil {
				err = lease.Release()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool {
		n, err := admin.ZCard(within(t, soon), prefix+"q:/traffic").Result()
		return err == nil && n == int64(waiters+holders)
	}, soon, time.Millisecond)
	require.Equal(t, waiters, commands(t, admin)["evalsha"]-before, "to join")
	for _, lease := range held {
		require.NoError(t, lease.Release())
	}
	all.Wait()
	n, messages := commands(t, admin)["evalsha"]-before-holders, commands(t, admin)["spublish"]-told
	t.Logf("%d waiters: %d requests, %d messages", waiters, n, messages)
	require.GreaterOrEqual(t, n, 3*waiters, "join, look, leave")
	// A wake-up that is faster than the answer to the join costs one more.
	require.LessOrEqual(t, n, 3*waiters+waiters/4)
	require.Equal(t, waiters, messages, "one for each that is granted")
	require.NoError(t, store.Close())
	for _, store := range stores {
		require.NoError(t, store.Close())
	}
}
