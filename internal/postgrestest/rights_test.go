package postgrestest_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

func TestRightsThatAreTakenAway(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	d.exec(t, "CREATE ROLE member LOGIN")
	give := func(t testing.TB) {
		d.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO member")
	}
	give(t)
	locktest.RunRights(t, locktest.Restricted{
		Open: func(t testing.TB, user bool, options farsync.Options) *farsync.Store {
			config := d.config(t)
			if user {
				config = d.with(t, func(c *pgxpool.Config) { c.ConnConfig.User = "member" })
			}
			store, err := postgres.Open(within(t, soon), config, &postgres.Options{Options: options, Listen: d.listen})
			require.NoError(t, err)
			t.Cleanup(func() { _ = store.Close() })
			return store
		},
		Take: func(t testing.TB) { d.exec(t, "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM member") },
		Give: give,
		Says: "permission denied",
	})
}
