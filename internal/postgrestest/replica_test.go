package postgrestest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// TestReplicaIsPassedOver where a name leads to it, too: what it shows is older than the call. It has stopped replaying here. Each call has
// a connection of its own, and first all of them are to the server.
func TestReplicaIsPassedOver(t *testing.T) {
	suite.Long(t, suite.Postgres, "starts a replica")
	t.Parallel()
	d := newServer(t)
	replica := embedtest.PostgresReplica(t, d.server)
	_ = on[string](t, replica, "SELECT pg_wal_replay_pause()::text")
	config := d.config(t)
	var turned atomic.Bool
	config.ConnConfig.LookupFunc = func(context.Context, string) ([]string, error) {
		if turned.Load() {
			return []string{replica.Endpoint(), d.server.Endpoint()}, nil
		}
		return []string{d.server.Endpoint(), replica.Endpoint()}, nil
	}
	config.AfterRelease = func(*pgx.Conn) bool { return false }
	store, err := postgres.Open(within(t, soon), config, d.options(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	lease := lock(t, store, "/stale")
	turned.Store(true)
	list, err := store.Participants(within(t, soon), "/stale")
	require.NoError(t, err)
	require.Len(t, list, 1)
	next := locktest.LockBehind(t, d.open(t, time.Minute), "/stale")
	locktest.AwaitQueue(t, store, "/stale", 2)
	require.NoError(t, lease.Release())
	require.NoError(t, locktest.Got(t, next).Release())
	require.NoError(t, lock(t, store, "/stale").Release())
}
