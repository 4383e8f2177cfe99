package redistest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
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

// TestEntryThatIsTakenOutOfItsQueueByHand is put back by whoever looks for it, for its hash is there.
func TestEntryThatIsTakenOutOfItsQueueByHand(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in, other := openSession(t, server.Endpoint(), time.Hour), openSession(t, server.Endpoint(), time.Hour)
	e := create(t, in, "/hand", driver.Exclusive).Self
	next := create(t, other, "/hand", driver.Exclusive).Self
	next.Queue, next.Kind, next.Units = "/hand", driver.Exclusive, 1
	place := func() float64 { return admin.ZScore(within(t, soon), prefix+"q:/hand", e.ID).Val() }
	stood := place()
	for i, look := range []func() error{
		func() error { _, err := in.Ahead(within(t, soon), e, true); return err },
		func() error { _, err := in.Ahead(within(t, soon), e, false); return err },
		func() error { _, err := other.Ahead(within(t, soon), next, true); return err },
		func() error { // once more, for the answer was lost
			v, err := other.Create(within(t, soon), next, 0)
			require.NotEmpty(t, v.Entries)
			return err
		},
		func() error { _, err := other.Find(within(t, soon), e); return err },
		func() error { _, err := in.Heard(within(t, soon), e); return err },
		func() error {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := other.Watch(ctx, driver.Entry{}, []driver.Target{{Entry: e, What: driver.Gone}}, cancel)
			require.ErrorIs(t, err, context.Canceled)
			return nil
		},
	} {
		require.EqualValues(t, 1, admin.ZRem(within(t, soon), prefix+"q:/hand", e.ID).Val())
		require.NoError(t, look(), i)
		require.InDelta(t, stood, place(), 0, i)
	}
}

// TestReaderWhoIsTakenOutOfTheQueueByHand: the set of writers does not show the reader, so the writer behind it is
// granted. Whoever looks for the reader then removes it, and its holder is told at once.
func TestReaderWhoIsTakenOutOfTheQueueByHand(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	reader := create(t, in, "/hand", driver.Read).Self
	writer := create(t, in, "/hand", driver.Write).Self
	told := make(chan error, 1)
	stands := make(chan struct{})
	go func() { // joined below
		_, err := in.Watch(within(t, soon), driver.Entry{}, []driver.Target{{Entry: reader, What: driver.Gone}}, func() { close(stands) })
		told <- err
	}()
	<-stands
	require.NoError(t, admin.ZRem(within(t, soon), prefix+"q:/hand", reader.ID).Err())
	writer.Units = 1
	v, err := in.Ahead(within(t, soon), writer, true)
	require.NoError(t, err)
	require.Empty(t, v.Entries)
	_, err = in.Find(within(t, soon), reader)
	require.ErrorIs(t, err, driver.ErrGone)
	require.NoError(t, <-told)
	require.Zero(t, admin.Exists(within(t, soon), prefix+"e:"+reader.ID).Val())
	_, err = in.Find(within(t, soon), writer)
	require.NoError(t, err)
}

// TestHolderWhoIsTakenOutOfTheQueueKeepsOthersWaiting until the release, and is told nothing.
func TestHolderWhoIsTakenOutOfTheQueueKeepsOthersWaiting(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	store, other := newStore(t, server.Endpoint(), fresh(time.Hour)), newStore(t, server.Endpoint(), fresh(time.Hour))
	lease := lock(t, store, "/hand")
	require.EqualValues(t, 1, admin.ZRem(within(t, soon), prefix+"q:/hand", lease.ID()).Val())
	_, err := farsync.NewMutex(other, "/hand").TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.EqualValues(t, 1, admin.ZRem(within(t, soon), prefix+"q:/hand", lease.ID()).Val(), "it was put back")
	next := locktest.LockBehind(t, other, "/hand")
	locktest.AwaitQueue(t, other, "/hand", 2)
	require.Empty(t, next)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
	require.NoError(t, locktest.Got(t, next).Release())
}

