//nolint:forbidigo // time is that of a bubble
package promfarsync_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
	"github.com/farsync/farsync/promfarsync"
)

var update = flag.Bool("update", false, "write testdata/exposition.txt")

const golden = "testdata/exposition.txt"

// play has all metrics move, in a bubble.
func play(t *testing.T, trace *farsync.Trace) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := farsynctest.NewMem()
		store := mem.Open(&farsynctest.MemOptions{Options: farsync.Options{Name: "mem", Trace: trace}})
		mu := farsync.NewMutex(store, "/a")
		first, err := mu.Lock(t.Context())
		require.NoError(t, err)
		_, err = mu.TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrLocked)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = mu.Lock(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = farsync.NewRWMutex(store, "no path").RLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrPath)
		time.Sleep(3 * time.Second)
		mem.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Delete {
				return farsynctest.Refuse(fmt.Errorf("not now"))
			}
			return farsynctest.None
		})
		require.Error(t, first.Release())
		mem.SetFault(nil)
		time.Sleep(5 * time.Second)
		second, err := mu.Lock(t.Context())
		require.NoError(t, err)
		mem.Expire(store)
		<-second.Done()
		time.Sleep(2 * time.Second)
		_, err = farsync.NewSemaphore(store, "/s", 3).Acquire(t.Context(), 2)
		require.NoError(t, err)
		waits := make(chan struct{})
		ctx, giveUp := context.WithCancel(t.Context())
		go func() {
			defer close(waits)
			_, _ = farsync.NewSemaphore(store, "/s", 3).Acquire(ctx, 2)
		}()
		synctest.Wait()
		t.Cleanup(func() {
			giveUp()
			<-waits
			require.NoError(t, store.Close())
		})
	})
}

// exposition returns what Prometheus would scrape.
func exposition(t *testing.T, from prometheus.Gatherer) []byte {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	var text bytes.Buffer
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&text, family)
		require.NoError(t, err)
	}
	return text.Bytes()
}

func TestExposition(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	trace, err := promfarsync.Trace(registry, nil)
	require.NoError(t, err)
	play(t, trace)
	text := exposition(t, registry)
	if *update {
		require.NoError(t, os.WriteFile(golden, text, 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), string(text))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestDocumentNamesMetricsThatAreThere: an alert on a metric that is misspelt never fires.
func TestDocumentNamesMetricsThatAreThere(t *testing.T) {
	text, err := os.ReadFile("../docs/SEEING.md")
	require.NoError(t, err)
	there, err := os.ReadFile(golden)
	require.NoError(t, err)
	queues, err := os.ReadFile(goldenQueues)
	require.NoError(t, err)
	there = append(there, queues...)
	named := regexp.MustCompile(`\bfarsync_\w+`).FindAllString(string(text), -1)
	require.GreaterOrEqual(t, len(named), 5, "the test would not notice that it looks at nothing")
	for _, name := range named {
		require.Regexp(t, `\b`+name+`\b`, string(there))
	}
}

// A program may have a lock for each of its customers. Its metrics must not.
func TestManyPaths(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	trace, err := promfarsync.Trace(registry, nil)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		store := farsynctest.NewMem().Open(&farsynctest.MemOptions{Options: farsync.Options{Trace: trace}})
		for i := range 10_000 {
			lease, err := farsync.NewMutex(store, fmt.Sprint("/customers/", i)).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Release())
		}
		require.NoError(t, store.Close())
	})
	n, err := testutil.GatherAndCount(registry)
	require.NoError(t, err)
	require.LessOrEqual(t, n, 40)
}

func TestPathsOfAClass(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	trace, err := promfarsync.Trace(registry, &promfarsync.Options{
		Path:     func(string) string { return "/customers/{id}" },
		Exemplar: func(context.Context) prometheus.Labels { return prometheus.Labels{"trace_id": "4bf92f35"} },
	})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		store := farsynctest.NewMem().Open(&farsynctest.MemOptions{Options: farsync.Options{Trace: trace}})
		for i := range 2 {
			lease, err := farsync.NewMutex(store, fmt.Sprint("/customers/", i)).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Release())
		}
		require.NoError(t, store.Close())
	})
	require.Contains(t, string(exposition(t, registry)),
		`farsync_hold_duration_seconds_count{farsync_end="released",farsync_kind="exclusive",farsync_path="/customers/{id}",farsync_store=""} 2`)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Equal(t, "trace_id", families[0].GetMetric()[0].GetHistogram().GetBucket()[0].GetExemplar().GetLabel()[0].GetName())
}

