package redistest_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

// TestDriverKeepsTheContract runs the cases that every driver must pass. It and TestPrimitives run alone: their sessions are kept
// by a renewal every half second, and must not run out because the machine is busy with other tests.
func TestDriverKeepsTheContract(t *testing.T) {
	server := embedtest.Redis(t)
	admin := newAdministrator(t, server.Endpoint())
	proxies := map[driver.Service]*embedtest.Proxy{}
	storetest.RunDriver(t, storetest.Backend{
		Open: func(t *testing.T) driver.Service {
			proxy := embedtest.NewProxy(t, server.Endpoint())
			s := newService(t, proxy.Addr(), nil)
			proxies[s] = proxy
			return s
		},
		TTL: 2 * time.Second,
		Expire: func(t *testing.T, s driver.Session) {
			e := driver.Entry{Queue: "/expire/" + rand.Text(), Kind: driver.Exclusive, Units: 1}
			e.ID = s.NewID(e.Queue, e.Kind, 1)
			_, err := s.Create(within(t, soon), e, 0)
			require.NoError(t, err)
			admin.expire(t, e.ID)
		},
		Delete:  admin.remove,
		Foreign: admin.foreign,
		Stray:   admin.stray,
		Cut: func(_ *testing.T, service driver.Service, silent bool) {
			if silent {
				proxies[service].Cut()
			} else {
				proxies[service].Heal()
			}
		},
	})
}

// TestPrimitives runs what the primitives do on every service.
func TestPrimitives(t *testing.T) {
	server := embedtest.Redis(t)
	admin := newAdministrator(t, server.Endpoint())
	locktest.Run(t, locktest.Backend{
		Open: func(t *testing.T) *farsync.Store {
			options := *fresh(2 * time.Second)
			options.Trace = storetest.CheckTrace(t)
			return newStore(t, server.Endpoint(), &options)
		},
		Expire: func(t *testing.T, store *farsync.Store) {
			path := "/expire/" + rand.Text()
			lease := lock(t, store, path)
			list, _, err := recipe.Queue{Store: store, Path: path}.List(within(t, soon), 0)
			require.NoError(t, err)
			admin.expire(t, list[0].ID)
			_ = lease.Release() // lost
		},
		Delete:  admin.remove,
		Foreign: admin.foreign,
		Stray:   admin.stray,
	})
}

// TestCallsReturnWhenTheServerIsFrozen: the server takes connections and requests, and answers nothing. Every call is back
// when its ctx ends, or its own bound is met; and when the server goes on, nothing is left of any.
func TestCallsReturnWhenTheServerIsFrozen(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	locktest.RunFrozen(t, locktest.Frozen{
		Open: func(t *testing.T, ttl time.Duration) *farsync.Store {
			return newStore(t, server.Endpoint(), fresh(ttl))
		},
		Long:   3 * 2 * soon, // a third of it is more than a hang
		Short:  3 * time.Second,
		Freeze: server.Pause,
		Resume: server.Resume,
		Late:   soon,
	})
}
