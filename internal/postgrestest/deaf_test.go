package postgrestest_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// TestListenThatLeadsNowhere: what waits looks after some seconds, says why, and is served. Listen leads to a replica, as it does once the servers have
// changed their parts, or to where no server is.
func TestListenThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	nowhere := configOf(t, d.server.URL()).ConnConfig
	nowhere.Port, nowhere.Fallbacks = 1, nil
	for name, row := range map[string]struct {
		listen func(t *testing.T) *postgres.Options
		cause  string
		long   string
	}{
		"a replica": {func(t *testing.T) *postgres.Options {
			return &postgres.Options{Listen: configOf(t, embedtest.PostgresReplica(t, d.server).URL()).ConnConfig}
		}, "the server is a replica", "starts a replica"},
		"no server": {func(*testing.T) *postgres.Options { return &postgres.Options{Listen: nowhere} }, "connection refused", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if row.long != "" {
				suite.Long(t, suite.Postgres, row.long)
			}
			t.Parallel()
			var log locktest.Log
			options := row.listen(t)
			options.TTL, options.Logger = time.Minute, slog.New(slog.NewTextHandler(&log, nil))
			store, err := postgres.Open(within(t, soon), d.config(t), options)
			require.NoError(t, err)
			t.Cleanup(func() { _ = store.Close() })
			permits := farsync.NewSemaphore(store, "/"+t.Name(), 1)
			lease, err := permits.Acquire(within(t, soon), 1)
			require.NoError(t, err)
			next := locktest.Behind(t, func(ctx context.Context) (*farsync.Lease, error) { return permits.Acquire(ctx, 1) })
			log.Await(t, "cannot listen to the PostgreSQL server")
			require.True(t, log.Has(row.cause))
			require.NoError(t, lease.Release())
			require.NoError(t, locktest.Got(t, next).Release())
		})
	}
}
