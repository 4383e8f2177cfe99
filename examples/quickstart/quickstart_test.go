//go:build unix

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/examples/internal/program"
	"github.com/farsync/farsync/examples/internal/programtest"
	"github.com/farsync/farsync/internal/suite"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

func TestNothingIsLost(t *testing.T) {
	suite.Long(t, suite.Command, "kills and stops workers, with a TTL of 2 s")
	for _, test := range []struct{ name, args string }{
		{"mutex", ""},
		{"rw", "-primitive rw"},
		{"semaphore", "-primitive semaphore"},
		{"zk", "-store zk"},
		{"sqlite", "-store sqlite"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if strings.Contains(test.args, "zk") {
				programtest.NeedZooKeeper(t)
			}
			t.Parallel()
			nothingIsLost(t, strings.Fields(test.args)...)
		})
	}
}

func nothingIsLost(t *testing.T, args ...string) {
	status, out, errs := programtest.Run(t, append(args, "-adds", "40", "-ttl", "2s")...)
	require.Zero(t, status, "%s%s", out, errs)
	require.Empty(t, errs)
	require.Equal(t, 160, programtest.Count(t, out, "expected"))
	require.Equal(t, 160, programtest.Count(t, out, "found"))
	require.Zero(t, programtest.Count(t, out, "adds that overlapped"))
	require.GreaterOrEqual(t, programtest.Count(t, out, "acquisitions"), 162, "160 that added, one killed, one stopped")
	require.Greater(t, programtest.Count(t, out, "hand-overs"), 80, "the waiters get it, not the one that just had it")
	require.Equal(t, "yes", programtest.Figure(t, out, "tokens strictly increasing"))
	refused := programtest.Count(t, out, "late requests refused")
	require.Positive(t, refused)
	require.Equal(t, refused, programtest.Count(t, out, "  and their lease was lost"))
	require.Zero(t, programtest.Count(t, out, "late requests accepted"))
	require.Zero(t, programtest.Count(t, out, "entries left in the queue"))
	for _, row := range []string{"lock free after the kill", "lock free after the stop"} {
		t.Logf("%s: %v s", row, programtest.Seconds(t, out, row))
	}
	require.Contains(t, out, "Nothing was lost.")
}

// Four processes at once read and write a number over HTTP, a thousand times in all, and begin together. For none to be
// between the read and the write of another, they would have to run one after the other by chance, each for a tenth of
// a second or more without being interrupted.
func TestWithoutTheLockAddsAreLost(t *testing.T) {
	suite.Long(t, suite.Command, "counts what processes do to one another by chance")
	t.Parallel()
	status, out, _ := programtest.Run(t, "-no-lock")
	require.Equal(t, program.Failed, status, out)
	require.Less(t, programtest.Count(t, out, "found"), programtest.Count(t, out, "expected"))
	require.Positive(t, programtest.Count(t, out, "adds that overlapped"))
	require.Contains(t, out, "adds are lost")
}

func TestWithoutTheFenceTheLateWriteIsAccepted(t *testing.T) {
	suite.Long(t, suite.Command, "kills and stops workers, with a TTL of 2 s")
	t.Parallel()
	status, out, _ := programtest.Run(t, "-no-fence", "-adds", "20")
	require.Equal(t, program.Failed, status, out)
	require.Less(t, programtest.Count(t, out, "found"), programtest.Count(t, out, "expected"))
	require.Positive(t, programtest.Count(t, out, "late requests accepted"))
	require.Zero(t, programtest.Count(t, out, "late requests refused"))
}

func TestNothingIsLeftInTheUsersEtcd(t *testing.T) {
	suite.Long(t, suite.Command, "kills and stops workers, with a TTL of 2 s")
	t.Parallel()
	server := embedtest.Etcd(t)
	status, out, errs := programtest.Run(t, "-adds", "10", "-endpoints", strings.TrimPrefix(server.Endpoint(), "http://"))
	require.Zero(t, status, "%s%s", out, errs)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	all, err := client.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	require.Zero(t, all.Count)
}

// However the show is broken off, also while a worker is stopped, no process is left.
func TestNoProcessIsLeft(t *testing.T) {
	suite.Long(t, suite.Command, "kills the program")
	programtest.NothingIsLeft(t, "(SIGSTOP)", "-adds", "20", "-ttl", "5s")
}

func TestFlags(t *testing.T) {
	programtest.Flag(t, "-help", program.AllRight, "-endpoints")
	programtest.Flag(t, "--help", program.AllRight, "exit status")
	programtest.Flag(t, "-adds 9", program.Misused, "-adds 9: at least 10")
	programtest.Flag(t, "-adds many", program.Misused, `"many"`)
	programtest.Flag(t, "-ttl 10ms", program.Misused, "-ttl 10ms: whole seconds, at least 1s")
	programtest.Flag(t, "-endpoints localhost", program.Misused, `"localhost" is not host:port`)
	programtest.Flag(t, "-store redis", program.Misused, `-store "redis": etcd, zk or sqlite`)
	programtest.Flag(t, "-primitive latch", program.Misused, `-primitive "latch"`)
	programtest.Flag(t, "-no-lock -no-fence", program.Misused, "one at a time")
	programtest.Flag(t, "-nolock", program.Misused, "-nolock")
	programtest.Flag(t, "more", program.Misused, `"more"`)
	programtest.Flag(t, "worker", program.Misused, "started by quickstart")
	programtest.Flag(t, "-endpoints 127.0.0.1:1", program.Failed, "no etcd at 127.0.0.1:1")
	programtest.Flag(t, "-store zk -endpoints 127.0.0.1:1", program.Failed, "no ZooKeeper at 127.0.0.1:1")
}
