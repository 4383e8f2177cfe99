package redistest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/redis"
)

// TestSilenceKnowsNoSize: nothing holds while nothing is granted, so a semaphore that is declared with another size then is not
// refused, and neither is its Resize.
func TestSilenceKnowsNoSize(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server")
	t.Parallel()
	const ttl, clients = 3 * time.Second, 4
	server := embedtest.Redis(t)
	before := newStore(t, server.Endpoint(), fresh(ttl))
	lease, err := farsync.NewSemaphore(before, "/permits", 5).Acquire(within(t, soon), 5)
	require.NoError(t, err)
	server.Kill()
	require.NoError(t, server.Restart(within(t, soon)))
	var all sync.WaitGroup
	section := locktest.NewSection(t, 8)
	for range clients {
		store := newStore(t, server.Endpoint(), &redis.Options{Options: farsync.Options{TTL: ttl}})
		all.Go(func() {
			next, err := farsync.NewSemaphore(store, "/permits", 8).Acquire(within(t, soon), 6)
			if err != nil {
				t.Error(err)
				return
			}
			section.Visit(t.Context(), next, 6)
			if err := next.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)

	other := newStore(t, server.Endpoint(), &redis.Options{Options: farsync.Options{TTL: ttl}})
	server.Kill()
	require.NoError(t, server.Restart(within(t, soon)))
	for range 2 { // what is said to a session that has just ended is said again
		require.NoError(t, farsync.NewSemaphore(other, "/permits", 3).Resize(within(t, soon), 2))
	}
	r, err := openSession(t, server.Endpoint(), ttl).Register(within(t, soon), "/permits")
	require.NoError(t, err)
	require.Equal(t, "3 2", r.Value)
}

// TestSilenceEndsForTheNextPermit: nothing is granted for a while after a restart, also when a permit goes that waited ahead
// of another. The one that is then the first is granted when the silence is over.
func TestSilenceEndsForTheNextPermit(t *testing.T) {
	suite.Long(t, suite.Redis, "waits for a TTL of 3 s, in which renewals must be in time")
	t.Parallel()
	const ttl = 3 * time.Second
	server := embedtest.Redis(t)
	options := fresh(0)
	options.Fresh = false
	in, err := newService(t, server.Endpoint(), options).Open(within(t, soon), ttl)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(context.WithoutCancel(t.Context())) })
	over, end := context.WithCancel(t.Context())
	var renewals sync.WaitGroup
	renewals.Go(func() {
		for over.Err() == nil {
			_ = in.Renew(over, nil)
			select {
			case <-over.Done():
			case <-time.After(ttl / 8):
			}
		}
	})
	defer renewals.Wait()
	defer end()
	_, err = in.SetRegister(within(t, soon), "/permits", "2 2", 0, driver.Entry{})
	require.NoError(t, err)
	first, second := create(t, in, "/permits", driver.Permit), create(t, in, "/permits", driver.Permit)
	require.Len(t, second.Entries, 1)
	once := sync.OnceFunc(func() {
		_, found, err := in.Delete(within(t, soon), first.Self)
		require.NoError(t, err)
		require.True(t, found)
	})
	ctx := within(t, soon)
	for v := second; len(v.Entries) > 0 && v.Entries[0].Units > 0; {
		_, err := in.Watch(ctx, v.Self, []driver.Target{{Entry: v.Entries[0]}}, once)
		require.NoError(t, err)
		v, err = in.Ahead(ctx, v.Self, true)
		require.NoError(t, err)
	}
}

// TestSilenceHasNoLeader: no observer names the next leader while the last holds its lease, and that is until the silence is over.
func TestSilenceHasNoLeader(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server")
	t.Parallel()
	const ttl = 3 * time.Second
	server := embedtest.Redis(t)
	first := newStore(t, server.Endpoint(), fresh(ttl))
	lease, err := farsync.NewElection(first, "/e").Campaign(within(t, soon), "first")
	require.NoError(t, err)
	server.Kill()
	require.NoError(t, server.Restart(within(t, soon)))
	second := newStore(t, server.Endpoint(), fresh(ttl))
	next := farsync.NewElection(second, "/e")
	var candidate sync.WaitGroup
	defer candidate.Wait()
	candidate.Go(func() { // it leads until its Store is closed
		if _, err := next.Campaign(within(t, soon), "next"); err != nil {
			t.Error(err)
		}
	})
	require.Eventually(t, func() bool {
		list, err := second.Participants(within(t, soon), "/e")
		require.NoError(t, err)
		return len(list) == 1
	}, soon, time.Millisecond)
	for leader, err := range next.Observe(within(t, soon)) {
		if err == nil {
			require.Equal(t, "next", leader.Value)
			require.False(t, time.Now().Before(lease.Deadline()), "the first leads until then")
			return
		}
		require.ErrorIs(t, err, farsync.ErrUnavailable)
	}
	t.Fatal("nobody was seen to lead")
}

// TestSilence: nothing is granted for a while after a restart, and no call says that another holds.
func TestSilence(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server")
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	locktest.RunSilence(t, locktest.Silenced{
		Open: func(t testing.TB, options farsync.Options) *farsync.Store {
			return newStore(t, server.Endpoint(), &redis.Options{Options: options, Fresh: true})
		},
		Restart: func(t testing.TB) {
			server.Kill()
			require.NoError(t, server.Restart(within(t, soon)))
		},
		End: func(t testing.TB) { require.NoError(t, admin.HSet(within(t, soon), prefix+"server", "quiet", 0).Err()) },
	})
}
