//go:build unix

package embedtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// becomes waits until a command's answer has some words in it.
func becomes(t *testing.T, endpoint, command, want string) {
	t.Helper()
	require.Eventually(t, func() bool {
		got, err := ask(t, endpoint, command, soon)
		return err == nil && strings.Contains(got, want)
	}, soon, 10*time.Millisecond, want)
}

func TestSentinelsReplaceAMasterThatIsDead(t *testing.T) {
	suite.Long(t, suite.Redis, "kills the master")
	master := embedtest.Redis(t)
	host, port, _ := strings.Cut(master.Endpoint(), ":")
	replica := embedtest.Redis(t, "--replicaof", host+" "+port)
	sentinels := embedtest.Sentinels(t, 3, master)
	require.Len(t, sentinels.Endpoints(), 3)
	answers(t, replica.Endpoint(), "SET key value", "-READONLY You can't write against a read only replica.")
	master.Kill()
	becomes(t, replica.Endpoint(), "SET key value", "+OK")
}

func TestRedisClusterReplacesAMasterThatIsDead(t *testing.T) {
	suite.Long(t, suite.Redis, "kills a master of a cluster")
	cluster := embedtest.RedisClusterOf(t, 3)
	require.Len(t, cluster.Endpoints(), 6)
	owner, err := cluster.Owner(within(t, soon), "{key}")
	require.NoError(t, err)
	answers(t, cluster.Member(owner).Endpoint(), "SET {key} value", "+OK")
	got, err := ask(t, cluster.Member((owner+1)%3).Endpoint(), "SET {key} value", soon)
	require.NoError(t, err)
	require.Contains(t, got, "-MOVED")
	replica := cluster.Member(owner + 3).Endpoint()
	becomes(t, replica, "DBSIZE", ":1") // the one command about its keys that it answers itself
	cluster.Member(owner).Kill()
	becomes(t, replica, "GET {key}", "value")
}
