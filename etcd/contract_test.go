package etcd

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/storetest"
)

// TestDriverKeepsTheContract runs the cases that every driver must pass.
func TestDriverKeepsTheContract(t *testing.T) {
	server := embedtest.Etcd(t)
	admin := newClient(t, []string{server.Endpoint()})
	proxies := map[driver.Service]*embedtest.Proxy{}
	foreign := func(t *testing.T, queue string, options ...clientv3.OpOption) driver.Entry {
		key := queue + "/" + rand.Text()
		_, err := admin.Put(t.Context(), key, "another program's", options...)
		require.NoError(t, err)
		return driver.Entry{Queue: queue, ID: key}
	}
	storetest.RunDriver(t, storetest.Backend{
		Open: func(t *testing.T) driver.Service {
			proxy := embedtest.NewProxy(t, server.Endpoint())
			s, err := newService(newClient(t, []string{"http://" + proxy.Addr()}))
			require.NoError(t, err)
			proxies[s] = proxy
			return s
		},
		TTL: 2 * time.Second,
		Expire: func(t *testing.T, s driver.Session) {
			v, err := s.Create(t.Context(), driver.Entry{
				Queue: "/expire", ID: s.NewID("/expire", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
			}, 0)
			require.NoError(t, err)
			resp, err := admin.Get(t.Context(), v.Self.ID)
			require.NoError(t, err)
			_, err = admin.Revoke(t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease))
			require.NoError(t, err)
		},
		Delete: func(t *testing.T, e driver.Entry) {
			resp, err := admin.Delete(t.Context(), e.ID)
			require.NoError(t, err)
			require.EqualValues(t, 1, resp.Deleted)
		},
		Foreign: func(t *testing.T, queue string) driver.Entry {
			lease, err := admin.Grant(t.Context(), 600)
			require.NoError(t, err)
			return foreign(t, queue, clientv3.WithLease(lease.ID))
		},
		Stray: func(t *testing.T, queue string) driver.Entry { return foreign(t, queue) },
		Cut: func(_ *testing.T, service driver.Service, silent bool) {
			if silent {
				proxies[service].Cut()
			} else {
				proxies[service].Heal()
			}
		},
	})
}
