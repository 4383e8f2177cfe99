package mysqltest_test

import (
	"crypto/rand"
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
	"github.com/farsync/farsync/mysql"
	"github.com/farsync/farsync/recipe"
)

// TestDriverKeepsTheContract runs the cases that every driver must pass.
func TestDriverKeepsTheContract(t *testing.T) {
	d := newDatabase(t)
	var proxies sync.Map // of driver.Service
	drivertest.RunDriver(t, drivertest.Backend{
		Open: func(t *testing.T) driver.Service {
			proxy := embedtest.NewProxy(t, d.server.Endpoint())
			s, err := mysql.NewService(d.through(proxy.Addr()), nil)
			require.NoError(t, err)
			proxies.Store(s, proxy)
			return s
		},
		TTL:  10 * time.Second,
		Case: locktest.Beside,
		Expire: func(t *testing.T, s driver.Session) {
			v, err := s.Create(t.Context(), driver.Entry{
				Queue: "/expire/" + rand.Text(), ID: s.NewID("/expire", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
			}, 0)
			require.NoError(t, err)
			d.expire(t, v.Self.ID)
		},
		Delete:  d.delete,
		Foreign: d.foreign,
		Stray:   d.stray,
		Cut: func(t *testing.T, service driver.Service, silent bool) {
			known, found := proxies.Load(service)
			require.True(t, found)
			if proxy := known.(*embedtest.Proxy); silent {
				proxy.Cut()
			} else {
				proxy.Heal()
			}
		},
	})
}

func TestPrimitives(t *testing.T) {
	d := newDatabase(t)
	d.exec(t, "CREATE TABLE resource (written int)")
	d.exec(t, "INSERT INTO resource VALUES (0)")
	locktest.Run(t, locktest.Backend{
		Open: func(t *testing.T) *farsync.Store {
			options := ttl(10 * time.Second) // a Release waits for an answer for a third of it, also on a busy machine
			options.Trace = drivertest.CheckTrace(t)
			return d.open(t, options)
		},
		Case: locktest.Beside,
		Expire: func(t *testing.T, store *farsync.Store) {
			path := "/expire/" + rand.Text()
			lease := lock(t, store, path)
			list, _, err := recipe.Queue{Store: beneath.Store(store), Path: path}.List(within(t, soon), 0)
			require.NoError(t, err)
			d.expire(t, list[0].ID)
			_ = lease.Release() // lost
		},
		Delete:  d.delete,
		Foreign: d.foreign,
		Stray:   d.stray,
		Guard:   d.guard,
	})
}
