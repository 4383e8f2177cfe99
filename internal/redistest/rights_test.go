package redistest_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
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
	change("-hset")
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

// TestSubscriptionThatIsRefused: a Store that may not subscribe any more says so, once, and what waits looks by itself until it may again.
func TestSubscriptionThatIsRefused(t *testing.T) {
	suite.Long(t, suite.Redis, "a waiter has to look by itself within 30 s")
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	change := func(rules ...any) {
		require.NoError(t, admin.Do(within(t, soon), append([]any{"ACL", "SETUSER", "member"}, rules...)...).Err())
	}
	change("on", ">pass", "~farsync:{farsync}:*", "&farsync:{farsync}:*", "+@all")
	var log locktest.Log
	options := fresh(time.Minute)
	options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	store, err := openAt(within(t, soon), &client.UniversalOptions{
		Addrs: []string{server.Endpoint()}, Username: "member", Password: "pass",
	}, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	lease := lock(t, newStore(t, server.Endpoint(), fresh(time.Minute)), "/deaf")
	next := make(chan error, 1)
	go func() { // joined below
		lease, err := farsync.NewMutex(store, "/deaf").Lock(within(t, 2*soon))
		if err == nil {
			err = lease.Release()
		}
		next <- err
	}()
	require.Eventually(t, func() bool { return admin.ZCard(within(t, soon), prefix+"q:/deaf").Val() == 2 }, soon, time.Millisecond)

	change("-ssubscribe")
	require.NoError(t, admin.ClientKillByFilter(within(t, soon), "TYPE", "pubsub").Err())
	const words = "no subscription to redis"
	log.Await(t, words)
	require.Contains(t, log.String(), "NOPERM")
	begun := time.Now()
	require.NoError(t, lease.Release())
	select {
	case err := <-next:
		require.NoError(t, err)
		t.Log("handed over after", time.Since(begun))
	case <-time.After(30 * time.Second): // the least after which one with a subscription does
		require.Fail(t, "a waiter looks by itself only as late as one with a subscription")
	}
	require.Equal(t, farsync.StateConnected, store.State())
	require.Equal(t, 1, strings.Count(log.String(), words))

	change("+ssubscribe")
	require.Eventually(t, func() bool {
		return len(admin.PubSubShardChannels(within(t, soon), prefix+"c:*").Val()) == 2
	}, soon, 10*time.Millisecond)
}
