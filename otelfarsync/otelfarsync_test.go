//nolint:forbidigo // time is that of a bubble
package otelfarsync_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
	"github.com/farsync/farsync/otelfarsync"
	"github.com/farsync/farsync/sqlite"
)

// A scene is a service in a bubble, with a Store whose metrics and spans are kept.
type scene struct {
	*testing.T
	*farsynctest.Mem
	store  *farsync.Store
	spans  *tracetest.InMemoryExporter
	tracer trace.Tracer
	reader *sdkmetric.ManualReader
}

func inBubble(t *testing.T, path func(string) string, sampler sdktrace.Sampler, f func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, Mem: farsynctest.NewMem(), spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.spans), sdktrace.WithSampler(sampler))
		s.tracer = tracers.Tracer("test")
		s.store = s.open("one", otelfarsync.Trace(&otelfarsync.Options{
			TracerProvider: tracers, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader)), Path: path,
		}))
		f(s)
	})
}

// open opens another Store, closed with the scene.
func (s *scene) open(holder string, trace *farsync.Trace) *farsync.Store {
	store := s.Mem.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: holder, Name: "mem", Trace: trace}})
	s.Cleanup(func() { _ = store.Close() })
	return store
}

// points returns what the metrics show: a line for each set of attributes, with its value, or the count and the sum of a
// histogram.
func (s *scene) points() (lines []string) {
	s.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(s, s.reader.Collect(context.Background(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					lines = append(lines, fmt.Sprintf("%s %s %s = %d", m.Name, m.Unit, attributes(p.Attributes), p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					lines = append(lines, fmt.Sprintf("%s %s %s = %d", m.Name, m.Unit, attributes(p.Attributes), p.Value))
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					lines = append(lines, fmt.Sprintf("%s %s %s = %d, %.3g", m.Name, m.Unit, attributes(p.Attributes), p.Count, p.Sum))
				}
			default:
				require.Fail(s, "unknown", "%T", data)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func attributes(set attribute.Set) string {
	return strings.ReplaceAll(set.Encoded(attribute.DefaultEncoder()), "farsync.", "")
}

// take returns the spans that have ended since the last call.
func (s *scene) take() []tracetest.SpanStub {
	spans := s.spans.GetSpans()
	s.spans.Reset()
	return spans
}

func (s *scene) lock(store *farsync.Store, path string) *farsync.Lease {
	s.Helper()
	lease, err := farsync.NewMutex(store, path).Lock(s.Context())
	require.NoError(s, err)
	return lease
}

func TestMetrics(t *testing.T) {
	inBubble(t, nil, sdktrace.NeverSample(), func(s *scene) {
		mu := farsync.NewMutex(s.store, "/a")
		first := s.lock(s.store, "/a")
		_, err := mu.TryLock(s.Context())
		require.ErrorIs(s, err, farsync.ErrLocked)
		short, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		_, err = mu.Lock(short)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		_, err = farsync.NewRWMutex(s.store, "/a").RLock(s.Context())
		require.Error(s, err)
		go func() { _, _ = mu.Lock(s.Context()) }()
		synctest.Wait()
		require.Contains(s, s.points(), "farsync.requests.waiting {request} kind=exclusive,store=mem = 1")
		require.Contains(s, s.points(), "farsync.leases.held {lease} kind=exclusive,store=mem = 1")
		time.Sleep(2 * time.Second)
		require.NoError(s, first.Release())
		synctest.Wait()
		s.Expire(s.store)
		time.Sleep(10 * time.Second)
		require.NoError(s, s.store.Close())
		got := s.points()
		got = slices.DeleteFunc(got, func(line string) bool { return strings.Contains(line, ".renewal.") })
		require.Equal(s, []string{
			"farsync.acquire.duration s error.type=kind,kind=read,local=false,outcome=error,store=mem = 1, 1",
			"farsync.acquire.duration s kind=exclusive,local=false,outcome=gave_up,store=mem = 1, 1",
			"farsync.acquire.duration s kind=exclusive,local=false,outcome=held,store=mem = 2, 2",
			"farsync.acquire.duration s kind=exclusive,local=false,outcome=locked,store=mem = 1, 0",
			"farsync.hold.duration s end=lost,kind=exclusive,store=mem = 1, 1",
			"farsync.hold.duration s end=released,kind=exclusive,store=mem = 1, 4",
			"farsync.leases.held {lease} kind=exclusive,store=mem = 0",
			"farsync.leases.held {lease} kind=read,store=mem = 0",
			"farsync.releases.unconfirmed {lease} kind=exclusive,store=mem = 0",
			"farsync.requests.waiting {request} kind=exclusive,store=mem = 0",
			"farsync.requests.waiting {request} kind=read,store=mem = 0",
			"farsync.session.losses {session} error.type=ended,store=mem = 1",
			"farsync.session.losses {session} error.type=no_answer,store=mem = 0",
			"farsync.sessions {session} state=connected,store=mem = 0",
		}, got)
	})
}

func TestMetricsOfALossWithoutAnAnswer(t *testing.T) {
	inBubble(t, nil, sdktrace.NeverSample(), func(s *scene) {
		lease := s.lock(s.store, "/a")
		time.Sleep(3 * time.Second)
		got := strings.Join(s.points(), "\n")
		require.Contains(s, got, "farsync.session.renewal.duration s store=mem = 1, 0")
		require.Contains(s, got, "farsync.session.renewal.left s store=mem = 1, 7")
		s.Partition(s.store, true)
		time.Sleep(5 * time.Second)
		require.Contains(s, s.points(), "farsync.sessions {session} state=suspended,store=mem = 1")
		<-lease.Done()
		synctest.Wait()
		require.Contains(s, s.points(), "farsync.session.losses {session} error.type=no_answer,store=mem = 1")
		require.Contains(s, s.points(), "farsync.leases.held {lease} kind=exclusive,store=mem = 0")
		s.Partition(s.store, false)
	})
}

// A program may have a lock for each of its customers. Its metrics must not.
func TestMetricsOfManyPaths(t *testing.T) {
	inBubble(t, nil, sdktrace.NeverSample(), func(s *scene) {
		for i := range 10_000 {
			require.NoError(s, s.lock(s.store, fmt.Sprint("/customers/", i)).Release())
		}
		time.Sleep(time.Minute)
		require.LessOrEqual(s, len(s.points()), 40)
		require.NotContains(s, fmt.Sprint(s.points()), "customers")
	})
	class := func(path string) string {
		if strings.HasPrefix(path, "/customers/") {
			return "/customers/{id}"
		}
		return ""
	}
	inBubble(t, class, sdktrace.AlwaysSample(), func(s *scene) {
		require.NoError(s, s.lock(s.store, "/customers/1").Release())
		require.NoError(s, s.lock(s.store, "/customers/2").Release())
		require.NoError(s, s.lock(s.store, "/other").Release())
		require.Contains(s, s.points(), "farsync.acquire.duration s kind=exclusive,local=false,outcome=held,path=/customers/{id},store=mem = 2, 0")
		require.Equal(s, "lock /customers/{id}", s.take()[0].Name)
	})
}

func TestSpans(t *testing.T) {
	inBubble(t, nil, sdktrace.AlwaysSample(), func(s *scene) {
		ctx, parent := s.tracer.Start(s.Context(), "request")
		first, err := farsync.NewMutex(s.store, "/a").Lock(ctx)
		require.NoError(s, err)
		mu := farsync.NewMutex(s.store, "/a")
		waiting := make(chan *farsync.Lease)
		go func() {
			second, _ := mu.Lock(s.Context())
			waiting <- second
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		require.NoError(s, first.Release())
		second := <-waiting
		require.NoError(s, second.Release())
		parent.End()
		spans := s.take()
		require.Len(s, spans, 5)
		slices.SortFunc(spans[1:3], func(a, b tracetest.SpanStub) int { return strings.Compare(a.Name, b.Name) }) // which ends first is open
		lock, hold, waited := spans[0], spans[1], spans[2]
		require.Equal(s, "lock", lock.Name)
		require.Equal(s, parent.SpanContext().SpanID(), lock.Parent.SpanID())
		require.Equal(s, codes.Unset, lock.Status.Code)
		require.Contains(s, lock.Attributes, attribute.String("farsync.path", "/a"))
		require.Contains(s, lock.Attributes, attribute.Int64("farsync.token", int64(first.Token())))
		require.Empty(s, lock.Events)
		require.Equal(s, "hold", hold.Name)
		require.Equal(s, parent.SpanContext().SpanID(), hold.Parent.SpanID())
		require.Equal(s, lock.SpanContext.SpanID(), hold.Links[0].SpanContext.SpanID())
		require.Equal(s, time.Second, hold.EndTime.Sub(hold.StartTime))
		require.Equal(s, time.Second, waited.EndTime.Sub(waited.StartTime))
		require.Equal(s, "waiting", waited.Events[0].Name)
		require.Contains(s, waited.Events[0].Attributes, attribute.String("farsync.holder", "one"))
		require.Equal(s, lock.SpanContext.SpanID(), waited.Links[0].SpanContext.SpanID(), "from the slow one to the one that held")
		require.Equal(s, lock.SpanContext.TraceID(), waited.Links[0].SpanContext.TraceID())
	})
}

// TestSpansOfStoresOfOneName: Stores of two services grant equal tokens, and each call has one span of what it held.
func TestSpansOfStoresOfOneName(t *testing.T) {
	inBubble(t, nil, sdktrace.AlwaysSample(), func(s *scene) {
		trace := otelfarsync.Trace(&otelfarsync.Options{
			TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.spans)), MeterProvider: sdkmetric.NewMeterProvider(),
		})
		var leases []*farsync.Lease
		for range 2 {
			store := farsynctest.NewMem().Open(&farsynctest.MemOptions{Options: farsync.Options{Trace: trace}})
			defer func() { require.NoError(s, store.Close()) }()
			leases = append(leases, s.lock(store, "/a"))
		}
		require.Equal(s, leases[0].Token(), leases[1].Token(), "the test would hold nothing")
		for _, lease := range leases {
			time.Sleep(time.Second)
			require.NoError(s, lease.Release())
		}
		spans := s.take()
		require.Len(s, spans, 4)
		for i, hold := range spans[2:] {
			require.Equal(s, "hold", hold.Name)
			require.Equal(s, spans[i].SpanContext.SpanID(), hold.Links[0].SpanContext.SpanID())
			require.Equal(s, time.Duration(i+1)*time.Second, hold.EndTime.Sub(hold.StartTime))
		}
	})
}

func TestSpansOfFailures(t *testing.T) {
	inBubble(t, nil, sdktrace.AlwaysSample(), func(s *scene) {
		lease := s.lock(s.store, "/a")
		_, err := farsync.NewMutex(s.store, "/a").TryLock(s.Context())
		require.ErrorIs(s, err, farsync.ErrLocked)
		_, err = farsync.NewRWMutex(s.store, "/a").RLock(s.Context())
		require.Error(s, err)
		s.Expire(s.store)
		<-lease.Done()
		synctest.Wait()
		spans := s.take()
		require.Len(s, spans, 4)
		require.Equal(s, "try lock", spans[1].Name)
		require.Equal(s, codes.Unset, spans[1].Status.Code, "taken is no error")
		require.Equal(s, "read lock", spans[2].Name)
		require.Equal(s, codes.Error, spans[2].Status.Code)
		require.Equal(s, "hold", spans[3].Name)
		require.Equal(s, codes.Error, spans[3].Status.Code)
	})
}

// What is not sampled publishes nothing, and asks for nothing.
// TestTextsOfOthers: one that is not UTF-8 would have all the spans refused that are sent with it.
func TestTextsOfOthers(t *testing.T) {
	inBubble(t, nil, sdktrace.AlwaysSample(), func(s *scene) {
		leader, err := farsync.NewElection(s.open("two", nil), "/leader").Campaign(s.Context(), "\xff"+strings.Repeat("\x00", 5000))
		require.NoError(s, err)
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		_, err = farsync.NewElection(s.store, "/leader").Campaign(ctx, "")
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.NoError(s, leader.Release())
		_, err = farsync.NewMutex(s.store, "/a\xff").Lock(s.Context())
		require.ErrorIs(s, err, farsync.ErrPath)
		told := 0
		for _, span := range s.take() {
			list := span.Attributes
			for _, e := range span.Events {
				list = append(list, e.Attributes...)
			}
			for _, a := range list {
				if a.Value.Type() == attribute.STRING {
					told++
					require.True(s, utf8.ValidString(a.Value.AsString()), a)
					require.LessOrEqual(s, len(a.Value.AsString()), 1100, a)
				}
			}
			require.True(s, utf8.ValidString(span.Status.Description))
		}
		require.GreaterOrEqual(s, told, 10)
	})
}

// TestTracesTellApart: a program may have several providers.
func TestTracesTellApart(t *testing.T) {
	inBubble(t, nil, sdktrace.AlwaysSample(), func(s *scene) {
		var traces []*farsync.Trace
		var readers []*sdkmetric.ManualReader
		var spans []*tracetest.InMemoryExporter
		for range 2 {
			reader, exporter := sdkmetric.NewManualReader(), tracetest.NewInMemoryExporter()
			traces = append(traces, otelfarsync.Trace(&otelfarsync.Options{
				TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)),
				MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
			}))
			readers, spans = append(readers, reader), append(spans, exporter)
		}
		held := s.lock(s.store, "/a")
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		_, err := farsync.NewMutex(s.open("two", farsync.JoinTraces(traces...)), "/a").Lock(ctx)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.NoError(s, held.Release())
		for i, exporter := range spans {
			list := exporter.GetSpans()
			require.Len(s, list, 1)
			require.Len(s, list[0].Events, 1, "it waits")
			s.reader = readers[i]
			require.Contains(s, strings.Join(s.points(), "\n"), "farsync.requests.waiting {request} kind=exclusive,store=mem = 0")
		}
	})
}

// TestACallThatHasEndedWaitsNoMore: the Trace that is told before this one blocks until the call is over. The call does not
// wait for it.
func TestACallThatHasEndedWaitsNoMore(t *testing.T) {
	inBubble(t, nil, sdktrace.AlwaysSample(), func(s *scene) {
		over := make(chan struct{})
		s.reader = sdkmetric.NewManualReader()
		slow := &farsync.Trace{Wait: func(context.Context, farsync.TraceCall, farsync.TraceWait) { <-over }}
		trace := otelfarsync.Trace(&otelfarsync.Options{
			TracerProvider: sdktrace.NewTracerProvider(), MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader)),
		})
		held := s.lock(s.open("one", nil), "/a")
		time.AfterFunc(time.Minute, func() { _ = held.Release() })
		waited := s.lock(s.open("two", farsync.JoinTraces(slow, trace)), "/a")
		close(over)
		synctest.Wait()
		require.NoError(s, waited.Release())
		require.Contains(s, s.points(), "farsync.requests.waiting {request} kind=exclusive,store=mem = 0")
	})
}

