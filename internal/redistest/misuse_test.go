package redistest_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/redis"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	protected := embedtest.Redis(t, "--requirepass", "secret")
	evicting := embedtest.Redis(t, "--maxmemory-policy", "allkeys-lru")
	replica := replicaOf(t, server.Endpoint())
	old := embedtest.Redis(t, "--rename-command", "SSUBSCRIBE", "") // which version 6 does not have
	admin := newClient(t, server.Endpoint())
	acl := func(name string, rules ...any) *client.UniversalOptions {
		args := append([]any{"ACL", "SETUSER", name, "on", ">pass"}, rules...)
		require.NoError(t, admin.Do(within(t, soon), args...).Err())
		return &client.UniversalOptions{Addrs: []string{server.Endpoint()}, Username: name, Password: "pass"}
	}
	all := []any{"allcommands", "allkeys", "allchannels"}
	for _, row := range []struct {
		name  string
		to    *client.UniversalOptions
		o     *redis.Options
		words string
	}{
		{"no password", at(protected.Endpoint()), nil, "NOAUTH"},
		{
			"another password", &client.UniversalOptions{Addrs: []string{protected.Endpoint()}, Password: "wrong"}, nil,
			"WRONGPASS",
		},
		{"a server that evicts", at(evicting.Endpoint()), nil, "maxmemory-policy allkeys-lru"},
		{"a replica", at(replica.Endpoint()), nil, "replica"},
		{"an old server", at(old.Endpoint()), nil, "7 or newer"},
		{"no scripts", acl("a", append(all, "-evalsha")...), nil, "NOPERM"},
		{"no INFO", acl("b", append(all, "-info")...), nil, "NOPERM"},
		{"no channel", acl("c", "allcommands", "allkeys", "resetchannels"), nil, "NOPERM"},
		{"a namespace", at(server.Endpoint()), &redis.Options{Namespace: "{x}"}, "option Namespace"},
		{"replicas", at(server.Endpoint()), &redis.Options{Replicas: -1}, "option Replicas"},
		{"a TTL", at(server.Endpoint()), fresh(time.Millisecond), "option TTL"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := redis.Open(within(t, soon), row.to, row.o)
			require.ErrorContains(t, err, row.words)
			require.NotErrorIs(t, err, farsync.ErrUnavailable)
			t.Log(err)
		})
	}
	if suite.More(t, suite.Redis) {
		server.Kill()
		_, err := redis.Open(within(t, time.Second), at(server.Endpoint()), nil)
		require.ErrorIs(t, err, farsync.ErrUnavailable)
		require.ErrorContains(t, err, "refused")
	}
}

