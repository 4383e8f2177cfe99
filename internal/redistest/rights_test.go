package redistest_test

import (
	"testing"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/redis"
)

func TestRightsThatAreTakenAway(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	change := func(t testing.TB, rules ...any) {
		require.NoError(t, admin.Do(within(t, soon), append([]any{"ACL", "SETUSER", "member"}, rules...)...).Err())
	}
	give := func(t testing.TB) { change(t, "on", ">pass", "~farsync:{farsync}:*", "&farsync:{farsync}:*", "+@all") }
	give(t)
	locktest.RunRights(t, locktest.Restricted{
		Open: func(t testing.TB, user bool, options farsync.Options) *farsync.Store {
			to := at(server.Endpoint())
			if user {
				to = &client.UniversalOptions{Addrs: []string{server.Endpoint()}, Username: "member", Password: "pass"}
			}
			store, err := openAt(within(t, soon), to, &redis.Options{Options: options, Fresh: true})
			require.NoError(t, err)
			t.Cleanup(func() { _ = store.Close() })
			return store
		},
		Take: func(t testing.TB) { change(t, "resetkeys") },
		Give: give,
		Says: "NOPERM",
	})
}
