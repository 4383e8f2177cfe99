package postgrestest_test

import (
	"context"
	"sync/atomic"
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
	goes := make(chan struct{})
	defer close(goes)
	var blocks, panics atomic.Bool
	config := d.config(t)
	config.ConnConfig.User, config.ConnConfig.ConnectTimeout = "stranger", time.Second
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if panics.Load() {
			panic("a bug")
		}
		if blocks.Load() {
			<-goes
		}
		c.User = "app"
		return nil
	}
	d.exec(t, "CREATE ROLE app LOGIN SUPERUSER")
	store, err := postgres.Open(within(t, soon), config, d.options(time.Hour))
	require.NoError(t, err)
	require.NoError(t, lock(t, store, "/before").Release())
	for _, fails := range []*atomic.Bool{&panics, &blocks} {
		fails.Store(true)
		for err = nil; err == nil; { // a connection may have been about to be made
			d.exec(t, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 'app'")
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			err = locktest.Returns(t, soon, "Lock", func() error {
				lease, err := farsync.NewMutex(store, "/before").Lock(ctx)
				if err == nil {
					_ = lease.Release()
				}
				return err
			})
			cancel()
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fails.Store(false)
		if fails == &panics {
			require.NoError(t, lock(t, store, "/before").Release())
		}
	}
	blocks.Store(true)
	err = locktest.Returns(t, soon, "Close", store.Close)
	require.ErrorIs(t, err, farsync.ErrUnavailable, "the server cannot be told")
}
