//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
)

// TestUnreadableNodeIsARow: a node of ZooKeeper that an ACL hides is shown with the reason, and all other locks are
// shown beside it.
func TestUnreadableNodeIsARow(t *testing.T) {
	t.Parallel()
	server := embedtest.ZooKeeper(t)
	url := "zk://" + server.Endpoint()
	conn, _, err := zk.Connect([]string{server.Endpoint()}, time.Minute, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	_, err = conn.Create("/nrx", nil, 0, zk.DigestACL(zk.PermAll, "owner", "pass"))
	require.NoError(t, err)
	store, closed := open(t, url)
	t.Cleanup(closed)
	lease, err := farsync.NewMutex(store, "/good").Lock(t.Context())
	require.NoError(t, err)
	const why = `node "/nrx": an ACL forbids it to clients without a Digest`
	who := start(t, url, "who")
	require.Zero(t, who.code(t), who.err.String())
	require.Contains(t, who.out.String(), why)
	require.Contains(t, who.out.String(), "/good")
	who = start(t, url, "who", "--holder", "x")
	require.NotContains(t, who.out.String(), why)
	who.code(t)
	who = start(t, url, "who", "/nrx")
	require.NotZero(t, who.code(t))
	require.Contains(t, who.err.String(), why)
	doctor := start(t, url, "doctor")
	require.Equal(t, 1, doctor.code(t), doctor.err.String())
	require.Contains(t, doctor.out.String(), "!!  queues: /nrx: "+why)
	require.NoError(t, lease.Release())
}