func TestSpansThatAreNotSampled(t *testing.T) {
	inBubble(t, nil, sdktrace.NeverSample(), func(s *scene) {
		other := s.open("two", nil)
		lease := s.lock(s.store, "/a")
		require.Equal(s, "one", string(s.Entries("/a")[0].Value))
		go func() { _, _ = farsync.NewMutex(s.store, "/a").Lock(s.Context()) }()
		synctest.Wait()
		require.Zero(s, s.Count(farsynctest.List))
		require.NoError(s, lease.Release())
		list, err := other.Participants(s.Context(), "/a")
		require.NoError(s, err)
		require.Empty(s, list[0].Note)
		require.Empty(s, s.take())
	})
}

// A note may come from any program.
func TestNotesOfStrangers(t *testing.T) {
	inBubble(t, nil, sdktrace.AlwaysSample(), func(s *scene) {
		for _, note := range []string{"hello", "00-zz-zz-01", "00-00000000000000000000000000000000-0000000000000000-01"} {
			stranger := s.open("stranger", &farsync.Trace{Note: func(context.Context, farsync.TraceCall) string { return note }})
			lease := s.lock(stranger, "/a")
			time.AfterFunc(time.Second, func() { _ = lease.Release() })
			require.NoError(s, s.lock(s.store, "/a").Release())
			require.Empty(s, s.take()[0].Links, note)
		}
	})
}

