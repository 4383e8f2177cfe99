package redistest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
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

// TestEntryThatWasRemovedFromItsQueueByHand is gone, though its hash is there: the next is granted.
func TestEntryThatWasRemovedFromItsQueueByHand(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	e := driver.Entry{Queue: "/hand", ID: in.NewID("/hand", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1}
	v, err := in.Create(within(t, soon), e, 0)
	require.NoError(t, err)
	require.NoError(t, admin.ZRem(within(t, soon), prefix+"q:/hand", v.Self.ID).Err())
	_, err = in.Ahead(within(t, soon), v.Self, true)
	require.ErrorIs(t, err, driver.ErrGone)
	_, err = in.Find(within(t, soon), v.Self)
	require.ErrorIs(t, err, driver.ErrGone)
	for _, what := range []driver.What{driver.Gone, driver.Told, driver.Changed} {
		_, err = in.Watch(within(t, soon), driver.Entry{}, []driver.Target{{Entry: v.Self, What: what}}, func() { require.Fail(t, "it waits") })
		require.NoError(t, err)
	}
	_, err = in.Heard(within(t, soon), v.Self)
	require.ErrorIs(t, err, driver.ErrGone)
	_, _, err = in.Delete(within(t, soon), v.Self)
	require.NoError(t, err)
}

// TestHolderRemovedFromItsQueueByHand is told, although no message says so.
func TestHolderRemovedFromItsQueueByHand(t *testing.T) {
	suite.Long(t, suite.Redis, "a holder looks at its queue after 30 to 45 s")
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	lease, err := farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/hand").Lock(within(t, soon))
	require.NoError(t, err)
	store := newStore(t, server.Endpoint(), nil)
	next := farsync.NewMutex(store, "/hand")
	list, err := store.Participants(within(t, soon), "/hand")
	require.NoError(t, err)
	require.NoError(t, admin.ZRem(within(t, soon), prefix+"q:/hand", list[0].ID).Err())
	beside, err := next.Lock(within(t, soon))
	require.NoError(t, err)
	<-lease.Done()
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	require.NoError(t, beside.Release())
}

// TestKeyInThePlaceOfAQueue: who asks for a lock whose queue another program has overwritten is refused at once, in words that name
// the key, and waits for nothing; so is who waited there. Whoever lists the queue sees the key. All other locks go on.
func TestKeyInThePlaceOfAQueue(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	service := newService(t, server.Endpoint(), fresh(0))
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(context.WithoutCancel(t.Context())) })
	taken := func(k driver.Kind, queue string) error {
		e := driver.Entry{Queue: queue, ID: in.NewID(queue, k, 1), Kind: k, Units: 1}
		_, err := in.Create(within(t, soon), e, 0)
		return err
	}
	e := driver.Entry{Queue: "/hand", ID: in.NewID("/hand", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1}
	v, err := in.Create(within(t, soon), e, 0)
	require.NoError(t, err)
	key := prefix + "q:/hand"
	require.NoError(t, admin.Set(within(t, soon), key, "x", 0).Err())
	require.NoError(t, admin.Set(within(t, soon), prefix+"size:/size", "x", 0).Err())

	for _, k := range []driver.Kind{driver.Exclusive, driver.Read, driver.Write, driver.Permit, driver.Candidate} {
		err := taken(k, "/hand")
		require.ErrorContains(t, err, key, k)
		require.Equal(t, driver.Refused, service.Outcome(err), k)
		_, err = in.Ahead(within(t, soon), driver.Entry{Queue: "/hand", Kind: k, Units: 1}, true)
		require.ErrorContains(t, err, key, k)
		require.Equal(t, driver.Refused, service.Outcome(err), k)
	}
	_, err = in.Ahead(within(t, soon), v.Self, true)
	require.ErrorContains(t, err, key)
	err = taken(driver.Permit, "/size")
	require.ErrorContains(t, err, prefix+"size:/size")
	require.Equal(t, driver.Refused, service.Outcome(err))

	for key, kinds := range map[string][]driver.Kind{
		"x:/beside":  {driver.Exclusive, driver.Read, driver.Write, driver.Permit, driver.Candidate},
		"wu:/permit": {driver.Permit},
	} {
		require.NoError(t, admin.Set(within(t, soon), prefix+key, "x", 0).Err())
		for _, k := range kinds {
			_, queue, _ := strings.Cut(key, ":")
			err := taken(k, queue)
			require.ErrorContains(t, err, prefix+key, k)
			require.Equal(t, driver.Refused, service.Outcome(err), k)
			_, err = in.Ahead(within(t, soon), driver.Entry{Queue: queue, Kind: k, Units: 1}, true)
			require.ErrorContains(t, err, prefix+key, k)
			v, err := in.List(within(t, soon), queue, 0)
			require.NoError(t, err)
			require.Empty(t, v.Entries, "nothing is left")
		}
	}

	for _, list := range []func() (driver.View, error){
		func() (driver.View, error) { return in.List(within(t, soon), "/hand", 0) },
		func() (driver.View, error) { return in.Survey(within(t, soon), "/", "", 100) },
	} {
		v, err := list()
		require.NoError(t, err)
		require.Len(t, v.Entries, 1)
		require.Equal(t, driver.Entry{Queue: "/hand", ID: key, Kind: driver.Foreign, Units: 1, Value: []byte{}}, v.Entries[0])
	}
	require.NoError(t, taken(driver.Exclusive, "/other"))
	require.NoError(t, taken(driver.Exclusive, "/permit"), "a mutex needs no such key")
}
