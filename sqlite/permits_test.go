//go:build unix

package sqlite

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// TestPermitsThatAreLetIn: what goes tells those that fit and did not fit before, and a size that is set tells all.
func TestPermitsThatAreLetIn(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	in := newSessionIn(t, file, nil)
	by := newOperator(t, file)
	for n, scene := range []struct {
		size  int
		units []int64
		goes  int
		lets  []int
	}{
		{2, []int64{1, 1, 1, 1}, 0, []int{2}},
		{2, []int64{1, 1, 1, 1}, 1, []int{2}},
		{2, []int64{1, 1, 1, 1}, 2, nil},
		{2, []int64{2, 1, 1, 1}, 0, []int{1, 2}},
		{2, []int64{1, 2, 1}, 1, []int{2}},
		{3, []int64{2, 1, 2, 1}, 0, []int{2}},
		{3, []int64{2, 1, 2, 1}, 1, nil},
		{3, []int64{1, 1, 1, 3, 1}, 3, nil},
		{9, []int64{1, 1, 1}, 0, nil},
	} {
		queue := fmt.Sprint("/let/in/", n)
		register, err := in.SetRegister(within(t, soon), queue, fmt.Sprintf("%d %d", scene.size, scene.size), 0, driver.Entry{})
		require.NoError(t, err)
		var ids []string
		for _, units := range scene.units {
			e := driver.Entry{Queue: queue, ID: rand.Text(), Kind: driver.Permit, Units: units}
			_, err := in.Create(within(t, soon), e, 0)
			require.NoError(t, err)
			ids = append(ids, e.ID)
		}
		told := map[string]bool{}
		tx, err := by.db.BeginTx(within(t, soon), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(within(t, soon), "DELETE FROM farsync_entries WHERE id = ?", ids[scene.goes])
		require.NoError(t, err)
		rows, err := tx.QueryContext(within(t, soon), "SELECT name FROM farsync_told")
		require.NoError(t, err)
		for rows.Next() {
			var name string
			require.NoError(t, rows.Scan(&name))
			told[name] = name != ids[scene.goes] // which tells whoever is next behind, as for any other entry
		}
		require.NoError(t, rows.Err())
		require.NoError(t, tx.Rollback())
		for i, id := range ids {
			var is bool
			for _, one := range scene.lets {
				is = is || one == i
			}
			require.Equal(t, is, told[id], "%+v: %d", scene, i)
		}
		_, err = in.SetRegister(within(t, soon), queue, fmt.Sprintf("%d 20", scene.size), register, driver.Entry{})
		require.NoError(t, err)
		v, err := in.Ahead(within(t, soon), driver.Entry{Queue: queue, ID: ids[len(ids)-1], Kind: driver.Permit, Units: 1}, true)
		require.NoError(t, err)
		require.Len(t, v.Entries, 1)
		require.Zero(t, v.Entries[0].Units, "all fit")
	}
}

// TestPermitThatWaitsWritesNothing: a waiter writes no rows. It wakes when units come free, and when the size changes.
func TestPermitThatWaitsWritesNothing(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	holder, waiter := newSessionIn(t, file, nil), newSessionIn(t, file, nil)
	by := newOperator(t, file)
	join := func(s *session, units int64) driver.View {
		v, err := s.Create(within(t, soon), driver.Entry{Queue: "/turns", ID: rand.Text(), Kind: driver.Permit, Units: units}, 0)
		require.NoError(t, err)
		return v
	}
	size, err := holder.SetRegister(within(t, soon), "/turns", "2 2", 0, driver.Entry{})
	require.NoError(t, err)
	first, _ := join(holder, 1), join(holder, 1)
	for _, moves := range []func() error{
		func() error { _, _, err := holder.Delete(within(t, soon), first.Self); return err },
		func() (err error) {
			size, err = holder.SetRegister(within(t, soon), "/turns", "2 3", size, driver.Entry{})
			return err
		},
	} {
		v := join(waiter, 1)
		require.Len(t, v.Entries, 1)
		require.NotZero(t, v.Entries[0].Units)
		on := []driver.Target{{Entry: v.Entries[0]}, {What: driver.Registered, Entry: driver.Entry{Queue: "/turns", Version: v.Register.Version}}}
		stands, done := make(chan struct{}), make(chan error, 1)
		go func() { // joined by what is received from done
			_, err := waiter.Watch(within(t, soon), v.Self, on, func() { close(stands) })
			done <- err
		}()
		<-stands
		var rows int
		require.NoError(t, by.db.QueryRowContext(within(t, soon), "SELECT count(*) FROM farsync_watches").Scan(&rows))
		require.Zero(t, rows)
		require.NoError(t, moves())
		require.NoError(t, <-done)
	}
}
