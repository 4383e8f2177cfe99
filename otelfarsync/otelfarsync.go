package otelfarsync

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/census"
)

// scope is the name of the instrumentation.
const scope = "github.com/farsync/farsync/otelfarsync"

// Options are the options of a Trace. The zero value of each field is a good choice.
type Options struct {
	// TracerProvider makes the spans. The default is the global one.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics. The default is the global one.
	MeterProvider metric.MeterProvider
	// Path returns the class of a path, "/jobs/{id}" for example: the attribute farsync.path of metrics, and a part of the
	// names of spans. There must be few classes. If it is nil, or returns the empty string, no class is told, nor is one
	// of a path that is not valid. The path itself is an attribute of spans in any case.
	Path func(path string) string
}

// Trace returns a Trace for the option of that name, of any number of Stores. Trouble with the instruments is reported
// to OpenTelemetry's error handler.
func Trace(o *Options) *farsync.Trace {
	if o == nil {
		o = &Options{}
	}
	t := &tracing{path: o.Path, held: held{calls: map[lease][]*call{}}}
	tracers, meters := o.TracerProvider, o.MeterProvider
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	t.tracer = tracers.Tracer(scope)
	t.instruments = newInstruments(meters.Meter(scope))
	return &farsync.Trace{Acquire: t.acquire, Wait: t.wait, Ended: t.ended, Session: t.session, Note: t.note}
}

// The attributes.
const (
	storeKey    = attribute.Key("farsync.store")
	kindKey     = attribute.Key("farsync.kind")
	pathKey     = attribute.Key("farsync.path")
	outcomeKey  = attribute.Key("farsync.outcome")
	localKey    = attribute.Key("farsync.local")
	endKey      = attribute.Key("farsync.end")
	stateKey    = attribute.Key("farsync.state")
	tokenKey    = attribute.Key("farsync.token")
	unitsKey    = attribute.Key("farsync.units")
	aheadKey    = attribute.Key("farsync.ahead")
	holderKey   = attribute.Key("farsync.holder")
	rejoinedKey = attribute.Key("farsync.rejoined")
	errorKey    = attribute.Key("error.type")
)

// tracing is what a Trace does.
type tracing struct {
	instruments
	tracer trace.Tracer
	path   func(string) string
	held   held
}

// A call is a call of a lock that was begun.
type call struct {
	span   trace.Span
	parent trace.SpanContext
	labels []attribute.KeyValue

	mu    sync.Mutex
	waits bool // Invariant: it is counted as waiting if and only if waits && !over.
	over  bool
}

// A callKey is the key of a call in its context, for the tracing that has begun it: several may.
type callKey struct{ *tracing }

func (t *tracing) acquire(ctx context.Context, w farsync.TraceCall) (context.Context, func(farsync.TraceResult)) {
	c := &call{parent: trace.SpanContextFromContext(ctx), labels: t.labels(w)}
	for _, gauge := range []metric.Int64UpDownCounter{t.leases, t.waiting} {
		gauge.Add(ctx, 0, metric.WithAttributes(c.labels...)) // from 0 on: what is absent is not == 0
	}
	ctx, c.span = t.begin(ctx, w)
	ctx = context.WithValue(ctx, callKey{t}, c)
	return ctx, func(g farsync.TraceResult) { t.got(context.WithoutCancel(ctx), c, w, g) }
}

func (t *tracing) wait(ctx context.Context, _ farsync.TraceCall, b farsync.TraceWait) {
	c, _ := ctx.Value(callKey{t}).(*call)
	if c != nil && t.waits(ctx, c) {
		c.queued(ctx, b)
	}
}

// waits counts a call as waiting, and reports whether it does wait. A Trace that was joined before this one may have
// blocked until the call was over.
func (t *tracing) waits(ctx context.Context, c *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waits && !c.over {
		c.waits = true
		t.waiting.Add(ctx, 1, metric.WithAttributes(c.labels...))
	}
	return !c.over
}

// waited counts a call that has ended as waiting no more.
func (t *tracing) waited(ctx context.Context, c *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over = true; c.waits {
		t.waiting.Add(ctx, -1, metric.WithAttributes(c.labels...))
	}
}

