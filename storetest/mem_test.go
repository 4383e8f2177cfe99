package storetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

// backend is m as a Backend.
func backend(m *storetest.Mem) storetest.Backend {
	return storetest.Backend{
		Open: func(*testing.T) storetest.Client {
			return m.Open(&storetest.MemOptions{TTL: time.Second})
		},
		Expire: func(_ *testing.T, c storetest.Client) { m.Expire(c.(*storetest.MemStore)) },
		Delete: func(_ *testing.T, e recipe.Entry) { m.Delete(e.ID) },
		Foreign: func(_ *testing.T, queue string) recipe.Entry {
			return recipe.Entry{Queue: queue, ID: m.AddForeign(queue, "other")}
		},
		Stray: func(_ *testing.T, queue string) recipe.Entry {
			return recipe.Entry{Queue: queue, ID: m.AddStray(queue, "stray")}
		},
	}
}

func TestMem(t *testing.T) {
	defer goleak.VerifyNone(t)
	storetest.Run(t, backend(storetest.NewMem()))
}

func TestMemInBubble(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			m := storetest.NewMem()
			m.SetLatency(latency)
			b := backend(m)
			b.Case = synctest.Test
			storetest.Run(t, b)
		})
	}
}
