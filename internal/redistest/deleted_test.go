package redistest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
)

// TestKeyThatIsDeletedUnderWaitersGrantsNothing: whatever is deleted of a semaphore, its holders go on, its waiters wait, and they are
// served in turn.
func TestKeyThatIsDeletedUnderWaitersGrantsNothing(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	const size = 3
	for i, row := range []struct {
		keys    []string
		looks   bool // the waiters look before anybody leaves
		givesUp bool // a waiter gives up before it has looked
	}{
		{keys: []string{"wu:"}, looks: true},
		{keys: []string{"wu:"}},
		{keys: []string{"wu:"}, givesUp: true},
		{keys: []string{"size:"}},
		{keys: []string{"size:"}, looks: true},
		{keys: []string{"size:"}, givesUp: true},
		{keys: []string{"wu:", "size:"}},
		{keys: []string{"wu:", "size:"}, looks: true},
		{keys: []string{"wu:", "size:"}, givesUp: true},
		{keys: []string{"wu:", "size:", "x:"}},
	} {
		name, path := fmt.Sprint(row), fmt.Sprint("/deleted/", i)
		declare := func() {
			_, err := in.SetRegister(within(t, soon), path, fmt.Sprint(size, " ", size), 0, driver.Entry{})
			require.NoError(t, err, name)
		}
		declare()
		var all []driver.Entry // in the order of the queue
		for _, units := range []int64{2, 1, 1, 2, 1, 3} {
			all = append(all, joinUnits(t, in, path, units))
		}
		// The looks of all must agree on who holds. To be believed where nothing is ahead is no proof.
		hold := func(n int) {
			t.Helper()
			for i, e := range all {
				v, err := in.Ahead(within(t, soon), e, true)
				require.NoError(t, err, name)
				granted := len(v.Entries) == 0 || v.Entries[0].Units == 0
				require.Equal(t, i < n, granted, "%s: %d of %d, %d units", name, i, len(all), e.Units)
			}
		}
		leave := func(i int) {
			t.Helper()
			_, found, err := in.Delete(within(t, soon), all[i])
			require.NoError(t, err, name)
			require.True(t, found, name)
			all = append(all[:i:i], all[i+1:]...)
		}
		account := func() []any {
			return admin.HMGet(within(t, soon), prefix+"size:"+path, "held", "granted").Val()
		}
		hold(2)
		for _, key := range row.keys {
			require.EqualValues(t, 1, admin.Del(within(t, soon), prefix+key+path).Val(), "%s: %s", name, key)
		}
		if len(row.keys) > 1 || row.keys[0] == "size:" {
			declare()
		}
		if row.looks {
			hold(2)
		}
		if row.givesUp {
			leave(4)
		} else {
			all = append(all, joinUnits(t, in, path, 1)) // behind all that are missing
		}
		leave(1)
		require.NotEmpty(t, admin.HGet(within(t, soon), prefix+"e:"+all[1].ID, "granted").Val(),
			"%s: the next is granted, and so told, without a look", name)
		hold(2)
		require.Equal(t, []any{"3", "2"}, account(), name)
		leave(0) // 2 units: 1, 2
		hold(2)
		leave(0)
		if !row.givesUp {
			hold(2) // 2, 1
			leave(0)
		}
		leave(0) // 3 units wait for all
		hold(1)
		leave(0)
		hold(len(all))
		for len(all) > 0 {
			leave(0)
		}
		require.Equal(t, []any{"0", "0"}, account(), name)
		require.Zero(t, admin.Exists(within(t, soon), prefix+"q:"+path, prefix+"wu:"+path, prefix+"x:"+path).Val(), name)
	}
}

// TestHolderWhoIsOutOfItsQueueIsTakenFromNoCountTwice: its units are taken from the count that they are in, or from none.
func TestHolderWhoIsOutOfItsQueueIsTakenFromNoCountTwice(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	for _, counted := range []bool{true, false} {
		path := fmt.Sprint("/twice/", counted)
		declare := func() {
			_, err := in.SetRegister(within(t, soon), path, "2 2", 0, driver.Entry{})
			require.NoError(t, err)
		}
		declare()
		out, holds := joinUnits(t, in, path, 1), joinUnits(t, in, path, 1)
		require.NoError(t, admin.ZRem(within(t, soon), prefix+"q:"+path, out.ID).Err())
		waits := joinUnits(t, in, path, 2)
		if !counted {
			require.NoError(t, admin.Del(within(t, soon), prefix+"size:"+path).Err())
			declare() // which counts what stands in the queue
		}
		_, found, err := in.Delete(within(t, soon), out)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, []any{"1", "1"}, admin.HMGet(within(t, soon), prefix+"size:"+path, "held", "granted").Val())
		v, err := in.Ahead(within(t, soon), waits, true)
		require.NoError(t, err)
		require.NotZero(t, v.Entries[0].Units, "beside a unit that is held")
		_, _, err = in.Delete(within(t, soon), holds)
		require.NoError(t, err)
		require.Equal(t, []any{"2", "1"}, admin.HMGet(within(t, soon), prefix+"size:"+path, "held", "granted").Val())
	}
}

