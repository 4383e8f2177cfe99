package redistest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/redis"
)

func TestLoginThatIsRefused(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	require.NoError(t, admin.Do(within(t, soon), "ACL", "SETUSER", "app", "on", ">"+locktest.Secret, "~*", "&*", "+@all").Err())
	locktest.RunLogin(t, locktest.LetIn{
		Service: func(t testing.TB, login *locktest.Login) driver.Service {
			to := at(server.Endpoint())
			to.CredentialsProviderContext = func(context.Context) (user, password string, err error) {
				return "app", login.Password(), nil
			}
			service, err := redis.NewService(to, &redis.Options{Fresh: true})
			require.NoError(t, err)
			t.Cleanup(func() { _ = service.Close() })
			return service
		},
		Open: func(t testing.TB, options farsync.Options) *farsync.Store {
			return newStore(t, server.Endpoint(), &redis.Options{Options: options, Fresh: true})
		},
		LogOut: func(t testing.TB) {
			require.NoError(t, admin.Do(within(t, soon), "CLIENT", "KILL", "USER", "app").Err())
		},
		Says: "WRONGPASS",
	})
}
