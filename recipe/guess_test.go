package recipe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

// A guesser is a service whose Create shows an entry ahead that is not there.
type guesser struct{ driver.Service }

func (g guesser) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := g.Service.Open(ctx, ttl)
	return guesserSession{in}, err
}

type guesserSession struct{ driver.Session }

func (s guesserSession) Create(ctx context.Context, e driver.Entry, attempt int) (driver.View, error) {
	v, err := s.Session.Create(ctx, e, attempt)
	v.All, v.Entries = false, []driver.Entry{{Queue: e.Queue, ID: e.Queue + "/guess", Kind: driver.Exclusive, Units: 1, Ahead: 7}}
	return v, err
}

// TestGuessIsNoAnswer: what is likely to be ahead decides what is watched, and neither that a lock is held nor that it is not.
func TestGuessIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := storetest.NewMem()
		var stores [2]*recipe.Store
		for i, name := range []string{"one", "two"} {
			var err error
			stores[i], err = recipe.Open(t.Context(), guesser{mem.Service(name)}, recipe.Options{TTL: ttl})
			require.NoError(t, err)
			defer func() { require.NoError(t, stores[i].Close()) }()
		}
		for range 3 {
			held, err := recipe.Acquire(t.Context(), stores[0], exclusive)
			require.NoError(t, err)
			_, err = recipe.Acquire(t.Context(), stores[1], trying(exclusive))
			require.ErrorIs(t, err, recipe.ErrLocked)
			waits := make(chan *recipe.Hold)
			go func() {
				second, err := recipe.Acquire(t.Context(), stores[1], exclusive)
				assert.NoError(t, err)
				waits <- second
			}()
			synctest.Wait()
			require.NoError(t, held.Err())
			select {
			case <-waits:
				t.Fatal("two hold")
			default:
			}
			require.NoError(t, held.Release())
			require.NoError(t, (<-waits).Release())
			free, err := recipe.Acquire(t.Context(), stores[1], trying(exclusive))
			require.NoError(t, err)
			require.NoError(t, free.Release())
		}
	})
}
