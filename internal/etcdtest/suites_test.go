package etcdtest_test

import (
	"context"
	"crypto/rand"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/driver/drivertest"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// An administrator does on a server what the suites ask for.
type administrator struct{ *clientv3.Client }

// remove deletes the key of an entry.
func (a administrator) remove(t *testing.T, e driver.Entry) {
	resp, err := a.Delete(within(t, soon), e.ID)
	require.NoError(t, err)
	require.EqualValues(t, 1, resp.Deleted)
}

// foreign puts a key as another program does that shares the queue.
func (a administrator) foreign(t *testing.T, queue string) driver.Entry {
	lease, err := a.Grant(within(t, soon), 600)
	require.NoError(t, err)
	return a.stray(t, queue, clientv3.WithLease(lease.ID))
}

// stray puts a key that has no lease, unless an option gives it one.
func (a administrator) stray(t *testing.T, queue string, options ...clientv3.OpOption) driver.Entry {
	key := queue + "/" + rand.Text()
	_, err := a.Put(within(t, soon), key, "another program's", options...)
	require.NoError(t, err)
	return driver.Entry{Queue: queue, ID: key}
}

// expire revokes the Store's session, which an entry shows.
func (a administrator) expire(t testing.TB, store *farsync.Store) {
	path := newPath(t)
	lease := lock(t, store, path)
	revokeLeaseOf(t, a.Client, keysOf(t, a.Client, path)[0])
	_ = lease.Release() // lost
}

// guard returns a write that the owner guards.
func (a administrator) guard(t testing.TB, owner locktest.Owner) func() bool {
	guard := etcd.Guard(owner)
	return func() bool {
		resp, err := a.Txn(within(t, soon)).If(guard...).Then(clientv3.OpPut("/resource", "written")).Commit()
		require.NoError(t, err)
		return resp.Succeeded
	}
}

// suitesTTL is the TTL of the sessions in both suites: a renewal that a busy machine holds up for seconds is still in time.
const suitesTTL = 10 * time.Second

// TestDriverKeepsTheContract runs the cases that every driver must pass.
func TestDriverKeepsTheContract(t *testing.T) {
	server, client := begin(t)
	admin := administrator{client}
	var proxies sync.Map // of the driver.Service: *embedtest.Proxy
	proxyOf := func(s driver.Service) *embedtest.Proxy {
		proxy, _ := proxies.Load(s)
		return proxy.(*embedtest.Proxy)
	}
	drivertest.RunDriver(t, drivertest.Backend{
		Open: func(t *testing.T) driver.Service {
			proxy := embedtest.NewProxy(t, server.Endpoint())
			s, err := etcd.NewService(newClient(t, "http://"+proxy.Addr()))
			require.NoError(t, err)
			proxies.Store(s, proxy)
			return s
		},
		TTL:  suitesTTL,
		Case: locktest.Beside,
		Expire: func(t *testing.T, s driver.Session) {
			e := driver.Entry{Queue: newPath(t), Kind: driver.Exclusive, Units: 1}
			e.ID = s.NewID(e.Queue, e.Kind, 1)
			_, err := s.Create(t.Context(), e, 0)
			require.NoError(t, err)
			revokeLeaseOf(t, admin.Client, keysOf(t, admin.Client, e.Queue)[0])
		},
		Delete:  admin.remove,
		Foreign: admin.foreign,
		Stray:   func(t *testing.T, queue string) driver.Entry { return admin.stray(t, queue) },
		Cut: func(_ *testing.T, service driver.Service, silent bool) {
			if silent {
				proxyOf(service).Cut()
			} else {
				proxyOf(service).Heal()
			}
		},
	})
}

// TestPrimitives runs what the primitives do on every service.
func TestPrimitives(t *testing.T) {
	server, client := begin(t)
	admin := administrator{client}
	locktest.Run(t, locktest.Backend{
		Case: locktest.Beside,
		Open: func(t *testing.T) *farsync.Store {
			options := *ttl(suitesTTL)
			options.Trace = drivertest.CheckTrace(t)
			return newStore(t, server.Endpoint(), &options)
		},
		Expire:  func(t *testing.T, store *farsync.Store) { admin.expire(t, store) },
		Delete:  admin.remove,
		Foreign: admin.foreign,
		Stray:   func(t *testing.T, queue string) driver.Entry { return admin.stray(t, queue) },
		Guard:   func(t *testing.T, owner locktest.Owner) func() bool { return admin.guard(t, owner) },
		Beside: func(t *testing.T, queue string) (keys []string) {
			resp, err := client.Get(within(t, soon), queue+"!", clientv3.WithPrefix(), clientv3.WithKeysOnly())
			require.NoError(t, err)
			for _, kv := range resp.Kvs {
				keys = append(keys, string(kv.Key))
			}
			return keys
		},
	})
}

var cuts = flag.Int("cuts", 50, "holders that are cut off from the server")

// TestLeaseEndsBeforeTheNextHolderIsGranted: with etcd's own concurrency.Mutex the next holder is first in two of three cuts.
func TestLeaseEndsBeforeTheNextHolderIsGranted(t *testing.T) {
	suite.Long(t, suite.Etcd, "cuts off holders with a TTL of 3 s")
	server, _ := beginAlone(t)
	const d = 3 * time.Second
	locktest.RunLosses(t, locktest.Losses{
		TTL: d, Holders: *cuts, Next: newStore(t, server.Endpoint(), nil),
		Open: func(t *testing.T, i int) (*farsync.Store, func()) {
			proxy := embedtest.NewProxy(t, server.Endpoint())
			cut := proxy.Cut
			if i%2 == 1 {
				cut = proxy.CutReplies
			}
			return newStore(t, "http://"+proxy.Addr(), ttl(d)), cut
		},
	})
}

func TestOpensThatAreGivenUp(t *testing.T) {
	suite.Long(t, suite.Etcd, "200 Opens are given up at random moments, and what they leave is counted")
	_, client := beginAlone(t)
	locktest.RunOpens(t, func(ctx context.Context) (*farsync.Store, error) {
		return etcd.Open(ctx, client, short)
	}, func() int {
		resp, err := client.Leases(within(t, soon))
		require.NoError(t, err)
		return len(resp.Leases)
	})
}
