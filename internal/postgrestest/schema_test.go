package postgrestest_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
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
	// Its Store sees no other tables than those in public, whatever is made meanwhile: one with both in its path would look for its entry in
	// the new ones a moment later.
	lease := lock(t, open(path("public")), "/hidden")
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

// TestTablesAreChangedFromAnotherSearchPath, as that of an operator, or of pg_restore, which is empty. The triggers find what they call, and tell
// those that wait, also where the role has a schema of its own by now.
func TestTablesAreChangedFromAnotherSearchPath(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	for _, path := range []string{"''", "pg_catalog", `"$user"`} {
		t.Run(path, func(t *testing.T) {
			change := func(statement string, args ...any) {
				tx := d.begin(t)
				_, err := tx.Exec(within(t, soon), "SET LOCAL search_path = "+path)
				require.NoError(t, err)
				_, err = tx.Exec(within(t, soon), statement, args...)
				require.NoError(t, err)
				require.NoError(t, tx.Commit(within(t, soon)))
			}
			store := d.open(t, time.Minute)
			e := d.foreign(t, "/path", "other")
			for _, statement := range []string{
				"DELETE FROM public.farsync_entries WHERE id = $1", "DELETE FROM public.farsync_sessions WHERE id = (SELECT session FROM public.farsync_entries WHERE id = $1)",
			} {
				next := locktest.LockBehind(t, store, "/path")
				locktest.AwaitQueue(t, store, "/path", 2)
				change(statement, e.ID)
				require.NoError(t, locktest.Got(t, next).Release())
				e = d.foreign(t, "/path", "other")
			}
			change("INSERT INTO public.farsync_entries (id, queue, session) VALUES ($1, '/path', 'other')", rand.Text())
			change("INSERT INTO public.farsync_registers VALUES ($1, '1 1', 1)", "/"+rand.Text())
			d.exec(t, "DELETE FROM farsync_sessions WHERE id = 'other'")
		})
	}
}
