package mysqltest_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/sqlstore"
)

// TestReleaseDoesNotStandBehindJoins: joins of a queue take turns at the queue's row. While another client keeps that row, and all joins of
// a Store wait, the Store sends one join, and deletes an entry of the same queue.
func TestReleaseDoesNotStandBehindJoins(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	_, in := d.session(t, d.dsn(), time.Hour)
	held := exclusive(t, in, "/kept")
	end := d.keep(t, turnOfTheQueue)
	ctx, leave := context.WithCancel(t.Context())
	var joins sync.WaitGroup
	for range 8 {
		joins.Go(func() {
			e := driver.Entry{Queue: "/kept", ID: in.NewID("/kept", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1}
			for ctx.Err() == nil { // the server lets none wait for more than a second
				_, _ = in.Create(ctx, e, 0)
			}
		})
	}
	awaitList(t, func() bool { return waiting(t, d) == 1 })
	_, is, err := in.Delete(within(t, soon), held)
	require.NoError(t, err)
	require.True(t, is)
	most := 0
	for range 3 {
		awaitList(t, func() bool {
			n := waiting(t, d)
			most = max(most, n)
			return n > 0
		})
	}
	require.Equal(t, 1, most)
	leave()
	joins.Wait()
	end()
}

// TestLookTellsHowManyHaveToGo before the first entry of a queue that a session waits for, for the session's next look is due then. What is
// ahead of later entries is not counted, and another size of a semaphore is not expected for long: a Store whose callers wait for units looks no
// more often than others.
func TestLookTellsHowManyHaveToGo(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CALL farsync_open_9('job', 3600000000)")
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		d.exec(t, "INSERT INTO farsync_entries (id, queue, session, kind, revision) VALUES (?, '/looks', 'job', 'write', ?)", id, i+1)
	}
	d.exec(t, "INSERT INTO farsync_entries (id, queue, session, kind, revision) VALUES ('other', '/other', 'job', 'write', 9)")
	target := func(what, id, queue string) sqlstore.Target {
		return sqlstore.Target{Name: what + id, What: what, ID: id, Queue: queue, Kind: "write"}
	}
	rows, err := d.admin.QueryContext(within(t, soon), "CALL farsync_poll_2(?)", sqlstore.Array([]sqlstore.Target{
		target("gone", "e", "/looks"), target("gone", "c", "/looks"), target("changed", "d", "/looks"), target("gone", "other", "/other"),
		target("gone", "left", "/looks"), target("registered", "", "/looks"), target("told", "a", "/looks"), target("joined", "", "/empty"),
	}))
	require.NoError(t, err)
	defer rows.Close()
	type seen struct {
		moved bool
		ahead int
	}
	is := map[string]seen{}
	for rows.Next() {
		var name string
		var s seen
		require.NoError(t, rows.Scan(&name, &s.moved, &s.ahead))
		is[name] = s
	}
	require.NoError(t, rows.Err())
	require.Equal(t, map[string]seen{
		"gonec": {false, 2}, "gonee": {false, math.MaxInt32}, "changedd": {false, math.MaxInt32}, "goneother": {false, 0},
		"goneleft": {true, 0}, "registered": {false, 4}, "tolda": {false, 4}, "joined": {false, 4},
	}, is)
}
