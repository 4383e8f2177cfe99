package postgrestest_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// behindPgBouncer returns a database whose clients reach it through a PgBouncer, which lends them connections for a transaction: fewer
// than there are clients.
func behindPgBouncer(t testing.TB) database {
	d := newServer(t)
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
	suite.Long(t, suite.Postgres, "the primitives a second time; the contract of a driver behind a PgBouncer is make test's")
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
		var log locktest.Log
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
			log.Await(t, "postgres.Options.Listen")
		}
		require.NoError(t, lease.Release())
		require.NoError(t, <-got)
		require.NoError(t, store.Close())
		require.Equal(t, listen == nil, log.Has("proxy"))
	}
}

// TestCancelledStatementsLeaveTheProxyAlone: calls whose ctx ends while their statement waits at the server, over and over. No request to
// cancel is sent, for PgBouncer ends if the client of one does; and what was given up does not wait at the server for as long as what it
// waits for takes.
func TestCancelledStatementsLeaveTheProxyAlone(t *testing.T) {
	t.Parallel()
	d := behindPgBouncer(t)
	var cancels atomic.Int32
	config := d.config(t)
	countCancels(config.ConnConfig, &cancels)
	store, err := postgres.Open(within(t, soon), config, d.options(time.Hour))
	require.NoError(t, err)
	defer store.Close()
	tx := d.begin(t)
	require.NoError(t, postgres.LockTx(within(t, soon), tx, "/kept")) // those that join wait for its row
	for range 20 {
		_, err := farsync.NewMutex(store, "/kept").Lock(within(t, 20*time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.Eventually(t, func() bool {
		var waiting int
		require.NoError(t, d.admin.QueryRow(within(t, soon), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waiting))
		return waiting == 0
	}, soon, 10*time.Millisecond)
	require.NoError(t, tx.Rollback(within(t, soon)))
	require.NoError(t, lock(t, store, "/kept").Release())
	require.NoError(t, store.Close())
	require.Zero(t, cancels.Load())
}

// countCancels has a client count the requests to cancel that it sends.
func countCancels(config *pgx.ConnConfig, seen *atomic.Int32) {
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return cancelCounter{conn, seen}, err
	}
}

// A cancelCounter counts requests to cancel, which are the first that their connection sends.
type cancelCounter struct {
	net.Conn

	seen *atomic.Int32
}

func (c cancelCounter) Write(b []byte) (int, error) {
	const size, code = 16, 80877102
	if len(b) == size && binary.BigEndian.Uint32(b[4:]) == code {
		c.seen.Add(1)
	}
	return c.Conn.Write(b)
}

// TestMigrationThatIsGivenUpLeavesTheProxyAlone: the program that gives it up often ends then.
func TestMigrationThatIsGivenUpLeavesTheProxyAlone(t *testing.T) {
	t.Parallel()
	d := behindPgBouncer(t)
	tx := d.begin(t)
	_, err := tx.Exec(within(t, soon), "SELECT pg_advisory_xact_lock(7236548104)") // as another migration
	require.NoError(t, err)
	var cancels atomic.Int32
	config := d.config(t).ConnConfig
	countCancels(config, &cancels)
	require.ErrorIs(t, postgres.Migrate(within(t, 50*time.Millisecond), config), context.DeadlineExceeded)
	require.NoError(t, tx.Rollback(within(t, soon)))
	require.NoError(t, postgres.Migrate(within(t, soon), config))
	require.Zero(t, cancels.Load())
}
