package etcd_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

// TestStoreKeepsTheContract runs the cases that every backend must pass.
func TestStoreKeepsTheContract(t *testing.T) {
	noLeaks(t)
	storetest.Run(t, newBackend(t))
}

func TestPrimitives(t *testing.T) {
	noLeaks(t)
	locktest.Run(t, newBackend(t))
}

// newBackend returns a server as the suites need it.
func newBackend(t *testing.T) storetest.Backend {
	server := embedtest.Etcd(t)
	admin := newClient(t, server.Endpoint())
	foreign := func(t *testing.T, queue string, options ...clientv3.OpOption) recipe.Entry {
		key := queue + "/" + rand.Text()
		_, err := admin.Put(within(t, soon), key, "a stranger", options...)
		require.NoError(t, err)
		return recipe.Entry{Queue: queue, ID: key}
	}
	return storetest.Backend{
		Open: func(t *testing.T) storetest.Client {
			return newStore(t, server.Endpoint(), &etcd.Options{TTL: 2 * time.Second})
		},
		Expire: func(t *testing.T, c storetest.Client) {
			// An entry shows in which session the client is.
			e, _, err := c.Join(within(t, soon), recipe.Request{
				Queue: "/expire/" + rand.Text(), Kind: recipe.Exclusive, Units: 1, Rule: recipe.ExclusiveRule(),
			})
			require.NoError(t, err)
			revokeLeaseOf(t, admin, keysOf(t, admin, e.Queue)[0])
		},
		Delete: func(t *testing.T, e recipe.Entry) {
			resp, err := admin.Delete(within(t, soon), e.ID)
			require.NoError(t, err)
			require.EqualValues(t, 1, resp.Deleted)
		},
		Foreign: func(t *testing.T, queue string) recipe.Entry {
			lease, err := admin.Grant(within(t, soon), 600)
			require.NoError(t, err)
			return foreign(t, queue, clientv3.WithLease(lease.ID))
		},
		Stray: func(t *testing.T, queue string) recipe.Entry {
			return foreign(t, queue)
		},
	}
}
