package postgrestest_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/postgres"
)

// requests counts the statements of the clients that have it.
type requests struct{ n atomic.Int64 }

func (r *requests) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	r.n.Add(1)
	return ctx
}

func (*requests) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

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

// TestStatementsOfALock: a free lock takes one statement and its release another. One that has to wait takes two more and one
// notification, with 8 or with 64 waiters, beside Stores that do nothing, which are told nothing.
func TestStatementsOfALock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, embedtest.Setting("max_connections = 600"))
	idle, busy := new(requests), new(requests)
	for range 200 {
		store := d.counted(t, idle)
		defer func() { _ = store.Close() }()
	}
	stores := make([]*farsync.Store, 64)
	for i := range stores {
		stores[i] = d.counted(t, busy)
		defer func() { _ = stores[i].Close() }()
	}
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
	for _, waiters := range []int{8, 64} {
		before := busy.n.Load()
		lease := lock(t, stores[0], "/traffic")
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
		require.Eventually(t, func() bool { return busy.n.Load() == before+1+2*int64(waiters) }, 3*soon, time.Millisecond,
			"to join, and to look once it listens")
		require.Zero(t, notified(), "to wait tells none")
		require.NoError(t, lease.Release())
		all.Wait()
		sent, n := busy.n.Load()-before-2, notified()
		t.Logf("%d waiters: %.2f statements and %.2f notifications each", waiters, float64(sent)/float64(waiters), float64(n)/float64(waiters))
		require.Equal(t, waiters, n, "each is told once, when the entry ahead of its own has gone")
		require.EqualValues(t, 4*waiters, sent, "join, look; and look, leave")
	}
	require.Equal(t, idled, idle.n.Load())
}

func lock(t testing.TB, store *farsync.Store, path string) *farsync.Lease {
	lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
	require.NoError(t, err)
	return lease
}
