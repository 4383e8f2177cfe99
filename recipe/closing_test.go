package recipe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
	"github.com/farsync/farsync/recipe"
)

// A closing is a driver whose Deletes are carried out when the Store was closed meanwhile, and its session ended.
type closing struct {
	driver.Service
	store *recipe.Store
}

func (c *closing) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := c.Service.Open(ctx, ttl)
	return closingSession{in, c}, err
}

type closingSession struct {
	driver.Session
	service *closing
}

func (s closingSession) Delete(context.Context, driver.Entry) (driver.View, bool, error) {
	return driver.View{}, false, s.service.store.Close()
}

// What Close has removed was not lost: its holder had it until it released it.
func TestReleaseDuringCloseIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &closing{Service: farsynctest.NewMem().Service("closing")}
		store, err := recipe.Open(t.Context(), c, recipe.Options{})
		require.NoError(t, err)
		c.store = store
		hold, err := recipe.Acquire(t.Context(), store, &exclusive)
		require.NoError(t, err)
		err = hold.Release()
		require.ErrorIs(t, err, recipe.ErrClosed)
		require.NotErrorIs(t, err, recipe.ErrLost)
	})
}