// TestCrowdWhoseWaitersAreDeletedPutsItselfBack, at a cost for each look that does not depend on how many there are.
func TestCrowdWhoseWaitersAreDeletedPutsItselfBack(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	total := func() (n int) {
		for _, calls := range commands(t, admin) {
			n += calls
		}
		return n
	}
	var cost []int
	for _, crowd := range []int{20, 200} {
		path := fmt.Sprint("/crowd/", crowd)
		_, err := in.SetRegister(within(t, soon), path, "1 1", 0, driver.Entry{})
		require.NoError(t, err)
		holder := joinUnits(t, in, path, 1)
		var waiters []driver.Entry
		for range crowd {
			waiters = append(waiters, joinUnits(t, in, path, 1))
		}
		require.NoError(t, admin.Del(within(t, soon), prefix+"wu:"+path).Err())
		look := func() int {
			before := total()
			_, err := in.Ahead(within(t, soon), waiters[len(waiters)-1], true)
			require.NoError(t, err)
			return total() - before
		}
		cost = append(cost, look())
		for _, e := range waiters {
			_, err := in.Ahead(within(t, soon), e, true)
			require.NoError(t, err)
		}
		require.EqualValues(t, crowd, admin.ZCard(within(t, soon), prefix+"wu:"+path).Val())
		_, _, err = in.Delete(within(t, soon), holder)
		require.NoError(t, err)
	}
	require.Equal(t, cost[0], cost[1])
}

// TestSetOfWritersThatIsDeletedLetsNoReaderIn beside a writer, who is ahead of the reader in the queue.
func TestSetOfWritersThatIsDeletedLetsNoReaderIn(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	const path = "/rw"
	look := func(e driver.Entry) string {
		t.Helper()
		e.Queue, e.Units = path, 1
		v, err := in.Ahead(within(t, soon), e, true)
		require.NoError(t, err)
		if len(v.Entries) == 0 {
			return ""
		}
		return v.Entries[0].ID
	}
	leave := func(e driver.Entry) {
		_, found, err := in.Delete(within(t, soon), e)
		require.NoError(t, err)
		require.True(t, found)
	}
	early := create(t, in, path, driver.Read).Self
	writer := create(t, in, path, driver.Write).Self
	reader, second := create(t, in, path, driver.Read).Self, create(t, in, path, driver.Read).Self
	next := create(t, in, path, driver.Write).Self
	last := create(t, in, path, driver.Read).Self
	deleted := func() { require.NoError(t, admin.Del(within(t, soon), prefix+"x:"+path).Err()) }
	for _, e := range []driver.Entry{early, reader, second, last, {Kind: driver.Read}} {
		deleted()
		want := map[string]string{early.ID: "", reader.ID: writer.ID, second.ID: writer.ID, last.ID: next.ID, "": writer.ID}[e.ID]
		require.Equal(t, want, look(e))
		require.Equal(t, want, look(e), "and once more")
	}
	deleted()
	later := create(t, in, path, driver.Write).Self // the only entry of the set then
	require.Equal(t, writer.ID, look(reader))
	require.Equal(t, writer.ID, look(driver.Entry{Kind: driver.Read}))
	leave(early)
	leave(writer)
	require.Empty(t, look(reader))
	require.Equal(t, next.ID, look(last))
	deleted()
	leave(next) // which is in no set
	require.Empty(t, look(last))

	// A queue that is deleted, and joined anew: who stood there stands ahead.
	require.NoError(t, admin.Del(within(t, soon), prefix+"q:"+path).Err())
	behind := create(t, in, path, driver.Read).Self
	require.Equal(t, later.ID, look(behind))
	leave(later)
	require.Empty(t, look(behind))
	for _, e := range []driver.Entry{reader, second, last, behind} {
		leave(e)
	}
	require.Zero(t, admin.Exists(within(t, soon), prefix+"q:"+path, prefix+"x:"+path).Val())
}
