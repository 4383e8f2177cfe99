package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
)

// TestKeyThatIsOverwrittenUnderAHolder: the other entries of that session go when it has run out, no other session
// notices anything, and what was overwritten is a queue like others once the key is deleted.
func TestKeyThatIsOverwrittenUnderAHolder(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	lives := openSession(t, server.Endpoint(), time.Hour)
	overwrite := func(key string) error { return admin.Set(within(t, soon), key, "x", 0).Err() }
	for i, row := range []struct {
		key    string // of the path, the entry or the session
		of     func(path string, e driver.Entry, session string) string
		write  func(key string) error
		gone   bool // the entry is
		stays  bool // the key is not deleted
		strays bool // nothing tells any more what the session has
	}{
		{key: "x:", of: ofPath, write: overwrite},
		{key: "q:", of: ofPath, write: overwrite, gone: true},
		{key: "wu:", of: ofPath, write: overwrite},
		{key: "size:", of: ofPath, write: overwrite},
		{key: "size:", of: ofPath, stays: true, write: func(key string) error {
			return admin.HSet(within(t, soon), key, "held", "many", "granted", "-").Err()
		}},
		{key: "w:", of: func(_ string, e driver.Entry, _ string) string { return e.ID }, write: overwrite},
		{key: "e:", of: func(_ string, e driver.Entry, _ string) string { return e.ID }, write: overwrite, gone: true},
		{key: "ws:", of: ofSession, write: overwrite},
		{key: "s:", of: ofSession, write: overwrite, strays: true},
	} {
		for _, kind := range []driver.Kind{driver.Exclusive, driver.Permit} {
			name := fmt.Sprint(i, kind, " ", row.key)
			dies := openSession(t, server.Endpoint(), time.Hour)
			path := func(n int) string { return fmt.Sprintf("/over/%d/%s/%d", i, kind, n) }
			joins := func(in driver.Session, queue string) (driver.View, error) {
				return in.Create(within(t, soon), driver.Entry{Queue: queue, ID: in.NewID(queue, kind, 1), Kind: kind, Units: 1}, 0)
			}
			const paths = 9 // a set is read in no order: mostly some stand behind the one that was overwritten
			var holds driver.Entry
			for n := range paths {
				_, err := lives.SetRegister(within(t, soon), path(n), "1 1", 0, driver.Entry{})
				require.NoError(t, err, name)
				v, err := joins(dies, path(n))
				require.NoError(t, err, name)
				if n == 0 {
					holds = v.Self
				}
			}
			waits, err := joins(lives, path(0)) // so there is a note of who waits for what
			require.NoError(t, err, name)
			key := prefix + row.key + row.of(path(0), holds, dies.Name())
			require.NoError(t, row.write(key), name)
			_, err = lives.Find(within(t, soon), holds)
			require.Equal(t, row.gone, errors.Is(err, driver.ErrGone), "%s: %v", name, err)

			require.NoError(t, admin.ZAdd(within(t, soon), prefix+"sessions", client.Z{Member: dies.Name()}).Err())
			require.NoError(t, lives.Renew(within(t, soon), nil), "%s: whoever renews ends sessions that have run out", name)
			require.Error(t, admin.ZScore(within(t, soon), prefix+"sessions", dies.Name()).Err(), name)
			for n := 1; n < paths; n++ {
				v, err := joins(lives, path(n))
				require.NoError(t, err, name)
				if !row.strays {
					require.Empty(t, v.Entries, "%s: an entry of the session that has run out", name)
				}
				_, found, err := lives.Delete(within(t, soon), v.Self)
				require.NoError(t, err, name)
				require.True(t, found, name)
			}
			_, _, err = lives.Delete(within(t, soon), waits.Self)
			require.NoError(t, err, "%s: a waiter gives up", name)
			if row.strays {
				continue
			}
			if !row.stays {
				require.NoError(t, admin.Del(within(t, soon), key).Err())
			}
			if row.key == "size:" && !row.stays {
				_, err := lives.SetRegister(within(t, soon), path(0), "1 1", 0, driver.Entry{})
				require.NoError(t, err, name)
			}
			for range 2 {
				v, err := joins(lives, path(0))
				require.NoError(t, err, name)
				require.Empty(t, v.Entries, name)
				_, _, err = lives.Delete(within(t, soon), v.Self)
				require.NoError(t, err, name)
			}
		}
	}
}

func ofPath(path string, _ driver.Entry, _ string) string { return path }

func ofSession(_ string, _ driver.Entry, session string) string { return session }

