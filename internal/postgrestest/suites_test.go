package postgrestest_test

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
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
	"github.com/farsync/farsync/recipe"
)

// TestDriverKeepsTheContract runs the cases that every driver must pass.
func TestDriverKeepsTheContract(t *testing.T) {
	t.Parallel()
	newServer(t).keepsTheContract(t)
}

func TestPrimitives(t *testing.T) {
	t.Parallel()
	newServer(t).primitives(t)
}

func (d database) keepsTheContract(t *testing.T) {
	var proxies sync.Map // of driver.Service
	drivertest.RunDriver(t, drivertest.Backend{
		Open: func(t *testing.T) driver.Service {
			to, proxy := d.through(t)
			s := to.service(t)
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
		Foreign: func(t *testing.T, queue string) driver.Entry { return d.foreign(t, queue, "another program's") },
		Stray:   func(t *testing.T, queue string) driver.Entry { return d.foreign(t, queue, nil) },
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

func (d database) primitives(t *testing.T) {
	locktest.Run(t, locktest.Backend{
		Open: func(t *testing.T) *farsync.Store {
			return d.traced(t, 10*time.Second, drivertest.CheckTrace(t)) // a Release waits for an answer for a third of it, also on a busy machine
		},
		Case: locktest.Beside,
		Expire: func(t *testing.T, store *farsync.Store) {
			path := "/expire/" + rand.Text()
			lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
			require.NoError(t, err)
			list, _, err := recipe.Queue{Store: beneath.Store(store), Path: path}.List(within(t, soon), 0)
			require.NoError(t, err)
			d.expire(t, list[0].ID)
			_ = lease.Release() // lost
		},
		Delete:  d.delete,
		Foreign: func(t *testing.T, queue string) driver.Entry { return d.foreign(t, queue, "another program's") },
		Stray:   func(t *testing.T, queue string) driver.Entry { return d.foreign(t, queue, nil) },
	})
}

// TestNobodyWaitsForWhatAHungServerKeeps: the server hangs for most of a TTL, and goes on with renewals of sessions that their clients have lost.
func TestNobodyWaitsForWhatAHungServerKeeps(t *testing.T) {
	suite.Long(t, suite.Postgres, "stops the server for most of a TTL of 15 s")
	t.Parallel()
	d := newServer(t)
	locktest.RunHung(t, locktest.Hung{
		Open: func(t *testing.T, o farsync.Options) *farsync.Store {
			store, err := postgres.Open(within(t, soon), d.config(t), &postgres.Options{Options: o, Listen: d.listen})
			require.NoError(t, err)
			t.Cleanup(func() { _ = store.Close() })
			return store
		},
		TTL: locktest.HungTTL, Long: time.Minute, Freeze: d.server.Pause, Resume: d.server.Resume,
	})
}
