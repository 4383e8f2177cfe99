package postgrestest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// replicatedAtOnce returns a database with a synchronous replica, which clients do not know.
func replicatedAtOnce(t *testing.T) (d database, replica *embedtest.PostgresServer) {
	d = newServer(t)
	replica = embedtest.PostgresReplica(t, d.server)
	set(t, d.server, "synchronous_standby_names = '*'")
	require.Eventually(t, func() bool {
		return on[bool](t, d.server, "SELECT EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync')")
	}, soon, 10*time.Millisecond)
	return d, replica
}

// TestServerThatIsCutOffFromItsReplicaGrantsNothing: the replica, once it is promoted, grants what it knows of none to hold. What waits for it
// here is cancelled in the end, by the client or by an operator, and then the server answers with success. Leases end, no session is renewed,
// and there is no new one.
func TestServerThatIsCutOffFromItsReplicaGrantsNothing(t *testing.T) {
	suite.Long(t, suite.Postgres, "cuts a replica off from the server")
	t.Parallel()
	for _, row := range []struct {
		name     string
		warnings string // those that the server sends
		operator bool   // has what waits cancelled, too
	}{
		{"", "warning", false},
		{"warnings are held back", "error", false},
		{"an operator cancels", "warning", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d, replica := replicatedAtOnce(t)
			defer set(t, d.server, "synchronous_standby_names = ''") // or nothing here could be closed
			open := func(ttl time.Duration) *farsync.Store {
				store, err := postgres.Open(within(t, soon), d.with(t, func(c *pgxpool.Config) {
					c.ConnConfig.RuntimeParams["client_min_messages"] = row.warnings
				}), d.options(ttl))
				require.NoError(t, err)
				t.Cleanup(func() { _ = store.Close() })
				return store
			}
			held, store := open(faultTTL), open(time.Minute)
			lease := lock(t, held, "/held")
			require.NoError(t, lock(t, store, "/warm").Release())
			set(t, replica, "primary_conninfo = ''")
			require.Eventually(t, func() bool {
				return !on[bool](t, d.server, "SELECT EXISTS (SELECT 1 FROM pg_stat_replication)")
			}, soon, 10*time.Millisecond)
			require.True(t, on[bool](t, replica, "SELECT pg_promote()"))

			ctx, cancel := context.WithTimeout(t.Context(), 2*faultTTL)
			defer cancel()
			ended := make(chan error, 2)
			for _, try := range []struct {
				store *farsync.Store
				path  string
			}{{store, "/other"}, {held, "/again"}} { // the latter in two sessions
				go func() { // joined below
					_, err := farsync.NewMutex(try.store, try.path).Lock(ctx)
					ended <- err
				}()
			}
			for row.operator && ctx.Err() == nil {
				d.exec(t, "SELECT pg_cancel_backend(pid), pg_sleep(0.05) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
			}
			require.ErrorIs(t, <-ended, context.DeadlineExceeded)
			require.ErrorIs(t, <-ended, context.DeadlineExceeded)
			require.ErrorIs(t, lease.Err(), farsync.ErrLost)
		})
	}
}