// TestSpansOfTwoProcesses: a call that waits for a lock which another process holds is linked to the call of that process.
func TestSpansOfTwoProcesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "locks.db")
	executable, err := os.Executable()
	require.NoError(t, err)
	other := exec.CommandContext(t.Context(), executable)
	other.Env = append(os.Environ(), holderVariable+"="+file)
	other.Stderr = os.Stderr
	input, err := other.StdinPipe()
	require.NoError(t, err)
	output, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	answers := bufio.NewReader(output)
	line, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)

	exported := tracetest.NewInMemoryExporter()
	tracing := otelfarsync.Trace(&otelfarsync.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exported))})
	waits := make(chan struct{}, 100)
	told := farsync.JoinTraces(tracing, &farsync.Trace{Wait: func(context.Context, farsync.TraceCall, farsync.TraceWait) { waits <- struct{}{} }})
	store, err := sqlite.Open(t.Context(), file, &sqlite.Options{Options: farsync.Options{Trace: told}})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	got := make(chan error)
	go func() {
		lease, err := farsync.NewMutex(store, "/billing").Lock(t.Context())
		if err == nil {
			err = lease.Release()
		}
		got <- err
	}()
	<-waits
	require.NoError(t, input.Close())
	require.NoError(t, <-got)
	text, err := io.ReadAll(answers)
	require.NoError(t, err)
	require.NoError(t, other.Wait())
	var there []seen
	require.NoError(t, json.Unmarshal(text, &there))
	require.Equal(t, "lock", there[0].Name)

	here := exported.GetSpans()[0]
	require.Equal(t, "lock", here.Name)
	require.Contains(t, here.Events[0].Attributes, attribute.String("farsync.holder", "the other"))
	require.Len(t, here.Links, 1)
	require.Equal(t, there[0].Trace, here.Links[0].SpanContext.TraceID().String())
	require.Equal(t, there[0].Span, here.Links[0].SpanContext.SpanID().String())
	require.True(t, here.Links[0].SpanContext.IsRemote())
}
