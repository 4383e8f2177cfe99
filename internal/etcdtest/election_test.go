package etcdtest_test

import (
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/electiontest"
	"github.com/farsync/farsync/internal/suite"
)

const (
	electionTTL       = 2 * time.Second
	endpointsVariable = "FARSYNC_ELECTION_ETCD"
)

// An electionControl is what happens to a Store that has a proxy of its own.
type electionControl struct {
	*embedtest.Proxy
	store *farsync.Store
	admin administrator
}

func (c electionControl) Expire(t testing.TB) { c.admin.expire(t, c.store) }

func TestElectionsOnACluster(t *testing.T) {
	suite.Long(t, suite.Etcd, "elections with a TTL of 2 s while clients are cut off")
	t.Parallel()
	noLeaks(t)
	cluster := embedtest.EtcdCluster(t, 3)
	admin := administrator{clientOf(t, clientv3.Config{Endpoints: cluster.Endpoints()})}
	var opened atomic.Int64
	open := func(t testing.TB, ttl time.Duration, wrap ...func(driver.Service) driver.Service) electiontest.Client {
		proxy := embedtest.NewProxy(t, cluster.Endpoints()[opened.Add(1)%3])
		client := newClient(t, "http://"+proxy.Addr())
		service, err := etcd.NewService(client)
		require.NoError(t, err)
		for _, over := range wrap {
			service = over(service)
		}
		store, err := farsync.Open(within(t, soon), service, &farsync.Options{TTL: ttl})
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return electiontest.Client{Store: store, Control: electionControl{proxy, store, admin}}
	}
	electiontest.Run(t, electiontest.Cluster{
		TTL:  electionTTL,
		Open: open,
		Delete: func(t testing.TB, e driver.Entry) {
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
	require.NoError(t, electiontest.Play(storeOn(t, client, ttl(electionTTL))))
}
