package redistest_test

import (
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/driver/drivertest"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/redis"
)

// suitesTTL is the TTL of what the suites open. It is long, for a session must not run out because the machine is busy
// with other tests.
const suitesTTL = 10 * time.Second

// TestDriverKeepsTheContract runs the cases that every driver must pass, beside each other: most of them wait for most
// of their time.
func TestDriverKeepsTheContract(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newAdministrator(t, server.Endpoint())
	var proxies sync.Map // by service
	backend := drivertest.Backend{
		Open: func(t *testing.T) driver.Service {
			proxy := embedtest.NewProxy(t, server.Endpoint())
			s := newService(t, proxy.Addr(), nil)
			proxies.Store(s, proxy)
			return s
		},
		TTL: suitesTTL,
		Case: func(t *testing.T, run func(t *testing.T)) {
			// Any renewal beside this case would end the sessions that it leaves in the way.
			if strings.HasSuffix(t.Name(), "/RanOutBlocksNoTry") {
				suite.Long(t, suite.Redis, "waits for two TTLs of 10 s, alone")
			} else {
				t.Parallel()
			}
			run(t)
		},
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
	}
	if suite.More(t, suite.Redis) {
		backend.Cut = func(t *testing.T, service driver.Service, silent bool) {
			proxy, found := proxies.Load(service)
			require.True(t, found)
			if silent {
				proxy.(*embedtest.Proxy).Cut()
			} else {
				proxy.(*embedtest.Proxy).Heal()
			}
		}
	}
	drivertest.RunDriver(t, backend)
}

// TestPrimitives runs what the primitives do on every service, each row beside others.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newAdministrator(t, server.Endpoint())
	locktest.Run(t, locktest.Backend{
		Open: func(t *testing.T) *farsync.Store {
			options := *fresh(suitesTTL)
			options.Trace = drivertest.CheckTrace(t)
			return newStore(t, server.Endpoint(), &options)
		},
		Case: func(t *testing.T, run func(t *testing.T)) {
			if strings.HasSuffix(t.Name(), "/MutexWaiterJoinsAgain") {
				suite.Long(t, suite.Redis, "a waiter that nothing wakes looks by itself after 30 s or more")
			}
			t.Parallel()
			run(t)
		},
		Expire: func(t *testing.T, store *farsync.Store) {
			path := "/expire/" + rand.Text()
			lease := lock(t, store, path)
			list, _, err := recipe.Queue{Store: beneath.Store(store), Path: path}.List(within(t, soon), 0)
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
	suite.Long(t, suite.Redis, "stops the server")
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

// TestNobodyWaitsForWhatAHungServerKeeps: the server hangs for most of a TTL, and goes on with renewals of sessions that their clients have lost.
func TestNobodyWaitsForWhatAHungServerKeeps(t *testing.T) {
	suite.Long(t, suite.Redis, "stops the server for most of a TTL of 15 s")
	t.Parallel()
	server := embedtest.Redis(t)
	locktest.RunHung(t, locktest.Hung{
		Open: func(t *testing.T, o farsync.Options) *farsync.Store {
			return newStore(t, server.Endpoint(), &redis.Options{Options: o, Fresh: true})
		},
		TTL: locktest.HungTTL, Long: time.Minute, Freeze: server.Pause, Resume: server.Resume,
	})
}
