package redistest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
)

// TestEntryWhoseHashWasRemovedByHand is out of the way, and lets none pass that others keep waiting.
func TestEntryWhoseHashWasRemovedByHand(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	for _, k := range []driver.Kind{driver.Exclusive, driver.Read, driver.Permit} {
		queue := "/hand/" + k.String()
		_, err := in.SetRegister(within(t, soon), queue, "1 1", 0, driver.Entry{})
		require.NoError(t, err)
		create := func(k driver.Kind) driver.Entry {
			e := driver.Entry{Queue: queue, ID: in.NewID(queue, k, 1), Kind: k, Units: 1}
			v, err := in.Create(within(t, soon), e, 0)
			require.NoError(t, err)
			return v.Self
		}
		first, second := k, k
		if k == driver.Read {
			first, second = driver.Write, driver.Write
		}
		holder, damaged := create(first), create(second)
		waiter := create(k)
		require.NoError(t, admin.Del(within(t, soon), prefix+"e:"+damaged.ID).Err())
		v, err := in.Ahead(within(t, soon), waiter, true)
		require.NoError(t, err)
		require.Len(t, v.Entries, 1, k)
		if k != driver.Permit {
			require.Equal(t, holder.ID, v.Entries[0].ID)
		} else {
			require.NotZero(t, v.Entries[0].Units)
		}
		list, err := in.List(within(t, soon), queue, 0)
		require.NoError(t, err)
		require.NotEmpty(t, list.Entries)
		_, found, err := in.Delete(within(t, soon), holder)
		require.NoError(t, err)
		require.True(t, found)
		v, err = in.Ahead(within(t, soon), waiter, true)
		require.NoError(t, err)
		if k != driver.Permit {
			require.Empty(t, v.Entries, k)
		}
	}
}