func (t *tracing) got(ctx context.Context, c *call, w farsync.TraceCall, g farsync.TraceResult) {
	t.waited(ctx, c)
	outcome := outcomeOf(g.Err)
	labels := slices.Concat(c.labels, []attribute.KeyValue{outcomeKey.String(outcome), localKey.Bool(g.Local)})
	if outcome == "error" {
		labels = append(labels, errorKey.String(errorType(g.Err)))
	}
	t.acquired.Record(ctx, g.Waited.Seconds(), metric.WithAttributes(labels...))
	if g.Err == nil {
		t.leases.Add(ctx, 1, metric.WithAttributes(c.labels...))
		t.unconfirmed.Add(ctx, 0, metric.WithAttributes(c.labels...)) // from 0 on
		t.held.keep(c, w, g.Token)
	}
	c.end(g, outcome)
}

func (t *tracing) ended(e farsync.TraceEnd) {
	ctx, labels := context.Background(), t.labels(e.TraceCall)
	t.leases.Add(ctx, -1, metric.WithAttributes(labels...))
	if e.Unconfirmed != nil {
		t.unconfirmed.Add(ctx, 1, metric.WithAttributes(labels...))
	}
	end := "released"
	switch {
	case errors.Is(e.Err, farsync.ErrClosed):
		end = "closed"
	case errors.Is(e.Err, farsync.ErrLost):
		end = "lost"
	}
	t.holds.Record(ctx, e.Held.Seconds(), metric.WithAttributes(append(labels, endKey.String(end))...))
	t.holdSpan(e, end)
}

// Why a session was lost: it could not be renewed in time; or it was ended by the service, or because the process was
// stopped.
const (
	noAnswer = "no_answer"
	ended    = "ended"
)

func (t *tracing) session(h farsync.TraceSession) {
	ctx, store := context.Background(), storeKey.String(h.Store)
	if h.Was == 0 { // the first of the Store. A counter that begins with 1 has not increased.
		t.losses.Add(ctx, 0, metric.WithAttributes(store, errorKey.String(noAnswer)))
		t.losses.Add(ctx, 0, metric.WithAttributes(store, errorKey.String(ended)))
	}
	if h.Was != h.State {
		t.count(ctx, store, h.Was, -1)
		t.count(ctx, store, h.State, 1)
	}
	switch {
	case (h.State == farsync.StateConnected || h.State == farsync.StateRecovering) && !h.Opened:
		t.renewals.Record(ctx, h.RoundTrip.Seconds(), metric.WithAttributes(store))
		t.left.Record(ctx, h.Left.Seconds(), metric.WithAttributes(store))
	case h.State == farsync.StateLost && !errors.Is(h.Cause, farsync.ErrClosed):
		why := ended
		if h.Was == farsync.StateSuspended {
			why = noAnswer
		}
		t.losses.Add(ctx, 1, metric.WithAttributes(store, errorKey.String(why)))
	}
}

// count adds to the number of sessions in a state. A session that is lost is not counted.
func (t *tracing) count(ctx context.Context, store attribute.KeyValue, state farsync.State, n int64) {
	if state != 0 && state != farsync.StateLost {
		t.sessions.Add(ctx, n, metric.WithAttributes(store, stateKey.String(state.String())))
	}
}

// labels returns the attributes of a metric.
func (t *tracing) labels(w farsync.TraceCall) []attribute.KeyValue {
	labels := append(make([]attribute.KeyValue, 0, 6), storeKey.String(w.Store), kindKey.String(w.Kind.String()))
	if class := t.class(w); class != "" {
		labels = append(labels, pathKey.String(class))
	}
	return labels
}

func (t *tracing) class(w farsync.TraceCall) string {
	return census.Class(t.path, w.Path)
}

// outcomeOf returns what has become of a call.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "held"
	case errors.Is(err, farsync.ErrLocked):
		return "locked"
	case errors.Is(err, farsync.ErrUnavailable):
		return "error"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "gave_up"
	default:
		return "error"
	}
}

// errorType returns one of few words for an error.
func errorType(err error) string {
	for _, c := range []struct {
		is   error
		word string
	}{
		{farsync.ErrUnavailable, "unavailable"},
		{farsync.ErrClosed, "closed"},
		{driver.ErrKind, "kind"},
		{farsync.ErrPath, "name"},
		{farsync.ErrSize, "size"},
		{farsync.ErrTooLarge, "too_large"},
	} {
		if errors.Is(err, c.is) {
			return c.word
		}
	}
	return "_OTHER"
}
