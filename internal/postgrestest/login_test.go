package postgrestest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

func TestLoginThatIsRefused(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	d.exec(t, "CREATE ROLE app LOGIN SUPERUSER PASSWORD '"+locktest.Secret+"'")
	d.hba(t, "host all app all scram-sha-256")
	locktest.RunLogin(t, locktest.LetIn{
		Service: func(t testing.TB, login *locktest.Login) driver.Service {
			config := d.config(t)
			config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
				c.User, c.Password = "app", login.Password()
				return nil
			}
			service, err := postgres.NewService(config, d.options(0))
			require.NoError(t, err)
			t.Cleanup(func() { _ = service.Close() })
			return service
		},
		Open: func(t testing.TB, options farsync.Options) *farsync.Store { return d.open(t, options.TTL) },
		LogOut: func(t testing.TB) {
			d.exec(t, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 'app'")
		},
		Says: "password authentication failed",
	})
}