// TestKeyInThePlaceOfAQueue: who asks for a lock whose queue another program has overwritten is refused at once, in
// words that name the key, and waits for nothing; so is who waited there. Whoever lists the queue sees the key. All
// other locks go on.
func TestKeyInThePlaceOfAQueue(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	service := newService(t, server.Endpoint(), fresh(0))
	in := openOn(t, service, time.Hour)
	taken := func(k driver.Kind, queue string) error {
		_, err := join(t, in, queue, k)
		return err
	}
	v := create(t, in, "/hand", driver.Exclusive)
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
	_, err := in.Ahead(within(t, soon), v.Self, true)
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

// TestWriterWhoIsTakenOutOfTheSetLetsNoReaderIn, for the queue still has the writer at its head; nor does a writer whose
// hash says by hand that it is a reader, for the set has it still. The release lets the readers in.
func TestWriterWhoIsTakenOutOfTheSetLetsNoReaderIn(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in, other := openSession(t, server.Endpoint(), time.Hour), openSession(t, server.Endpoint(), time.Hour)
	for name, change := range map[string]func(path string, e driver.Entry) error{
		"x": func(path string, e driver.Entry) error {
			return admin.ZRem(within(t, soon), prefix+"x:"+path, e.ID).Err()
		},
		"e": func(_ string, e driver.Entry) error {
			return admin.HSet(within(t, soon), prefix+"e:"+e.ID, "kind", "read").Err()
		},
	} {
		path := "/hand/" + name
		waits := func(e driver.Entry) []driver.Entry {
			v, err := other.Ahead(within(t, soon), driver.Entry{Queue: path, ID: e.ID, Kind: driver.Read, Units: 1}, true)
			require.NoError(t, err)
			return v.Entries
		}
		writer := create(t, in, path, driver.Write).Self
		reader := create(t, other, path, driver.Read).Self
		for i, look := range []func() []driver.Entry{
			func() []driver.Entry { return waits(reader) },
			func() []driver.Entry { return waits(driver.Entry{}) },
			func() []driver.Entry { return create(t, other, path, driver.Read).Entries },
		} {
			require.NoError(t, change(path, writer))
			ahead := look()
			require.Len(t, ahead, 1, "%s %d", name, i)
			require.Equal(t, writer.ID, ahead[0].ID)
			require.Equal(t, driver.Write, ahead[0].Kind, "%s %d", name, i)
		}
		_, found, err := in.Delete(within(t, soon), writer)
		require.NoError(t, err)
		require.True(t, found)
		require.Empty(t, waits(reader), name)
		require.Empty(t, create(t, other, path, driver.Read).Entries, name)
	}
}

// TestLookOfAReaderEnds, whatever another program has written about the writer at the head: a script without end would
// keep the server from all clients, and could not be killed.
func TestLookOfAReaderEnds(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in, other := openSession(t, server.Endpoint(), time.Hour), openSession(t, server.Endpoint(), time.Hour)
	for name, change := range map[string]func(path string, writer, reader driver.Entry) error{
		"moved": func(_ string, writer, _ driver.Entry) error {
			return admin.HSet(within(t, soon), prefix+"e:"+writer.ID, "queue", "/else").Err()
		},
		"moved, and not in the set": func(path string, writer, _ driver.Entry) error {
			return errors.Join(admin.HSet(within(t, soon), prefix+"e:"+writer.ID, "queue", "/else").Err(),
				admin.ZRem(within(t, soon), prefix+"x:"+path, writer.ID).Err())
		},
		"at the place of the reader": func(path string, writer, reader driver.Entry) error {
			score := admin.ZScore(within(t, soon), prefix+"q:"+path, reader.ID).Val()
			return errors.Join(admin.ZRem(within(t, soon), prefix+"x:"+path, writer.ID).Err(),
				admin.ZAdd(within(t, soon), prefix+"q:"+path, client.Z{Score: score, Member: writer.ID}).Err())
		},
	} {
		path := "/ends/" + strings.ReplaceAll(strings.ReplaceAll(name, ",", ""), " ", "-")
		writer := create(t, in, path, driver.Write).Self
		reader := create(t, other, path, driver.Read).Self
		require.NoError(t, change(path, writer, reader))
		for range 2 {
			_, err := other.Ahead(within(t, soon), driver.Entry{Queue: path, ID: reader.ID, Kind: driver.Read, Units: 1}, true)
			t.Logf("%s: %v", name, err)
			require.NotErrorIs(t, err, context.DeadlineExceeded, name)
			require.NoError(t, admin.Ping(within(t, soon)).Err(), name)
		}
	}
}
