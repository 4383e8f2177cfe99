package postgrestest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// TestThoseThatWaitForRowsKeepNoSessionFromBeingRenewed: there are more of them than connections.
func TestThoseThatWaitForRowsKeepNoSessionFromBeingRenewed(t *testing.T) {
	suite.Long(t, suite.Postgres, "waits for renewals of a TTL of 4 s, which must be in time")
	t.Parallel()
	d := newDatabase(t)
	const ttl = 4 * time.Second
	store := d.open(t, ttl)
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
		require.NoError(t, postgres.LockTx(within(t, soon), tx, path))
		all.Go(func() error {
			_, err := farsync.NewMutex(store, path).Lock(ctx)
			return err
		})
	}
	later := time.Now().Add(3 * ttl)
	require.Eventually(t, func() bool { return lease.Err() != nil || lease.Deadline().After(later) }, soon, time.Millisecond)
	require.NoError(t, lease.Err())
	cancel()
	require.ErrorIs(t, all.Wait(), context.Canceled)
	require.NoError(t, lease.Release())
}
