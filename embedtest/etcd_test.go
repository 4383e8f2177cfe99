//go:build unix

package embedtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// soon bounds what must happen; brief is how long a test looks on while nothing may happen.
const (
	soon  = time.Minute
	brief = 200 * time.Millisecond
)

func TestEtcdServes(t *testing.T) {
	client := dial(t, embedtest.Etcd(t).Endpoint())
	put(t, client, "key", "value")
	require.Equal(t, "value", get(t, client, "key"))
}

func TestPausedEtcdDoesNotAnswerUntilResume(t *testing.T) {
	suite.Long(t, suite.Etcd, "stops the server")
	server := embedtest.Etcd(t)
	client := dial(t, server.Endpoint())
	put(t, client, "key", "value")

	server.Pause()
	server.Pause() // once more changes nothing
	require.ErrorIs(t, ping(t, client, brief), context.DeadlineExceeded)

	server.Resume()
	require.Equal(t, "value", get(t, client, "key"))
}

func TestKilledEtcdKeepsItsDataAndAddressOverRestart(t *testing.T) {
	suite.Long(t, suite.Etcd, "kills the server")
	server := embedtest.Etcd(t)
	endpoint := server.Endpoint()
	client := dial(t, endpoint)
	put(t, client, "key", "value")

	server.Kill()
	server.Kill() // once more changes nothing
	require.Error(t, ping(t, client, brief))

	require.NoError(t, server.Restart(within(t, soon)))
	require.Equal(t, endpoint, server.Endpoint())
	require.Equal(t, "value", get(t, dial(t, endpoint), "key"))
	require.Equal(t, "value", get(t, client, "key"), "the client of before is of use again")
}

func TestPausedEtcdCanBeKilled(t *testing.T) {
	suite.Long(t, suite.Etcd, "stops and kills the server")
	server := embedtest.Etcd(t)
	server.Pause()
	server.Kill()
	require.NoError(t, server.Restart(within(t, soon)))
	put(t, dial(t, server.Endpoint()), "key", "value")
}

func TestEtcdWithFsyncServes(t *testing.T) {
	put(t, dial(t, embedtest.Etcd(t, embedtest.Fsync()).Endpoint()), "key", "value")
}

func TestEtcdClusterForBenchmarksServesButCannotBeIsolated(t *testing.T) {
	suite.Long(t, suite.Etcd, "a cluster has to keep its leader")
	ensemble := embedtest.EtcdCluster(t, 3, embedtest.Bench())
	put(t, dial(t, ensemble.Member(1).Endpoint()), "key", "value")
	require.Panics(t, func() { ensemble.Isolate(0) })
	ensemble.Heal()
}

func TestIsolatedLeaderIsReplacedAndRejoins(t *testing.T) {
	suite.Long(t, suite.Etcd, "isolates the leader")
	ensemble := embedtest.EtcdCluster(t, 3)
	require.Len(t, ensemble.Endpoints(), 3)
	old, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	isolated := dial(t, ensemble.Member(old).Endpoint())
	put(t, isolated, "key", "before")

	ensemble.Isolate(old)
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	require.NotEqual(t, old, leader)
	put(t, dial(t, ensemble.Member(leader).Endpoint()), "key", "meanwhile")

	require.Error(t, ping(t, isolated, time.Second), "no majority, no linearizable read")
	stale, err := isolated.Get(within(t, soon), "key", clientv3.WithSerializable())
	require.NoError(t, err, "clients still reach the isolated member")
	require.Equal(t, "before", string(stale.Kvs[0].Value), "and it has heard nothing")

	ensemble.Heal()
	require.NoError(t, ping(t, isolated, soon))
	require.Equal(t, "meanwhile", get(t, isolated, "key"))
}

// TestLeaderThatIsHeardOrHearsIsReplaced: a leader that is cut off in one direction serves none that needs a majority.
func TestLeaderThatIsHeardOrHearsIsReplaced(t *testing.T) {
	suite.Long(t, suite.Etcd, "cuts the leader off in one direction")
	for _, direction := range []struct {
		name string
		cut  func(*embedtest.EtcdEnsemble, int)
	}{{"unheard", func(e *embedtest.EtcdEnsemble, i int) { e.Mute(i) }}, {"deaf", func(e *embedtest.EtcdEnsemble, i int) { e.Deafen(i) }}} {
		t.Run(direction.name, func(t *testing.T) {
			t.Parallel()
			ensemble := embedtest.EtcdCluster(t, 3)
			old, err := ensemble.Leader(within(t, soon))
			require.NoError(t, err)
			there := dial(t, ensemble.Member(old).Endpoint())
			other := dial(t, ensemble.Member((old+1)%3).Endpoint())
			put(t, there, "key", "before")
			direction.cut(ensemble, old)
			require.Error(t, ping(t, there, time.Second), "no majority, no linearizable read")
			require.NoError(t, ping(t, other, soon), "the others have another leader")
			put(t, other, "key", "meanwhile")
			ensemble.Heal()
			require.NoError(t, ping(t, there, soon))
			require.Equal(t, "meanwhile", get(t, there, "key"))
		})
	}
}

