package zk_test

import (
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/electiontest"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/zk"
)

const (
	electionTTL     = 2 * time.Second
	serversVariable = "FARSYNC_ELECTION_ZOOKEEPER"
)

// An electionClient is a Store behind a proxy and a tap of its own.
type electionClient struct {
	*zk.Store
	*embedtest.Proxy
	tap *tap
}

func (c electionClient) Close() error        { return c.Store.Close() }
func (c electionClient) Expire(t testing.TB) { c.tap.expire(t) }

func TestElectionsOnAnEnsemble(t *testing.T) {
	noLeaks(t)
	ensemble := embedtest.ZooKeeperEnsemble(t, 3)
	admin := newConn(t, ensemble.Member(0).Endpoint())
	var opened atomic.Int64
	electiontest.Run(t, electiontest.Cluster{
		TTL: electionTTL,
		Open: func(t testing.TB) electiontest.Client {
			p := newTap(t, ensemble.Endpoints()[opened.Add(1)%3])
			proxy := embedtest.NewProxy(t, p.addr())
			return electionClient{newStore(t, proxy.Addr(), &zk.Options{TTL: electionTTL}), proxy, p}
		},
		Delete: func(t testing.TB, e recipe.Entry) {
			if err := admin.Delete(e.ID, -1); err != nil {
				require.ErrorIs(t, err, client.ErrNoNode)
			}
		},
		Command: func() *exec.Cmd {
			command := exec.Command(os.Args[0], "-test.run=^TestElectionProcess$")
			command.Env = append(os.Environ(), serversVariable+"="+strings.Join(ensemble.Endpoints(), ","))
			return command
		},
	})
}

// TestElectionProcess is the main of a process that TestElectionsOnAnEnsemble starts, and otherwise nothing.
func TestElectionProcess(t *testing.T) {
	if !electiontest.IsProcess() {
		return
	}
	servers := strings.Split(os.Getenv(serversVariable), ",")
	store, err := zk.Open(within(t, soon), servers, &zk.Options{TTL: electionTTL})
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, electiontest.Play(store))
}