// TestNamesThatAreNone are no label, whatever Path makes of them: they may be of anybody, and as many as they like.
func TestNamesThatAreNone(t *testing.T) {
	for _, row := range []struct {
		name  string
		path  func(string) string
		class string
	}{
		{"/customers/\xff", func(path string) string { return path }, ""},
		{"no path", func(path string) string { return path }, ""},
		{"/customers/1", func(string) string { return "\xff" }, "�"},
	} {
		registry := prometheus.NewPedanticRegistry()
		trace, err := promfarsync.Trace(registry, &promfarsync.Options{Path: row.path})
		require.NoError(t, err)
		store := farsynctest.NewMem().Open(&farsynctest.MemOptions{Options: farsync.Options{Trace: trace}})
		_, _ = farsync.NewMutex(store, row.name).TryLock(t.Context())
		require.NoError(t, store.Close())
		require.Contains(t, string(exposition(t, registry)), fmt.Sprintf("farsync_path=%q", row.class))
	}
}

// TestTracesCountApart: a program may have several registries.
func TestTracesCountApart(t *testing.T) {
	var registries []*prometheus.Registry
	var traces []*farsync.Trace
	for range 2 {
		registry := prometheus.NewPedanticRegistry()
		trace, err := promfarsync.Trace(registry, nil)
		require.NoError(t, err)
		registries, traces = append(registries, registry), append(traces, trace)
	}
	play(t, farsync.JoinTraces(traces...))
	require.Equal(t, string(exposition(t, registries[0])), string(exposition(t, registries[1])))
}

// TestACallThatHasEndedWaitsNoMore: the Trace that is told before this one blocks until the call is over. The call does not
// wait for it.
func TestACallThatHasEndedWaitsNoMore(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	trace, err := promfarsync.Trace(registry, nil)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		slow := &farsync.Trace{Wait: func(context.Context, farsync.TraceCall, farsync.TraceWait) { <-over }}
		store := farsynctest.NewMem().Open(&farsynctest.MemOptions{Options: farsync.Options{Name: "mem", Trace: farsync.JoinTraces(slow, trace)}})
		mu := farsync.NewMutex(store, "/a")
		first, err := mu.Lock(t.Context())
		require.NoError(t, err)
		time.AfterFunc(time.Minute, func() { _ = first.Release() })
		second, err := mu.Lock(t.Context())
		require.NoError(t, err)
		close(over)
		synctest.Wait()
		require.NoError(t, second.Release())
		require.NoError(t, store.Close())
	})
	require.Contains(t, string(exposition(t, registry)), `farsync_requests_waiting{farsync_kind="exclusive",farsync_path="",farsync_store="mem"} 0`)
}

func TestASecondTraceIsRefused(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	_, err := promfarsync.Trace(registry, nil)
	require.NoError(t, err)
	_, err = promfarsync.Trace(registry, nil)
	require.Error(t, err)
}

// TestNothingHeldIsZero: an alert on == 0 matches as soon as a lock was asked for, also where none was ever had.
func TestNothingHeldIsZero(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	trace, err := promfarsync.Trace(r, nil)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		mem := farsynctest.NewMem()
		holder := mem.Open(nil)
		store := mem.Open(&farsynctest.MemOptions{Options: farsync.Options{Name: "mem", Trace: trace}})
		lease, err := farsync.NewMutex(holder, "/a").Lock(t.Context())
		require.NoError(t, err)
		_, err = farsync.NewMutex(store, "/a").TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.NoError(t, lease.Release())
		require.NoError(t, store.Close())
		require.NoError(t, holder.Close())
	})
	var text bytes.Buffer
	families, err := r.Gather()
	require.NoError(t, err)
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&text, family)
		require.NoError(t, err)
	}
	for _, name := range []string{"farsync_leases_held", "farsync_requests_waiting"} {
		require.Contains(t, text.String(), name+`{farsync_kind="exclusive",farsync_path="",farsync_store="mem"} 0`)
	}
}
