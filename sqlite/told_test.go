//go:build unix

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/sqlstore"
)

// A standing is an entry of a queue as a test knows it.
type standing struct {
	id, session, kind string
	units             int
}

// grantedOf returns the permits that are granted in a queue of some size: the oldest, while their units fit.
func grantedOf(queue []standing, size int) (granted []string) {
	for _, e := range queue {
		if e.kind != "permit" || e.units > size {
			break
		}
		size -= e.units
		granted = append(granted, e.id)
	}
	return granted
}

// TestStepTellsWhoseWaitItMayEnd, in queues of all kinds in which entries of two sessions go: whoever has asked for one of these
// entries, the session of an entry whose nearest ahead goes, and permits that fit and did not before. Beside them it tells permits
// that hold already, and nobody else.
func TestStepTellsWhoseWaitItMayEnd(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	in, admin := newSessionIn(t, file, nil), newOperator(t, file)
	live, dead := []string{"a", "b", "c"}, []string{"x", "y"}
	for _, session := range slices.Concat(live, dead) {
		admin.crowd(t, session, "", "", 0)
	}
	must, may := map[[2]string]bool{}, map[[2]string]bool{}
	for q := range 200 {
		path, size := fmt.Sprint("/q/", q), rand.N(6)
		if size > 0 {
			admin.exec(t, "INSERT INTO farsync_registers VALUES (?, ?, 1)", path, fmt.Sprint(size, " ", size))
		}
		var queue, left []standing
		for i := range 1 + rand.N(8) {
			e := standing{fmt.Sprint(path, "/", i), live[rand.N(len(live))], "exclusive", 1 + rand.N(3)}
			if rand.N(2) == 0 {
				e.session = dead[rand.N(len(dead))]
			}
			if kinds := []string{"exclusive", "write", "read"}; size == 0 || rand.N(10) == 0 {
				e.kind = kinds[rand.N(len(kinds))]
			} else {
				e.kind = "permit"
			}
			goes := slices.Contains(dead, e.session)
			if asks := live[rand.N(len(live))]; rand.N(4) == 0 {
				admin.exec(t, "INSERT INTO farsync_watches VALUES (?, ?)", e.id, asks)
				must[[2]string{asks, e.id}] = goes
			}
			if i > 0 && !goes && slices.Contains(dead, queue[i-1].session) {
				must[[2]string{e.session, queue[i-1].id}] = true
			}
			admin.exec(t, "INSERT INTO farsync_entries (id, queue, session, kind, units) VALUES (?, ?, ?, ?, ?)", e.id, path, e.session, e.kind, e.units)
			queue = append(queue, e)
			if !goes {
				left = append(left, e)
			}
		}
		before := grantedOf(queue, size)
		for _, id := range grantedOf(left, size) {
			i := slices.IndexFunc(left, func(e standing) bool { return e.id == id })
			may[[2]string{left[i].session, id}] = slices.Contains(before, id)
			must[[2]string{left[i].session, id}] = must[[2]string{left[i].session, id}] || !slices.Contains(before, id)
		}
	}
	for _, session := range dead {
		admin.runsOut(t, session)
		must[[2]string{session, ""}] = true // the end of its row
	}
	told := map[[2]string]bool{}
	require.NoError(t, in.file.write(within(t, soon), func(ctx context.Context, tx *sql.Tx) error {
		err := in.file.perform(ctx, tx, func(sqlstore.Rows) error { return nil }, "bury", "[]")
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, "SELECT session, name FROM farsync_told")
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var what [2]string
			if err := rows.Scan(&what[0], &what[1]); err != nil {
				return err
			}
			told[what] = true
		}
		return rows.Err()
	}))
	require.Zero(t, admin.ask(t, "SELECT count(*) FROM farsync_entries WHERE session IN ('x', 'y') OR queue < '/'"))
	require.Zero(t, admin.ask(t, "SELECT count(*) FROM farsync_watches WHERE name NOT IN (SELECT id FROM farsync_entries)"))
	for what, is := range must {
		if is {
			require.True(t, told[what], "%v is told of %v", what[0], what[1])
		}
	}
	for what := range told {
		require.True(t, must[what] || may[what], "%v is told of %v", what[0], what[1])
	}
}