func TestIsolatedFollowerDoesNotDisturbTheOthers(t *testing.T) {
	suite.Long(t, suite.Etcd, "isolates a follower")
	ensemble := embedtest.EtcdCluster(t, 3)
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	follower := (leader + 1) % 3

	ensemble.Isolate(follower)
	put(t, dial(t, ensemble.Member(leader).Endpoint()), "key", "value")
	require.Error(t, ping(t, dial(t, ensemble.Member(follower).Endpoint()), time.Second))

	ensemble.Heal()
	require.Equal(t, "value", get(t, dial(t, ensemble.Member(follower).Endpoint()), "key"))
	still, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	require.Equal(t, leader, still)
}

func TestClusterSurvivesTheDeathOfItsLeader(t *testing.T) {
	suite.Long(t, suite.Etcd, "kills the leader")
	ensemble := embedtest.EtcdCluster(t, 3)
	old, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	put(t, dial(t, ensemble.Member(old).Endpoint()), "key", "value")

	ensemble.Member(old).Kill()
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	require.NotEqual(t, old, leader)
	require.Equal(t, "value", get(t, dial(t, ensemble.Member(leader).Endpoint()), "key"))

	require.NoError(t, ensemble.Member(old).Restart(within(t, soon)))
	require.Equal(t, "value", get(t, dial(t, ensemble.Member(old).Endpoint()), "key"))
}

func TestWholeClusterRestarts(t *testing.T) {
	suite.Long(t, suite.Etcd, "restarts a cluster")
	ensemble := embedtest.EtcdCluster(t, 3)
	put(t, dial(t, ensemble.Member(0).Endpoint()), "key", "value")
	require.NoError(t, ensemble.Restart(within(t, soon)))
	require.Equal(t, "value", get(t, dial(t, ensemble.Member(2).Endpoint()), "key"))
}

func TestStartEtcdGoesOnWithTheDataOfItsDirectory(t *testing.T) {
	suite.Long(t, suite.Etcd, "ends the server, and starts it again")
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	for _, value := range []string{"", "first"} {
		ensemble, err := embedtest.StartEtcd(within(t, soon), dir, 1)
		require.NoError(t, err)
		client, err := clientv3.New(clientv3.Config{Endpoints: ensemble.Endpoints()})
		require.NoError(t, err)
		require.Equal(t, value, get(t, client, "key"))
		put(t, client, "key", "first")
		require.NoError(t, client.Close())
		require.NoError(t, ensemble.Close())
		require.NoError(t, ensemble.Close(), "once more changes nothing")
	}
}

func TestRestartAfterCloseFails(t *testing.T) {
	ensemble, err := embedtest.StartEtcd(within(t, soon), t.TempDir(), 1)
	require.NoError(t, err)
	require.NoError(t, ensemble.Close())
	require.Error(t, ensemble.Member(0).Restart(within(t, soon)))
}

func TestStartEtcdReturnsWhenItsContextIsDone(t *testing.T) {
	defer func() { require.NoError(t, locktest.Leaks()) }()
	_, err := embedtest.StartEtcd(within(t, time.Millisecond), t.TempDir(), 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestCleanupLeavesNoGoroutine(t *testing.T) {
	suite.Long(t, suite.Etcd, "isolates, stops and kills members of a cluster")
	defer goleak.VerifyNone(t)
	t.Run("servers", func(t *testing.T) {
		ensemble := embedtest.EtcdCluster(t, 3)
		proxy := embedtest.NewProxy(t, ensemble.Member(0).Endpoint())
		put(t, dial(t, proxy.Addr()), "key", "value")
		proxy.Cut()
		ensemble.Isolate(0)
		ensemble.Member(1).Pause()
		ensemble.Member(2).Kill()
	})
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func dial(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Context: context.WithoutCancel(t.Context())})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func put(t testing.TB, client *clientv3.Client, key, value string) {
	t.Helper()
	_, err := client.Put(within(t, soon), key, value)
	require.NoError(t, err)
}

// get returns "" for a key that is not there.
func get(t testing.TB, client *clientv3.Client, key string) string {
	t.Helper()
	response, err := client.Get(within(t, soon), key)
	require.NoError(t, err)
	if len(response.Kvs) == 0 {
		return ""
	}
	return string(response.Kvs[0].Value)
}

func ping(t testing.TB, client *clientv3.Client, d time.Duration) error {
	_, err := client.Get(within(t, d), "ping")
	return err
}
