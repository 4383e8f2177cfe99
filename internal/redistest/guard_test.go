package redistest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/redis"
)

// withdraw is a script of a user.
var withdraw = redis.Guard("", "return redis.call('DECRBY', KEYS[1], ARGV[1])")

func TestGuardRunsOnlyWhileHeld(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	data, admin := newClient(t, server.Endpoint()), newAdministrator(t, server.Endpoint())
	require.NoError(t, data.Set(within(t, soon), "balance", 100, 0).Err())
	store := newStore(t, server.Endpoint(), fresh(time.Minute))
	run := func(lease farsync.Guarded) (any, error) {
		return withdraw.Run(within(t, soon), data, lease, []string{"balance"}, 10)
	}
	lease := lock(t, store, "/guard")
	for _, want := range []int64{90, 80} {
		left, err := run(lease)
		require.NoError(t, err)
		require.Equal(t, want, left)
	}
	require.NoError(t, lease.Release())
	_, err := run(lease)
	require.EqualError(t, err, "farsync: guard /guard: released")
	require.ErrorIs(t, err, farsync.ErrReleased)

	// The token goes to Redis as its digits, as a value and as an argument of the script, and comes back whole.
	lease = lock(t, store, "/guard")
	marks := redis.Guard("", "redis.call('SET', KEYS[1], ARGV[1]); return ARGV[1]")
	told, err := marks.Run(within(t, soon), data, lease, []string{"mark"}, lease.Token()+1<<62)
	require.NoError(t, err)
	require.Equal(t, (lease.Token() + 1<<62).String(), told)
	var mark farsync.Token
	require.NoError(t, data.Get(within(t, soon), "mark").Scan(&mark))
	require.Equal(t, lease.Token()+1<<62, mark)
	require.NoError(t, data.HSet(within(t, soon), "row", "mark", mark).Err())
	require.NoError(t, data.HGet(within(t, soon), "row", "mark").Scan(&mark))
	require.Equal(t, lease.Token()+1<<62, mark)
	require.NoError(t, lease.Release())

	// A holder that was stopped knows nothing of what has become of its lock.
	lease = lock(t, store, "/guard")
	entries := stopped(locktest.GuardEntries(t, lease))
	admin.remove(t, entries[0])
	next := lock(t, newStore(t, server.Endpoint(), fresh(time.Minute)), "/guard")
	_, err = run(entries)
	require.ErrorIs(t, err, farsync.ErrLost)
	require.ErrorContains(t, err, "/guard")
	_, err = redis.Guard("other", "return 1").Run(within(t, soon), data, next, nil)
	require.ErrorIs(t, err, farsync.ErrLost, "in that namespace it is not held")
	left, err := run(next)
	require.NoError(t, err)
	require.EqualValues(t, 70, left)

	both, err := farsync.NewMultiMutex(farsync.NewMutex(store, "/a"), farsync.NewMutex(store, "/b")).Lock(within(t, soon))
	require.NoError(t, err)
	left, err = run(both)
	require.NoError(t, err)
	require.EqualValues(t, 60, left)
	admin.remove(t, locktest.GuardEntries(t, both)[1])
	_, err = run(both)
	require.ErrorIs(t, err, farsync.ErrLost, "one of two")
	_, err = redis.Guard("", "return redis.call('NONSENSE')").Run(within(t, soon), data, next, nil)
	require.Error(t, err)
	require.NotErrorIs(t, err, farsync.ErrLost)
}

// stopped is a lease as a process remembers it that was stopped.
type stopped []driver.Entry

func (s stopped) GuardEntries() ([]driver.Entry, error) { return s, nil }

// TestGuardEndsWithItsTurn has goroutines that share a Mutex wait for each other, so that the lock is handed off where it may.
func TestGuardEndsWithItsTurn(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	data := newClient(t, server.Endpoint())
	mu := farsync.NewMutex(newStore(t, server.Endpoint(), fresh(time.Minute)), "/guard")
	for range 10 {
		first, err := mu.Lock(within(t, soon))
		require.NoError(t, err)
		entries := stopped(locktest.GuardEntries(t, first))
		got := make(chan *farsync.Lease, 1)
		go func() { // joined below
			lease, err := mu.Lock(within(t, soon))
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		require.NoError(t, first.Release())
		next := <-got
		require.NotNil(t, next)
		_, err = withdraw.Run(within(t, soon), data, entries, []string{"balance"}, 1)
		require.ErrorIs(t, err, farsync.ErrLost, "the guard of the first, while the second holds")
		require.NoError(t, next.Release())
	}
}
