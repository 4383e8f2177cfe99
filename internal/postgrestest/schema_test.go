package postgrestest_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/postgres"
)

// TestMigrateHidesNoTables that are in use, such as those of a role before it had a schema of its own: locks would be held in both. Where they
// are not in the search path there are two sets of them, which have nothing to do with each other.
func TestMigrateHidesNoTables(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, `CREATE SCHEMA "my app"`)
	path := func(path string) *pgxpool.Config {
		return d.with(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = path })
	}
	open := func(config *pgxpool.Config) *farsync.Store {
		store, err := postgres.Open(within(t, soon), config, d.options(time.Minute))
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	lease := lock(t, open(path(`"my app", public`)), "/hidden")
	err := postgres.Migrate(within(t, soon), path(`"my app", public`).ConnConfig)
	require.ErrorContains(t, err, `farsync has tables in the schema public, which those in the schema "my app" would hide`)
	_, err = farsync.NewMutex(open(path(`"my app", public`)), "/hidden").TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	for range 2 {
		require.NoError(t, postgres.Migrate(within(t, soon), path(`"my app"`).ConnConfig))
	}
	require.NoError(t, postgres.Migrate(within(t, soon), path(`"my app", public`).ConnConfig), "which begins with the nearest")
	require.NoError(t, lock(t, open(path(`"my app"`)), "/hidden").Release())
	require.NoError(t, lease.Err())
	require.NoError(t, postgres.Migrate(within(t, soon), path("public").ConnConfig))
}
