package postgrestest_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// TestFailoverWhileTheOldPrimaryLives: for how long two hold.
func TestFailoverWhileTheOldPrimaryLives(t *testing.T) {
	suite.Long(t, suite.Postgres, "fails over to a replica, and waits for sessions to run out")
	t.Parallel()
	d := newServer(t)
	replica := embedtest.PostgresReplica(t, d.server)
	locktest.RunFailover(t, locktest.Failover{
		Old: d.server.Endpoint(), New: replica.Endpoint(),
		Open: func(t *testing.T, way *locktest.Way, ttl time.Duration) *farsync.Store {
			store, err := postgres.Open(within(t, soon), d.with(t, func(c *pgxpool.Config) {
				c.ConnConfig.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return way.Dial(ctx) }
			}), d.options(ttl))
			require.NoError(t, err)
			t.Cleanup(func() { _ = store.Close() })
			return store
		},
		Part:    func() { cutOff(t, d.server, replica) },
		Promote: func() { require.True(t, on[bool](t, replica, "SELECT pg_promote()")) },
		Guard: func(t *testing.T, address string, lease locktest.Owner) error {
			conn, err := pgx.Connect(within(t, soon), urlOf(address))
			require.NoError(t, err)
			defer conn.Close(within(t, soon))
			tx, err := conn.Begin(within(t, soon))
			require.NoError(t, err)
			defer func() { require.NoError(t, tx.Rollback(within(t, soon))) }()
			return postgres.Guard(within(t, soon), tx, lease)
		},
	})
}