// TestCrowdWhoseWaitersAreOverwrittenCostsNoOtherLock: the script that ends the session reads the crowd once at most, and not for each entry.
func TestCrowdWhoseWaitersAreOverwrittenCostsNoOtherLock(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	lives, dies := openSession(t, server.Endpoint(), time.Hour), openSession(t, server.Endpoint(), time.Hour)
	const path, crowd = "/crowd", 500
	_, err := lives.SetRegister(within(t, soon), path, "1 1", 0, driver.Entry{})
	require.NoError(t, err)
	for range crowd {
		joinUnits(t, dies, path, 1)
	}
	require.NoError(t, admin.Set(within(t, soon), prefix+"wu:"+path, "x", 0).Err())
	require.NoError(t, admin.ZAdd(within(t, soon), prefix+"sessions", client.Z{Member: dies.Name()}).Err())
	require.NoError(t, admin.ConfigResetStat(within(t, soon)).Err())
	require.NoError(t, lives.Renew(within(t, soon), nil))
	require.Zero(t, admin.Exists(within(t, soon), prefix+"q:"+path).Val())
	require.NoError(t, admin.Del(within(t, soon), prefix+"wu:"+path).Err())
	joinUnits(t, lives, path, 1)
	stats, err := admin.InfoMap(within(t, soon), "commandstats").Result()
	require.NoError(t, err)
	var reads int
	_, err = fmt.Sscanf(stats["Commandstats"]["cmdstat_hmget"], "calls=%d,", &reads)
	require.NoError(t, err)
	require.Less(t, reads, 3*crowd)
}

// TestUnitsAreCountedAnew where an account is lost beside entries: none is granted beyond the size, and in the end all units are there.
func TestUnitsAreCountedAnew(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	for i, key := range []string{"wu:", "size:"} {
		for leaves := range 3 {
			path, name := fmt.Sprintf("/anew/%d/%d", i, leaves), fmt.Sprint(key, leaves)
			declare := func() {
				_, err := in.SetRegister(within(t, soon), path, "3 3", 0, driver.Entry{})
				require.NoError(t, err, name)
			}
			declare()
			// Two hold, and behind them are one that asks for more than there is, as while a size is declared anew, and a waiter.
			all := []driver.Entry{
				joinUnits(t, in, path, 1), joinUnits(t, in, path, 1), joinUnits(t, in, path, math.MaxInt64), joinUnits(t, in, path, 1),
			}
			require.NoError(t, admin.Set(within(t, soon), prefix+key+path, "x", 0).Err(), name)
			leave := func(n int) {
				_, found, err := in.Delete(within(t, soon), all[n])
				require.NoError(t, err, name)
				require.True(t, found, name)
			}
			leave(3)
			for n := range leaves {
				leave(n)
			}
			require.NoError(t, admin.Del(within(t, soon), prefix+key+path).Err(), name)
			if key == "size:" {
				declare()
			}
			if leaves == 2 {
				all[1] = joinUnits(t, in, path, 1) // behind the third
			}
			leave(2)
			three := joinUnits(t, in, path, 3)
			v, err := in.Ahead(within(t, soon), three, true)
			require.NoError(t, err, name)
			require.NotZero(t, v.Entries[0].Units, "%s: three units are granted beside one that is held", name)
			for n := min(leaves, 1); n < 2; n++ {
				leave(n)
			}
			joinUnits(t, in, path, 1)
			_, _, err = in.Delete(within(t, soon), three)
			require.NoError(t, err, name)
			v, err = in.Ahead(within(t, soon), joinUnits(t, in, path, 2), true)
			require.NoError(t, err, name)
			require.Zero(t, v.Entries[0].Units, "%s: all units are there again", name)
		}
	}
}

// joinUnits adds a permit to a queue.
func joinUnits(t *testing.T, in driver.Session, queue string, units int64) driver.Entry {
	t.Helper()
	e := driver.Entry{Queue: queue, ID: in.NewID(queue, driver.Permit, units), Kind: driver.Permit, Units: units}
	v, err := in.Create(within(t, soon), e, 0)
	require.NoError(t, err)
	return v.Self
}

// TestReleaseBesideAKeyThatIsOverwritten removes the entry, and says so.
func TestReleaseBesideAKeyThatIsOverwritten(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), fresh(time.Minute))
	for i, key := range []string{"q:", "x:", "wu:", "size:"} {
		path := fmt.Sprint("/release/", i)
		acquire := func() *farsync.Lease {
			lease, err := farsync.NewSemaphore(store, path, 1).Acquire(within(t, soon), 1)
			require.NoError(t, err, key)
			return lease
		}
		lease := acquire()
		require.NoError(t, admin.Set(within(t, soon), prefix+key+path, "x", 0).Err())
		require.NoError(t, lease.Release(), key)
		require.Zero(t, admin.Exists(within(t, soon), prefix+"e:"+lease.ID()).Val(), key)
		require.NoError(t, admin.Del(context.WithoutCancel(t.Context()), prefix+key+path).Err())
		require.NoError(t, acquire().Release(), key)
	}
}
