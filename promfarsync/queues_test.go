package promfarsync_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/promfarsync"
)

const goldenQueues = "testdata/queues.txt"

// busy has a lock with two waiters and two that are free of them, of three Stores, and returns one Store, in a bubble.
func busy(t *testing.T, mem *farsynctest.Mem) *farsync.Store {
	t.Helper()
	open := func() *farsync.Store {
		store := mem.Open(&farsynctest.MemOptions{Options: farsync.Options{Name: "mem"}})
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	here, there := open(), open()
	for _, path := range []string{"/customers/1", "/customers/2", "/cron"} {
		_, err := farsync.NewMutex(there, path).Lock(t.Context())
		require.NoError(t, err)
	}
	for _, store := range []*farsync.Store{here, open()} { // an entry each
		go func() { _, _ = farsync.NewMutex(store, "/customers/1").Lock(t.Context()) }() // ends with its Store
	}
	synctest.Wait()
	return here
}

// customers is a class of paths.
func customers(path string) string {
	if strings.HasPrefix(path, "/customers/") {
		return "/customers/{id}"
	}
	return ""
}

func TestQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := farsynctest.NewMem()
		store := busy(t, mem)
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(promfarsync.Queues(store, &promfarsync.Options{Path: customers})))
		text := exposition(t, registry)
		if *update {
			require.NoError(t, os.WriteFile(goldenQueues, text, 0o600))
		}
		want, err := os.ReadFile(goldenQueues)
		require.NoError(t, err)
		require.Equal(t, string(want), string(text))
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		require.Empty(t, problems)
	})
}

// TestQueuesBelowPrefixes: each is counted once, and a class is there only if it is asked for.
func TestQueuesBelowPrefixes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := busy(t, farsynctest.NewMem())
		for _, row := range []struct {
			prefixes      []string
			held, waiting int
		}{
			{nil, 3, 2},
			{[]string{"/cron"}, 1, 0},
			{[]string{"/customers/", "/customers/1"}, 2, 2},
			{[]string{"/none"}, 0, 0},
		} {
			registry := prometheus.NewPedanticRegistry()
			require.NoError(t, registry.Register(promfarsync.Queues(store, nil, row.prefixes...)))
			families, err := registry.Gather()
			require.NoError(t, err)
			require.Len(t, families[0].GetMetric(), 2)
			require.Equal(t, row.held, int(families[0].GetMetric()[0].GetGauge().GetValue()))
			require.Equal(t, row.waiting, int(families[0].GetMetric()[1].GetGauge().GetValue()))
		}
	})
}

func TestQueuesBelowWhatIsNoPrefix(t *testing.T) {
	store := farsynctest.NewMem().Open(nil)
	defer func() { require.NoError(t, store.Close()) }()
	require.PanicsWithValue(t, `promfarsync: Queues: bad path "cron": no leading slash`, func() { promfarsync.Queues(store, nil, "/a", "cron") })
}

// TestQueuesOfAServiceThatIsAway: what is not known is not 0, and the other metrics are there.
func TestQueuesOfAServiceThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := farsynctest.NewMem()
		store := busy(t, mem)
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(promfarsync.Queues(store, nil)))
		mem.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Survey {
				return farsynctest.Refuse(fmt.Errorf("not now"))
			}
			return farsynctest.None
		})
		require.Empty(t, exposition(t, registry))
		mem.SetFault(nil)
		mem.Partition(store, true)
		began := time.Now()
		require.Empty(t, exposition(t, registry))
		require.Equal(t, 5*time.Second, time.Since(began))
		mem.Partition(store, false)
		require.NotEmpty(t, exposition(t, registry))
	})
}
