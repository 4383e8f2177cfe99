package postgrestest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

// TestPrepareConnEndsWithItsCall: of a connection that was made for a call and of a connection of before. What closes
// connections does not wait for it, and neither does Close.
func TestPrepareConnEndsWithItsCall(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	options := d.options(0)
	options.Connections = 2
	config := d.config(t)
	var blocks atomic.Bool
	began := make(chan struct{}, 1)
	config.PrepareConn = func(ctx context.Context, _ *pgx.Conn) (bool, error) {
		if !blocks.Load() {
			return true, nil
		}
		began <- struct{}{}
		<-ctx.Done() // the server does not answer
		return false, context.Cause(ctx)
	}
	service, err := postgres.NewService(config, options)
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	list := func(ctx context.Context) error {
		_, err := in.List(ctx, "/prepared", 1)
		return err
	}
	for range 2 { // a connection is made for the first
		blocks.Store(true)
		ctx, cancel := context.WithCancel(within(t, soon))
		failed := make(chan error, 1)
		go func() { failed <- list(ctx) }() // joined below
		locktest.Got(t, began)
		cancel()
		require.Error(t, locktest.Got(t, failed))
		blocks.Store(false)
		require.NoError(t, list(within(t, soon)))
	}
	blocks.Store(true)
	require.NoError(t, locktest.Returns(t, soon, "Reset", func() error { in.Reset(); return nil }))
	blocks.Store(false)
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, locktest.Returns(t, soon, "Close", service.Close))
}
