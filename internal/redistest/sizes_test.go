package redistest_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
)

// countable is the most units that a semaphore may have: the numbers of Redis's scripts are exact up to it.
const countable = 1<<53 - 1

// TestSemaphoreAsLargeAsCanBeCounted: while one unit is held, all of them are not granted, and all of them when it is free.
func TestSemaphoreAsLargeAsCanBeCounted(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	in := openSession(t, server.Endpoint(), time.Hour)
	_, err := in.SetRegister(within(t, soon), "/large", sizeOf(countable), 0, driver.Entry{})
	require.NoError(t, err)
	for _, units := range []int64{1, countable} {
		first, next := permit("/large", units, in), permit("/large", countable, in)
		v, err := in.Create(within(t, soon), first, 0)
		require.NoError(t, err)
		require.Empty(t, v.Entries)
		newcomer := driver.Entry{Queue: "/large", Kind: driver.Permit, Units: countable}
		for _, look := range []func() (driver.View, error){
			func() (driver.View, error) { return in.Ahead(within(t, soon), newcomer, true) },
			func() (driver.View, error) { return in.Create(within(t, soon), next, 0) },
			func() (driver.View, error) { return in.Ahead(within(t, soon), next, true) },
		} {
			v, err := look()
			require.NoError(t, err)
			require.Len(t, v.Entries, 1)
			require.Positive(t, v.Entries[0].Units, "it waits")
		}
		_, _, err = in.Delete(within(t, soon), first)
		require.NoError(t, err)
		v, err = in.Ahead(within(t, soon), next, true)
		require.NoError(t, err)
		require.Empty(t, v.Entries)
		_, _, err = in.Delete(within(t, soon), next)
		require.NoError(t, err)
	}
	account, err := newClient(t, server.Endpoint()).HMGet(within(t, soon), prefix+"size:/large", "held", "granted").Result()
	require.NoError(t, err)
	require.Equal(t, []any{"0", "0"}, account)
}

// TestSizesThatCannotBeCountedAreRefused: numbers in Redis's scripts are rounded above 2^53, and units of a size beyond it were
// granted twice.
func TestSizesThatCannotBeCountedAreRefused(t *testing.T) {
	t.Parallel()
	const words = "redis counts up to 9007199254740991 units"
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), fresh(0))
	nothingLeft := func(path string) { // what was refused is removed in the background
		require.Eventually(t, func() bool {
			return admin.Exists(within(t, soon), prefix+"q:"+path).Val() == 0
		}, soon, time.Millisecond)
	}
	for _, size := range []int64{countable + 1, 1 << 60, math.MaxInt64} {
		path := "/large/" + strconv.FormatInt(size, 10)
		sem := farsync.NewSemaphore(store, path, size)
		for _, units := range []int64{1, size} {
			_, err := sem.Acquire(within(t, soon), units)
			require.ErrorContains(t, err, words)
			require.NotErrorIs(t, err, farsync.ErrUnavailable)
			_, err = sem.TryAcquire(within(t, soon), units)
			require.ErrorContains(t, err, words)
		}
		require.ErrorContains(t, sem.Resize(within(t, soon), size), words)
		nothingLeft(path)

		// A size that another program has written is not computed with.
		require.NoError(t, admin.HSet(within(t, soon), prefix+"size:"+path,
			"value", sizeOf(size), "current", size, "version", 1).Err())
		_, err := sem.Acquire(within(t, soon), 1)
		require.ErrorContains(t, err, words)
		_, err = sem.TryAcquire(within(t, soon), 1)
		require.ErrorContains(t, err, words)
		nothingLeft(path)

		// One that waits when it is written is refused, too.
		admin.Del(within(t, soon), prefix+"size:"+path)
		in := openSession(t, server.Endpoint(), time.Hour)
		_, err = in.SetRegister(within(t, soon), path, sizeOf(1), 0, driver.Entry{})
		require.NoError(t, err)
		held, waits := create(t, in, path, driver.Permit).Self, create(t, in, path, driver.Permit).Self
		require.NoError(t, admin.HSet(within(t, soon), prefix+"size:"+path,
			"value", sizeOf(size), "current", size, "version", 2).Err())
		_, err = in.Ahead(within(t, soon), waits, true)
		require.ErrorContains(t, err, words)
		for _, e := range []driver.Entry{waits, held} {
			_, found, err := in.Delete(within(t, soon), e)
			require.NoError(t, err)
			require.True(t, found)
		}

		// A Resize mends it.
		require.NoError(t, sem.Resize(within(t, soon), 1))
		_, err = sem.Acquire(within(t, soon), size)
		require.ErrorIs(t, err, farsync.ErrTooLarge)
		nothingLeft(path)
		lease, err := sem.Acquire(within(t, soon), 1)
		require.NoError(t, err)
		require.NoError(t, lease.Release())
		require.Equal(t, []any{"0", "0"}, admin.HMGet(within(t, soon), prefix+"size:"+path, "held", "granted").Val())
	}
}

func sizeOf(n int64) string { return strconv.FormatInt(n, 10) + " " + strconv.FormatInt(n, 10) }

func permit(queue string, units int64, in driver.Session) driver.Entry {
	return driver.Entry{Queue: queue, Kind: driver.Permit, Units: units, ID: in.NewID(queue, driver.Permit, units)}
}
