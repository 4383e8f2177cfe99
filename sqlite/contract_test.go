//go:build unix

package sqlite

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

// TestDriverKeepsTheContract runs the cases that every driver must pass.
func TestDriverKeepsTheContract(t *testing.T) {
	file := newFile(t)
	by, admin := newSessionIn(t, file, nil), newOperator(t, file)
	storetest.RunDriver(t, storetest.Backend{
		Open: func(t *testing.T) driver.Service {
			s, err := NewService(file, nil)
			require.NoError(t, err)
			return s
		},
		TTL: 3 * time.Second,
		Expire: func(t *testing.T, s driver.Session) {
			v, err := s.Create(t.Context(), driver.Entry{
				Queue: "/expire", ID: s.NewID("/expire", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
			}, 0)
			require.NoError(t, err)
			expire(t, by, v.Self.ID)
		},
		Delete:  admin.delete,
		Foreign: func(t *testing.T, queue string) driver.Entry { return admin.foreign(t, queue, "another program's") },
		Stray:   func(t *testing.T, queue string) driver.Entry { return admin.foreign(t, queue, nil) },
	})
}

func TestPrimitives(t *testing.T) {
	file := newFile(t)
	by, admin := newSessionIn(t, file, nil), newOperator(t, file)
	locktest.Run(t, locktest.Backend{
		// A Release has a third of the TTL. In one file, it may come after the writes of a whole crowd.
		Open: func(t *testing.T) *farsync.Store { return newStore(t, file, ttl(10*time.Second)) },
		Expire: func(t *testing.T, store *farsync.Store) {
			path := "/expire/" + rand.Text()
			lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
			require.NoError(t, err)
			list, _, err := recipe.Queue{Store: store, Path: path}.List(within(t, soon), 0)
			require.NoError(t, err)
			expire(t, by, list[0].ID)
			_ = lease.Release() // lost
		},
		Delete:  admin.delete,
		Foreign: func(t *testing.T, queue string) driver.Entry { return admin.foreign(t, queue, "another program's") },
		Stray:   func(t *testing.T, queue string) driver.Entry { return admin.foreign(t, queue, nil) },
	})
}
