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

// TestBeforeConnectIsCalledForWhatListens, as for the pool: passwords may be made for each connection. Without Listen that is the same
// config.
func TestBeforeConnectIsCalledForWhatListens(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	for name, listen := range map[string]bool{"the same server": false, "the option Listen": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, options, path := d.config(t), d.options(time.Minute), "/"+t.Name()
			user := config.ConnConfig.User
			config.ConnConfig.User = "nobody"
			if listen {
				options.Listen = config.ConnConfig.Copy()
			}
			config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
				c.User = user
				return nil
			}
			store, err := postgres.Open(within(t, soon), config, options)
			require.NoError(t, err)
			t.Cleanup(func() { _ = store.Close() })
			permits := farsync.NewSemaphore(store, path, 1)
			first, err := permits.Acquire(within(t, soon), 1)
			require.NoError(t, err)
			next := locktest.Behind(t, func(ctx context.Context) (*farsync.Lease, error) { return permits.Acquire(ctx, 1) })
			require.Eventually(t, func() bool {
				return d.count(t, "SELECT count(*) FROM farsync_watches WHERE name IN (SELECT id FROM farsync_entries WHERE queue = $1)", path) > 0
			}, soon, time.Millisecond, "it listens")
			require.NoError(t, first.Release())
			require.NoError(t, locktest.Got(t, next).Release())
			require.Equal(t, "nobody", config.ConnConfig.User, "it is given a copy")
		})
	}
}
