package zk_test

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"os"
	"os/exec"
	"strings"
	"sync"
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
	tap       *tap
	passwords *sync.Map // of sessions
	admin     *client.Conn
}

func (c electionClient) Close() error { return c.Store.Close() }

// Expire ends the session that a node shows to be the client's: the tap itself knows only of the last handshake, which
// may be one with a session that is over. It holds the client back meanwhile: if that came back first, the server would
// hang up on the tap instead.
func (c electionClient) Expire(t testing.TB) {
	e, _, err := c.Join(within(t, soon), recipe.Request{
		Queue: "/expire/" + rand.Text(), Kind: recipe.Exclusive, Units: 1, Rule: recipe.ExclusiveRule(),
	})
	require.NoError(t, err)
	c.Cut()
	defer c.Heal()
	_, err = c.admin.Sync(e.ID)
	require.NoError(t, err)
	_, stat, err := c.admin.Exists(e.ID)
	require.NoError(t, err)
	password, ok := c.passwords.Load(stat.EphemeralOwner)
	require.True(t, ok)
	c.tap.mu.Lock()
	c.tap.session, c.tap.password = stat.EphemeralOwner, password.([]byte)
	c.tap.mu.Unlock()
	c.tap.expire(t)
}

// keepPasswords has the tap note the passwords of all sessions that go through it.
func keepPasswords(p *tap) *sync.Map {
	var passwords sync.Map
	p.onReply(func(op int32, frame []byte) verdict {
		if op == opConnect {
			passwords.Store(int64(binary.BigEndian.Uint64(frame[12:])), bytes.Clone(frame[24:40]))
		}
		return pass
	})
	return &passwords
}

func TestElectionsOnAnEnsemble(t *testing.T) {
	noLeaks(t)
	ensemble := embedtest.ZooKeeperEnsemble(t, 3)
	admin := newConn(t, ensemble.Member(0).Endpoint())
	var opened atomic.Int64
	electiontest.Run(t, electiontest.Cluster{
		TTL: electionTTL,
		Open: func(t testing.TB) electiontest.Client {
			p := newTap(t, ensemble.Endpoints()[opened.Add(1)%3])
			passwords, proxy := keepPasswords(p), embedtest.NewProxy(t, p.addr())
			store := newStore(t, proxy.Addr(), &zk.Options{TTL: electionTTL})
			return electionClient{store, proxy, p, passwords, admin}
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
