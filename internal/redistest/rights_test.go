package redistest_test

import (
	"context"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
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

// TestReleaseWithoutTheRightToPublish: a user whose channels are taken away releases all the same. A message is a hint, and a script
// that broke off at one left the units of a permit counted as held that was gone.
func TestReleaseWithoutTheRightToPublish(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	change := func(rules ...any) {
		require.NoError(t, admin.Do(within(t, soon), append([]any{"ACL", "SETUSER", "member"}, rules...)...).Err())
	}
	change("on", ">pass", "~farsync:{farsync}:*", "&farsync:{farsync}:*", "+@all")
	s, err := redis.NewService(&client.UniversalOptions{
		Addrs: []string{server.Endpoint()}, Username: "member", Password: "pass",
	}, fresh(0))
	require.NoError(t, err)
	in, err := s.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(context.WithoutCancel(t.Context())) })
	_, err = in.SetRegister(within(t, soon), "/rights", "1 1", 0, driver.Entry{})
	require.NoError(t, err)
	held, waits := create(t, in, "/rights", driver.Permit).Self, create(t, in, "/rights", driver.Permit).Self
	watched, cancel := context.WithCancel(t.Context())
	_, _ = in.Watch(watched, held, []driver.Target{{Entry: held}}, cancel) // as what is held for a while is
	account := func() []any {
		return admin.HMGet(within(t, soon), prefix+"size:/rights", "held", "granted").Val()
	}

	change("resetchannels")
	_, found, err := in.Delete(within(t, soon), held)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, []any{"1", "1"}, account(), "those of the one that waited")
	v, err := in.Ahead(within(t, soon), waits, true)
	require.NoError(t, err)
	require.Empty(t, v.Entries)

	// Where another command is taken away, a script may have done a part. The account is its first.
	change("-hincrby")
	_, _, err = in.Delete(within(t, soon), waits)
	require.Error(t, err)
	require.Equal(t, driver.Unknown, s.Outcome(err), err)
	require.Equal(t, []any{"1", "1"}, account())
	change("+@all", "&farsync:{farsync}:*")
	_, found, err = in.Delete(within(t, soon), waits)
	require.NoError(t, err)
	require.True(t, found, "nothing of it was removed")
	require.Equal(t, []any{"0", "0"}, account())
}
