package recipe_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

// A mute is a driver whose first attempt to open a session fails with a cause, and whose others are not answered.
type mute struct {
	driver.Service
	attempts atomic.Int32
}

func (m *mute) Open(ctx context.Context, _ time.Duration) (driver.Session, error) {
	if m.attempts.Add(1) == 1 {
		return nil, errors.New("the certificate has expired")
	}
	<-ctx.Done()
	return nil, errors.New("no answer")
}

// The last attempt is mostly cut short, and knows less than those before it.
func TestOpenSaysWhatAnAttemptHasSaid(t *testing.T) {
	for _, within := range []time.Duration{500 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			m := &mute{Service: storetest.NewMem().Service("mute")}
			_, err := recipe.Open(ctx, m, recipe.Options{})
			require.ErrorIs(t, err, recipe.ErrUnavailable)
			if within < time.Second {
				require.ErrorContains(t, err, "the certificate has expired")
			} else {
				require.ErrorContains(t, err, "no answer", "an attempt that had its time")
			}
		})
	}
}
