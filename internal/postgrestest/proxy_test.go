package postgrestest_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/postgres"
)

// behindPgBouncer returns a database whose clients reach it through a PgBouncer, which lends them connections for a transaction: fewer
// than there are clients.
func behindPgBouncer(t testing.TB) database {
	d := newDatabase(t)
	d.url = embedtest.PgBouncer(t, d.server, "default_pool_size = 8").URL()
	return d
}

// TestDriverBehindPgBouncer: what cannot listen looks.
func TestDriverBehindPgBouncer(t *testing.T) {
	t.Parallel()
	behindPgBouncer(t).keepsTheContract(t)
}

// TestPrimitivesBehindPgBouncer: what waits listens by a connection of its own, beside the PgBouncer.
func TestPrimitivesBehindPgBouncer(t *testing.T) {
	t.Parallel()
	d := behindPgBouncer(t)
	d.listen = configOf(t, d.server.URL()).ConnConfig
	d.primitives(t)
}

// TestProxyIsNamedInTheLog, once the first Lock has to wait, and not if what waits listens beside it.
func TestProxyIsNamedInTheLog(t *testing.T) {
	t.Parallel()
	d := behindPgBouncer(t)
	for _, listen := range []*pgx.ConnConfig{nil, configOf(t, d.server.URL()).ConnConfig} {
		var log lockedBuffer
		options := d.options(time.Hour)
		options.Logger, options.Listen = slog.New(slog.NewTextHandler(&log, nil)), listen
		store, err := postgres.Open(within(t, soon), d.config(t), options)
		require.NoError(t, err)
		lease := lock(t, d.open(t, time.Hour), "/logged")
		got := make(chan error, 1)
		go func() { // joined below
			lease, err := farsync.NewMutex(store, "/logged").Lock(within(t, soon))
			if err == nil {
				err = lease.Release()
			}
			got <- err
		}()
		if listen == nil {
			require.Eventually(t, func() bool { return log.contains("postgres.Options.Listen") }, soon, time.Millisecond)
		}
		require.NoError(t, lease.Release())
		require.NoError(t, <-got)
		require.NoError(t, store.Close())
		require.Equal(t, listen == nil, log.contains("proxy"))
	}
}

// TestCancelledStatementsLeaveTheProxyAlone: calls whose ctx ends while their statement waits at the server, over and over.
func TestCancelledStatementsLeaveTheProxyAlone(t *testing.T) {
	t.Parallel()
	d := behindPgBouncer(t)
	store := d.open(t, time.Hour)
	tx := d.begin(t)
	require.NoError(t, postgres.InTx(within(t, soon), tx, "/kept")) // those that join wait for its row
	for range 20 {
		_, err := farsync.NewMutex(store, "/kept").Lock(within(t, 20*time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.NoError(t, tx.Rollback(within(t, soon)))
	require.NoError(t, lock(t, store, "/kept").Release())
}
