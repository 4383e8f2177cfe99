//go:build unix

package sqlite

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
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/recipe"
)

// TestDriverKeepsTheContract runs the cases that every driver must pass.
func TestDriverKeepsTheContract(t *testing.T) {
	var in scenes
	drivertest.RunDriver(t, drivertest.Backend{
		Open: func(t *testing.T) driver.Service {
			s, err := NewService(in.of(t).file, nil)
			require.NoError(t, err)
			return s
		},
		TTL:  10 * time.Second,
		Case: in.play,
		Expire: func(t *testing.T, s driver.Session) {
			v, err := s.Create(t.Context(), driver.Entry{
				Queue: "/expire", ID: s.NewID("/expire", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
			}, 0)
			require.NoError(t, err)
			expire(t, in.of(t).by, v.Self.ID)
		},
		Delete:  in.delete,
		Foreign: in.foreign,
		Stray:   in.stray,
	})
}

func TestPrimitives(t *testing.T) {
	var in scenes
	locktest.Run(t, locktest.Backend{
		Open: func(t *testing.T) *farsync.Store {
			options := *ttl(10 * time.Second)
			options.Trace = drivertest.CheckTrace(t)
			return newStore(t, in.of(t).file, &options)
		},
		Case: in.play,
		Expire: func(t *testing.T, store *farsync.Store) {
			path := "/expire/" + rand.Text()
			lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
			require.NoError(t, err)
			list, _, err := recipe.Queue{Store: beneath.Store(store), Path: path}.List(within(t, soon), 0)
			require.NoError(t, err)
			expire(t, in.of(t).by, list[0].ID)
			_ = lease.Release() // lost
		},
		Delete:  in.delete,
		Foreign: in.foreign,
		Stray:   in.stray,
	})
}

// A scene is the file of one case of a suite.
type scene struct {
	file  string
	by    *session
	admin operator
}

// Scenes are those of the cases under way, by the names of their tests. Cases run beside one another, for most of them wait for
// most of their time.
type scenes struct{ sync.Map }

func (s *scenes) play(t *testing.T, run func(t *testing.T)) {
	t.Parallel()
	file := newFile(t)
	s.Store(t.Name(), scene{file, newSessionIn(t, file, nil), newOperator(t, file)})
	run(t)
}

// of returns the scene of the case that t is in.
func (s *scenes) of(t *testing.T) scene {
	for name := t.Name(); name != ""; name = name[:max(strings.LastIndexByte(name, '/'), 0)] {
		if in, ok := s.Load(name); ok {
			return in.(scene)
		}
	}
	require.FailNow(t, "no scene")
	return scene{}
}

func (s *scenes) delete(t *testing.T, e driver.Entry) { s.of(t).admin.delete(t, e) }

func (s *scenes) foreign(t *testing.T, queue string) driver.Entry {
	return s.of(t).admin.foreign(t, queue, "another program's")
}

func (s *scenes) stray(t *testing.T, queue string) driver.Entry {
	return s.of(t).admin.foreign(t, queue, nil)
}
