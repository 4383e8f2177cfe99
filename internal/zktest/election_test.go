package zktest

import (
	"crypto/rand"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/electiontest"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/zk"
)

const (
	electionTTL     = 2 * time.Second
	serversVariable = "FARSYNC_ELECTION_ZOOKEEPER"
)

// An electionControl is what happens to a Store behind a proxy and a tap of its own.
type electionControl struct {
	*embedtest.Proxy
	store     *farsync.Store
	server    string
	passwords *sync.Map // of sessions
	admin     *client.Conn
}

// Expire ends the session that a node shows to be the client's: the tap itself knows only of the last handshake, which
// may be one with a session that is over. It holds the client back meanwhile: if that came back first, the server would
// hang up on the tap instead.
func (c electionControl) Expire(t testing.TB) {
	lease := lock(t, c.store, "/expire/"+rand.Text())
	c.Cut()
	defer c.Heal()
	expireOwner(t, c.server, c.admin, c.passwords, nodeOf(t, lease))
}

func TestElectionsOnAnEnsemble(t *testing.T) {
	noLeaks(t)
	ensemble := embedtest.ZooKeeperEnsemble(t, 3)
	admin := newConn(t, ensemble.Member(0).Endpoint())
	var opened atomic.Int64
	var passwords sync.Map
	open := func(t testing.TB, wrap func(driver.Service) driver.Service) electiontest.Client {
		server := ensemble.Endpoints()[opened.Add(1)%3]
		p := newTap(t, server)
		keepPasswords(p, &passwords)
		proxy := embedtest.NewProxy(t, p.addr())
		service, err := zk.NewService([]string{proxy.Addr()}, nil)
		require.NoError(t, err)
		store, err := recipe.Open(within(t, soon), wrap(service), farsync.Options{TTL: electionTTL})
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return electiontest.Client{Store: store, Control: electionControl{proxy, store, server, &passwords, admin}}
	}
	electiontest.Run(t, electiontest.Cluster{
		TTL: electionTTL,
		Open: func(t testing.TB) electiontest.Client {
			return open(t, func(s driver.Service) driver.Service { return s })
		},
		OpenOver: open,
		Delete: func(t testing.TB, e driver.Entry) {
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
	store, err := zk.Open(within(t, soon), servers, withTTL(electionTTL))
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, electiontest.Play(store))
}