// TestFullMemoryLosesNothing: what is held is renewed, what waits is served, and what is new is refused.
func TestFullMemoryLosesNothing(t *testing.T) {
	suite.Long(t, suite.Redis, "waits for renewals of a TTL of 2 s, which must be in time")
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	const ttl = 2 * time.Second
	store := newStore(t, server.Endpoint(), fresh(ttl))
	first := lock(t, store, "/full")
	other, next := newStore(t, server.Endpoint(), fresh(ttl)), make(chan *farsync.Lease, 1)
	go func() { // joined below
		lease, err := farsync.NewMutex(other, "/full").Lock(within(t, soon))
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	require.Eventually(t, func() bool {
		n, err := admin.ZCard(within(t, soon), prefix+"q:/full").Result()
		return err == nil && n == 2
	}, soon, time.Millisecond)
	require.NoError(t, admin.ConfigSet(within(t, soon), "maxmemory", "1").Err())
	begun := time.Now()
	_, err := farsync.NewMutex(store, "/other").Lock(within(t, soon))
	require.ErrorContains(t, err, "OOM")
	<-time.After(2*ttl - time.Since(begun))
	require.NoError(t, first.Err(), "it was renewed")
	require.NoError(t, first.Release())
	lease := <-next
	require.NotNil(t, lease)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
	require.NoError(t, admin.ConfigSet(within(t, soon), "maxmemory", "0").Err())
	require.NoError(t, lock(t, store, "/other").Release())
}

// TestNamespacesKnowNothingOfEachOther: nor does the introduction of one hide from the other that the server was restarted.
func TestNamespacesKnowNothingOfEachOther(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the server")
	t.Parallel()
	server := embedtest.Redis(t)
	in := func(namespace string, fresh bool) *farsync.Store {
		return newStore(t, server.Endpoint(), &redis.Options{
			Options: farsync.Options{TTL: fenceTTL}, Namespace: namespace, Fresh: fresh,
		})
	}
	proxy := embedtest.NewProxy(t, server.Endpoint())
	holder, err := redis.Open(within(t, soon), at(proxy.Addr()), &redis.Options{
		Options: farsync.Options{TTL: fenceTTL}, Namespace: "one", Fresh: true,
	})
	require.NoError(t, err)
	defer func() { _ = holder.Close() }()
	lease := lock(t, holder, "/apart")
	require.NoError(t, lock(t, in("two", true), "/apart").Release(), "the same path in another namespace")
	proxy.Cut()
	server.Kill()
	require.NoError(t, server.Forget())
	require.NoError(t, server.Restart(within(t, soon)))
	require.NoError(t, lock(t, in("two", true), "/apart").Release())
	next := lock(t, in("one", false), "/apart")
	require.ErrorIs(t, lease.Err(), farsync.ErrLost, "it was over before the next was granted")
	require.NoError(t, next.Release())
}

// TestReplicasKeepHoldersApart: a master that was replaced and lives on keeps no holder that wants replicas to confirm.
func TestReplicasKeepHoldersApart(t *testing.T) {
	suite.Long(t, suite.Redis, "promotes a replica, and waits for a TTL of 2 s")
	t.Parallel()
	master := embedtest.Redis(t)
	replica := replicaOf(t, master.Endpoint())
	confirmed := &redis.Options{Options: farsync.Options{TTL: fenceTTL}, Replicas: 1, Fresh: true}
	section := locktest.NewSection(t, 1)
	holder := newStore(t, master.Endpoint(), confirmed)
	lease := lock(t, holder, "/split")
	defer section.Enter(lease, 1)()
	promote(t, replica)
	next := lock(t, newStore(t, replica.Endpoint(), fresh(fenceTTL)), "/split")
	section.Visit(t.Context(), next, 1)
	require.Empty(t, section.Overlaps())
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	require.Greater(t, next.Token(), lease.Token())
	_, err := newService(t, master.Endpoint(), confirmed).Open(within(t, soon), fenceTTL)
	require.ErrorContains(t, err, "0 of 1 replicas")
}

// TestNewNamespaceIsSilent, and says so: the first lock takes a TTL, and a TryLock does not wait.
func TestNewNamespaceIsSilent(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	var log locktest.Log
	ttl, ends := time.Hour, suite.More(t, suite.Redis) // ends: the end of the silence is waited for
	if ends {
		ttl = fenceTTL
	}
	store := newStore(t, server.Endpoint(), &redis.Options{
		Options: farsync.Options{TTL: ttl, Logger: slog.New(slog.NewTextHandler(&log, nil))},
	})
	log.Await(t, "it grants nothing for a while")
	begun := time.Now()
	_, err := farsync.NewMutex(store, "/new").TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrUnavailable)
	require.NotErrorIs(t, err, farsync.ErrLocked)
	if !ends {
		return
	}
	_, err = farsync.NewMutex(store, "/new").Lock(within(t, 100*time.Millisecond))
	require.ErrorIs(t, err, farsync.ErrUnavailable)
	require.ErrorContains(t, err, "nothing is granted for ")
	for _, lock := range []func() (*farsync.Lease, error){
		func() (*farsync.Lease, error) { return farsync.NewRWMutex(store, "/new/rw").RLock(within(t, soon)) },
		func() (*farsync.Lease, error) {
			return farsync.NewSemaphore(store, "/new/s", 3).Acquire(within(t, soon), 2)
		},
	} {
		lease, err := lock()
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(begun), fenceTTL-time.Second)
		require.NoError(t, lease.Release())
	}
}

func TestMisuseOfEveryStore(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	locktest.Mistaken{Open: func(ctx context.Context, options farsync.Options) (*farsync.Store, error) {
		return redis.Open(ctx, at(server.Endpoint()), &redis.Options{Options: options, Fresh: true})
	}, Opens: "farsync: open redis: "}.Run(t)
}
