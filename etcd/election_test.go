package etcd_test

import (
	"crypto/rand"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/electiontest"
	"github.com/farsync/farsync/recipe"
)

const (
	electionTTL       = 2 * time.Second
	endpointsVariable = "FARSYNC_ELECTION_ETCD"
)

// An electionClient is a Store behind a proxy of its own.
type electionClient struct {
	*etcd.Store
	*embedtest.Proxy
	admin *clientv3.Client
}

func (c electionClient) Close() error { return c.Store.Close() }

// Expire revokes the lease that an entry shows to be the session's.
func (c electionClient) Expire(t testing.TB) {
	e, _, err := c.Join(within(t, soon), recipe.Request{
		Queue: "/expire/" + rand.Text(), Kind: recipe.Exclusive, Units: 1, Rule: recipe.ExclusiveRule(),
	})
	require.NoError(t, err)
	revokeLeaseOf(t, c.admin, keysOf(t, c.admin, e.Queue)[0])
}

func TestElectionsOnACluster(t *testing.T) {
	noLeaks(t)
	cluster := embedtest.EtcdCluster(t, 3)
	admin := clientOf(t, clientv3.Config{Endpoints: cluster.Endpoints()})
	var opened atomic.Int64
	electiontest.Run(t, electiontest.Cluster{
		TTL: electionTTL,
		Open: func(t testing.TB) electiontest.Client {
			proxy := embedtest.NewProxy(t, cluster.Endpoints()[opened.Add(1)%3])
			store := newStore(t, "http://"+proxy.Addr(), &etcd.Options{TTL: electionTTL})
			return electionClient{store, proxy, admin}
		},
		Delete: func(t testing.TB, e recipe.Entry) {
			_, err := admin.Delete(within(t, soon), e.ID)
			require.NoError(t, err)
		},
		Command: func() *exec.Cmd {
			command := exec.Command(os.Args[0], "-test.run=^TestElectionProcess$")
			command.Env = append(os.Environ(), endpointsVariable+"="+strings.Join(cluster.Endpoints(), ","))
			return command
		},
	})
}

// TestElectionProcess is the main of a process that TestElectionsOnACluster starts, and otherwise nothing.
func TestElectionProcess(t *testing.T) {
	if !electiontest.IsProcess() {
		return
	}
	client := clientOf(t, clientv3.Config{Endpoints: strings.Split(os.Getenv(endpointsVariable), ",")})
	require.NoError(t, electiontest.Play(storeOn(t, client, &etcd.Options{TTL: electionTTL})))
}
