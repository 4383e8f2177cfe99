package redistest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
)

// TestEntryThatIsMovedInItsQueueByHand is not granted: its hash says where it stands. The server answers all others
// meanwhile.
func TestEntryThatIsMovedInItsQueueByHand(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	for _, k := range []driver.Kind{driver.Exclusive, driver.Write, driver.Candidate} {
		for _, score := range []string{"1", "-1", "-inf"} {
			path := fmt.Sprint("/moved/", k, score)
			held := create(t, in, path, k).Self
			waits := create(t, in, path, k).Self
			waits.Units = 1
			require.NoError(t, admin.Do(within(t, soon), "ZADD", prefix+"q:"+path, score, waits.ID).Err())
			v, err := in.Ahead(within(t, soon), waits, true)
			require.NoError(t, err, path)
			require.NotEmpty(t, v.Entries, path)
			require.Equal(t, held.ID, v.Entries[0].ID)
			_, _, err = in.Delete(within(t, soon), held)
			require.NoError(t, err)
			v, err = in.Ahead(within(t, soon), waits, true)
			require.NoError(t, err, path)
			require.Empty(t, v.Entries, path)
		}
	}
}

// TestEntryWhoseRevisionIsOverwritten is gone, and in nobody's way.
func TestEntryWhoseRevisionIsOverwritten(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	for _, k := range []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Permit} {
		for _, text := range []string{"", "abc", "-1", "1.5", "1e300", "nan"} {
			path := fmt.Sprint("/revision/", k, text)
			if k == driver.Permit {
				_, err := in.SetRegister(within(t, soon), path, "1 1", 0, driver.Entry{})
				require.NoError(t, err)
			}
			e := create(t, in, path, k).Self
			next := k
			if k == driver.Read {
				next = driver.Write
			}
			waits := create(t, in, path, next).Self
			e.Units, waits.Units = 1, 1
			require.NoError(t, admin.HSet(within(t, soon), prefix+"e:"+e.ID, "revision", text).Err())
			_, err := in.Ahead(within(t, soon), e, true)
			require.ErrorIs(t, err, driver.ErrGone, path)
			v, err := in.Ahead(within(t, soon), waits, true)
			require.NoError(t, err, path)
			require.Empty(t, v.Entries, path)
		}
	}
}

// TestPermitThatHasNoUnitsAnyMore is out of the way, also where the set beside the queue is deleted.
func TestPermitThatHasNoUnitsAnyMore(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	for _, keys := range [][]string{{"x:"}, {"x:", "q:"}, {}} {
		path := fmt.Sprint("/units/", len(keys))
		_, err := in.SetRegister(within(t, soon), path, "1 1", 0, driver.Entry{})
		require.NoError(t, err)
		held := create(t, in, path, driver.Permit).Self
		waits := create(t, in, path, driver.Permit).Self
		require.NoError(t, admin.HDel(within(t, soon), prefix+"e:"+waits.ID, "units").Err())
		for _, key := range keys {
			require.NoError(t, admin.Del(within(t, soon), prefix+key+path).Err())
		}
		_, _, err = in.Delete(within(t, soon), held)
		require.NoError(t, err, path)
		require.Empty(t, create(t, in, path, driver.Permit).Entries, path)
	}
}

// TestJoinAfterDamageCostsAsMuchAsBefore: no key that others deleted leaves behind it that each join reads all sessions.
func TestJoinAfterDamageCostsAsMuchAsBefore(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	for i := range 20 {
		create(t, openSession(t, server.Endpoint(), time.Hour), fmt.Sprint("/other/", i), driver.Exclusive)
	}
	price := func() (n int) {
		for _, calls := range commands(t, admin) {
			n -= calls
		}
		e := create(t, in, "/damaged", driver.Exclusive).Self
		_, _, err := in.Delete(within(t, soon), e)
		require.NoError(t, err)
		for _, calls := range commands(t, admin) {
			n += calls
		}
		return n
	}
	price()
	before := price()
	gone := create(t, in, "/damaged", driver.Exclusive).Self
	require.NoError(t, admin.Del(within(t, soon), prefix+"q:/damaged", prefix+"e:"+gone.ID).Err())
	price()
	require.Equal(t, before, price())
	require.Zero(t, admin.Exists(within(t, soon), prefix+"x:/damaged").Val())
}

// TestSessionThatEndsAfterDamageReadsTheOthersOnce, however many of its queues are missing: the server answers nobody
// meanwhile.
func TestSessionThatEndsAfterDamageReadsTheOthersOnce(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	const many = 30
	for _, beside := range []bool{false, true} {
		ends, stays := openSession(t, server.Endpoint(), time.Hour), openSession(t, server.Endpoint(), time.Hour)
		var left []driver.Entry
		for i := range many {
			path := fmt.Sprint("/damaged/", beside, i)
			create(t, ends, path, driver.Read)
			left = append(left, create(t, stays, path, driver.Read).Self)
			create(t, openSession(t, server.Endpoint(), time.Hour), fmt.Sprint("/other/", beside, i), driver.Read)
			keys := []string{prefix + "q:" + path}
			if beside {
				keys = append(keys, prefix+"x:"+path)
			}
			require.NoError(t, admin.Del(within(t, soon), keys...).Err())
		}
		before := commands(t, admin)
		require.NoError(t, ends.Close(within(t, soon)))
		after := commands(t, admin)
		require.Less(t, after["smembers"]-before["smembers"], 5*many)
		require.Less(t, after["hmget"]-before["hmget"], 10*many)
		for _, e := range left {
			require.NotEmpty(t, create(t, stays, e.Queue, driver.Write).Entries)
		}
	}
}

// TestRenewalWhereMemoryIsFullAndTheRecordIsShort: a renewal writes the record, and takes something away before.
func TestRenewalWhereMemoryIsFullAndTheRecordIsShort(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	held := create(t, in, "/held", driver.Exclusive).Self
	for _, lost := range []bool{false, true} {
		require.NoError(t, admin.HSet(within(t, soon), prefix+"server", "ttl", "1000000").Err())
		if lost {
			require.NoError(t, admin.Del(within(t, soon), prefix+"sessions").Err())
		}
		require.NoError(t, admin.ConfigSet(within(t, soon), "maxmemory", "1").Err())
		require.NoError(t, in.Renew(within(t, soon), nil), lost)
		require.NoError(t, admin.ConfigSet(within(t, soon), "maxmemory", "0").Err())
		ttl, err := admin.HGet(within(t, soon), prefix+"server", "ttl").Int64()
		require.NoError(t, err)
		require.Equal(t, time.Hour.Microseconds(), ttl)
	}
	_, err := in.Find(within(t, soon), held)
	require.NoError(t, err)
}
