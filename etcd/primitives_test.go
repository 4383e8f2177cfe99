package etcd_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
)

func TestPrimitives(t *testing.T) {
	noLeaks(t)
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	foreign := func(t *testing.T, queue string, options ...clientv3.OpOption) driver.Entry {
		key := queue + "/" + rand.Text()
		_, err := admin.Put(within(t, soon), key, "another program's", options...)
		require.NoError(t, err)
		return driver.Entry{Queue: queue, ID: key}
	}
	locktest.Run(t, locktest.Backend{
		Open:   func(t *testing.T) *farsync.Store { return newStore(t, server.Endpoint(), ttl(2*time.Second)) },
		Expire: func(t *testing.T, store *farsync.Store) { expire(t, store, admin) },
		Delete: func(t *testing.T, e driver.Entry) {
			resp, err := admin.Delete(within(t, soon), e.ID)
			require.NoError(t, err)
			require.EqualValues(t, 1, resp.Deleted)
		},
		Foreign: func(t *testing.T, queue string) driver.Entry {
			lease, err := admin.Grant(within(t, soon), 600)
			require.NoError(t, err)
			return foreign(t, queue, clientv3.WithLease(lease.ID))
		},
		Stray: func(t *testing.T, queue string) driver.Entry { return foreign(t, queue) },
	})
}

// expire revokes the Store's session, which an entry shows.
func expire(t testing.TB, store *farsync.Store, admin *clientv3.Client) {
	path := "/expire/" + rand.Text()
	lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
	require.NoError(t, err)
	revokeLeaseOf(t, admin, keysOf(t, admin, path)[0])
	_ = lease.Release() // lost
}
