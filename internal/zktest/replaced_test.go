package zktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// TestServiceThatIsEmptiedTellsItsHolders: all nodes of a queue are removed, and the sessions live on.
func TestServiceThatIsEmptiedTellsItsHolders(t *testing.T) {
	server, admin := begin(t)
	locktest.RunExchange(t, locktest.Exchange{
		Open: func(t *testing.T) *farsync.Store { return newStore(t, server, withTTL(10*time.Second)) },
		Do: func(t *testing.T) {
			all := nodes(t, admin, "/exchanged")
			// From the back: whoever is next when a holder's node goes holds, until his own node goes.
			slices.SortFunc(all, func(a, b string) int { return strings.Compare(b[len(b)-10:], a[len(a)-10:]) })
			for _, node := range all {
				require.NoError(t, admin.Delete(node, -1))
			}
		},
		Overlap: true,
	})
}

// TestHolderIsToldThatASnapshotLacksItsLock: the snapshot knows neither the holder's node nor its session.
func TestHolderIsToldThatASnapshotLacksItsLock(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "kills the server")
	t.Parallel()
	sharedServer(t)
	locktest.NoLeaks(t)
	dir := t.TempDir()
	servers, err := embedtest.StartZooKeeper(within(t, soon), filepath.Join(dir, "zk"), 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, servers.Close()) })
	server, data, copied := servers.Member(0), filepath.Join(dir, "zk", "m0", "data"), filepath.Join(dir, "copied")
	replace := func(t *testing.T, from, to string) {
		server.Kill()
		require.NoError(t, os.RemoveAll(to))
		words, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput()
		require.NoError(t, err, "%s", words)
		require.NoError(t, server.Restart(within(t, soon)))
	}
	require.NoError(t, newStore(t, server.Endpoint(), nil).Close())
	replace(t, data, copied)
	locktest.RunExchange(t, locktest.Exchange{
		Open:    func(t *testing.T) *farsync.Store { return newStore(t, server.Endpoint(), withTTL(20*time.Second)) },
		Do:      func(t *testing.T) { replace(t, copied, data) },
		Overlap: true,
		Falls:   true,
	})
}
