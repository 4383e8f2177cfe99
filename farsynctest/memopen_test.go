//nolint:forbidigo // time is that of a bubble
package farsynctest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/recipe"
)

var exclusive = recipe.Request{Queue: "/q", Kind: driver.Exclusive, Units: 1}

func TestMemOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
		options := &farsynctest.MemOptions{Options: farsync.Options{Holder: "worker", TTL: 6 * time.Second}}
		a, b := m.Open(options), m.Open(options)
		require.Equal(t, "worker", m.Client(a))
		require.Equal(t, "worker-2", m.Client(b))
		for range 3 {
			h, err := recipe.Acquire(t.Context(), beneath.Store(a), &exclusive)
			require.NoError(t, err)
			require.Equal(t, "worker", string(m.Entries("/q")[0].Value))
			got := make(chan *recipe.Hold)
			go func() {
				h, err := recipe.Acquire(context.Background(), beneath.Store(b), &exclusive)
				assert.NoError(t, err)
				got <- h
			}()
			time.Sleep(time.Minute)
			require.NoError(t, h.Err())
			m.Expire(a)
			next := <-got
			require.NoError(t, next.Err())
			<-h.Life().Done()
			require.ErrorIs(t, h.Err(), recipe.ErrLost)
			m.Partition(b, true)
			<-next.Life().Done()
			require.Len(t, m.Entries("/q"), 1, "it ends here before it ends there")
			m.Partition(b, false)
			require.ErrorIs(t, next.Release(), recipe.ErrLost)
			time.Sleep(time.Minute)
		}
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}

func TestMemOpenPanics(t *testing.T) {
	require.Panics(t, func() {
		farsynctest.NewMem().Open(&farsynctest.MemOptions{Options: farsync.Options{TTL: time.Millisecond}})
	})
}
