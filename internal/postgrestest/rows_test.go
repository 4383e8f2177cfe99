package postgrestest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/postgres"
)

// TestThoseThatWaitForRowsKeepNoSessionFromBeingRenewed: there are more of them than connections.
func TestThoseThatWaitForRowsKeepNoSessionFromBeingRenewed(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	start := time.Now()
	store := d.open(t, time.Second)
	lease, err := farsync.NewMutex(store, "/held").Lock(within(t, soon))
	require.NoError(t, err)
	tx, err := d.admin.Begin(within(t, soon))
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	var all errgroup.Group
	ctx, cancel := context.WithCancel(within(t, soon))
	defer cancel()
	for n := range 16 {
		path := fmt.Sprintf("/row/%d", n)
		require.NoError(t, postgres.InTx(within(t, soon), tx, path))
		all.Go(func() error {
			_, err := farsync.NewMutex(store, path).Lock(ctx)
			return err
		})
	}
	for age := time.Duration(0); age < 5*time.Second && lease.Err() == nil; {
		var left int64
		require.NoError(t, d.admin.QueryRow(within(t, soon), "SELECT farsync_now()").Scan(&left))
		age = time.Since(start)
	}
	require.NoError(t, lease.Err())
	cancel()
	require.ErrorIs(t, all.Wait(), context.Canceled)
	require.NoError(t, lease.Release())
}
