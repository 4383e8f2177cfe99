package postgrestest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// requests counts the statements of the clients that have it, but not those that have failed, and apart those that wait for a key at the server.
// It notes what only a slow machine adds: an attempt that is not answered in time, and is sent again, and the watch of a lease that is held for
// 3 seconds.
type requests struct{ n, awaits, unanswered, watches atomic.Int64 }

// awaited marks the statements that wait, and end without an answer when their caller leaves.
type awaited struct{}

func (r *requests) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "farsync_await") {
		r.awaits.Add(1)
		return context.WithValue(ctx, awaited{}, true)
	}
	r.n.Add(1)
	if slices.ContainsFunc(data.Args, func(argument any) bool { return strings.Contains(fmt.Sprint(argument), `"what":"told"`) }) {
		r.watches.Add(1)
	}
	return ctx
}

func (r *requests) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if data.Err != nil && ctx.Value(awaited{}) == nil {
		r.unanswered.Add(1)
		r.n.Add(-1)
	}
}

// areExact says that t requires exact counts. If t fails, and a slow machine has added statements while it ran, it is not judged: an attempt that
// was not answered may have been carried out, and those behind it find another queue.
func (r *requests) areExact(t testing.TB) {
	t.Cleanup(func() {
		if n, watches := r.unanswered.Load(), r.watches.Load(); t.Failed() && n+watches > 0 {
			t.Logf("%s%d statements were not answered in time, and leases that were held for long watched %d times", suite.NotJudged, n, watches)
		}
	})
}

// TraceBatchStart counts one: through a proxy a statement has others before it, in one request.
func (r *requests) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	r.n.Add(1)
	return ctx
}

func (*requests) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*requests) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// counted opens a Store whose statements are counted, but for LISTEN, with few connections.
func (d database) counted(t testing.TB, by *requests) *farsync.Store {
	config := d.config(t)
	config.MaxConns, config.ConnConfig.Tracer = 2, by
	options := d.options(time.Hour)
	options.Listen = d.config(t).ConnConfig
	store, err := postgres.Open(within(t, soon), config, options)
	require.NoError(t, err)
	return store
}

// notified returns how many notifications sessions were sent since the last call, those of now and of later.
func (d database) notified(t testing.TB) func() int {
	conn, err := pgx.ConnectConfig(within(t, soon), d.config(t).ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	heard := map[string]bool{}
	return func() (n int) {
		// After the server has carried this out, all has come that was committed before.
		rows, err := conn.Query(within(t, soon), "SELECT id FROM farsync_sessions")
		require.NoError(t, err)
		sessions, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		for _, id := range sessions {
			if !heard[id] {
				_, err := conn.Exec(within(t, soon), "LISTEN "+pgx.Identifier{"farsync_" + id}.Sanitize())
				require.NoError(t, err)
				heard[id] = true
			}
		}
		end := fmt.Sprint("end", time.Now())
		_, err = conn.Exec(within(t, soon), "LISTEN counted")
		require.NoError(t, err)
		d.exec(t, "SELECT pg_notify('counted', $1)", end)
		for {
			note, err := conn.WaitForNotification(within(t, soon))
			require.NoError(t, err)
			if note.Payload == end {
				return n
			}
			if note.Channel != "counted" {
				n++
			}
		}
	}
}

// TestStatementsOfALock: a free lock takes one statement and its release another. One that has to wait takes one more, for which the server
// has it wait, and none is notified, with 8 or with 64 waiters, beside Stores that do nothing. A wait that lasts asks again each
// second. Behind an entry without a key it takes two more and one notification.
func TestStatementsOfALock(t *testing.T) {
	suite.Long(t, suite.Postgres, "counts the statements of 265 Stores, while leases that are held for 3 s begin to listen")
	t.Parallel()
	d := newServer(t, embedtest.Setting("max_connections = 600"))
	idle, busy := new(requests), new(requests)
	for range 200 {
		store := d.counted(t, idle)
		defer func() { _ = store.Close() }()
	}
	stores := make([]*farsync.Store, 65)
	for i := range stores {
		stores[i] = d.counted(t, busy)
		defer func() { _ = stores[i].Close() }()
		// The first call of a connection takes many times as long as later ones, and more than an attempt has if 64 make theirs at once.
		require.NoError(t, lock(t, stores[i], fmt.Sprint("/first/", i)).Release())
	}
	busy.areExact(t)
	notified := d.notified(t)
	require.Zero(t, notified())
	before := busy.n.Load()
	const times = 20
	for range times {
		require.NoError(t, lock(t, stores[0], "/traffic").Release())
	}
	require.EqualValues(t, 2*times, busy.n.Load()-before)
	require.Zero(t, notified(), "none waits")

	idled := idle.n.Load()
	for _, scene := range []struct{ waiters, statements, notifications int }{{8, 2, 0}, {64, 2, 0}, {1, 4, 1}} {
		waiters := scene.waiters
		if scene.notifications > 0 { // each Store has a connection to spare, so one key
			for _, i := range []int{0, 64} {
				lease := lock(t, stores[i], fmt.Sprint("/kept/", i))
				defer func() { _ = lease.Release() }()
			}
		}
		before, waits := busy.n.Load(), busy.awaits.Load()
		lease := lock(t, stores[64], "/traffic")
		var all sync.WaitGroup
		for _, store := range stores[:waiters] {
			all.Go(func() {
				lease, err := farsync.NewMutex(store, "/traffic").Lock(within(t, time.Minute))
				if err == nil {
					err = lease.Release()
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		keyed, wait := int64(0), int64(waiters) // by a key, or to look once it listens
		if scene.notifications == 0 {
			keyed, wait = wait, 0
		}
		require.Eventually(t, func() bool {
			return busy.n.Load() == before+1+int64(waiters)+wait && busy.awaits.Load() >= waits+keyed
		}, 3*soon, time.Millisecond)
		require.Zero(t, notified(), "to wait tells none")
		require.NoError(t, lease.Release())
		all.Wait()
		sent, n := busy.n.Load()-before-2, notified()
		t.Logf("%d waiters: %.2f statements and %.2f notifications each", waiters, float64(sent)/float64(waiters), float64(n)/float64(waiters))
		require.Equal(t, scene.notifications*waiters, n, "each is told once, when the entry ahead of its own has gone")
		require.EqualValues(t, scene.statements*waiters, sent, "join, leave; or join, look, look, leave")
		if scene.notifications > 0 {
			require.Equal(t, waits, busy.awaits.Load())
		}
	}
	require.Equal(t, idled, idle.n.Load())
}

func lock(t testing.TB, store *farsync.Store, path string) *farsync.Lease {
	lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
	require.NoError(t, err)
	return lease
}
