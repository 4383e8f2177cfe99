package postgrestest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

// TestBeforeConnectThatBlocks is as a server that does not answer: calls end with their ctx, and Close returns.
func TestBeforeConnectThatBlocks(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	hooked := locktest.NewHooked(t)
	config := d.config(t)
	config.ConnConfig.User, config.ConnConfig.ConnectTimeout = "stranger", time.Second
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		hooked.Call()
		c.User = "app"
		return nil
	}
	d.exec(t, "CREATE ROLE app LOGIN SUPERUSER")
	store, err := postgres.Open(within(t, soon), config, d.options(time.Hour))
	require.NoError(t, err)
	locktest.RunHooked(t, hooked, store, func() {
		d.exec(t, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 'app'")
	})
	hooked.Block(true)
	err = locktest.Returns(t, soon, "Close", store.Close)
	require.ErrorIs(t, err, farsync.ErrUnavailable, "the server cannot be told")
}
