package otelfarsync

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/farsync/farsync"
)

// traceparent is the one form of a note, W3C's, whatever else the program propagates: processes in other languages read
// it too.
const traceparent = "traceparent"

// mostText bounds what others have written, in bytes.
const mostText = 1024

// text returns the part of a text of others that may be told. A text that is not UTF-8 would have all the spans that
// are sent with it refused.
func text(of string) string {
	if len(of) > mostText {
		of = of[:mostText] + "…"
	}
	return strings.ToValidUTF8(of, "�")
}

// names are the names of the spans.
var names = map[farsync.Kind]string{
	farsync.KindExclusive: "lock", farsync.KindWrite: "lock", farsync.KindRead: "read lock", farsync.KindPermit: "acquire", farsync.KindCandidate: "campaign",
}

// begin begins the span of a call.
func (t *tracing) begin(ctx context.Context, w farsync.TraceCall) (context.Context, trace.Span) {
	name := names[w.Kind]
	if w.Try {
		name = "try " + name
	}
	if class := t.class(w); class != "" {
		name += " " + class
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(
		storeKey.String(w.Store), kindKey.String(w.Kind.String()), pathKey.String(text(w.Path)), unitsKey.Int64(w.Units)))
}

// queued notes that the call waits, and links it to the call that has acquired what it waits for.
func (c *call) queued(ctx context.Context, b farsync.TraceWait) {
	if !c.span.IsRecording() {
		return
	}
	holder, note := b.Holder(ctx)
	c.span.AddEvent("waiting", trace.WithAttributes(
		aheadKey.Int(b.Ahead), localKey.Bool(b.Local), holderKey.String(text(holder))))
	if of := parse(note); of.IsValid() {
		c.span.AddLink(trace.Link{SpanContext: of})
	}
}

// end ends the span of a call.
func (c *call) end(g farsync.TraceResult, outcome string) {
	c.span.SetAttributes(outcomeKey.String(outcome), localKey.Bool(g.Local))
	if g.Err == nil {
		c.span.SetAttributes(tokenKey.Int64(int64(g.Token)), rejoinedKey.Int(g.Rejoined))
	}
	if outcome == "error" {
		c.span.SetAttributes(errorKey.String(errorType(g.Err)))
		c.span.SetStatus(codes.Error, text(g.Err.Error()))
	}
	c.span.End()
}

// note returns the traceparent of a call that is sampled.
func (t *tracing) note(ctx context.Context, _ farsync.TraceCall) string {
	c, _ := ctx.Value(callKey{t}).(*call)
	if c == nil || !c.span.SpanContext().IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), c.span.SpanContext()), carrier)
	return carrier[traceparent]
}

// parse returns the span that a note names. A note that it does not understand names no span.
func parse(note string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: note})
	return trace.SpanContextFromContext(ctx)
}

// A lease is what was acquired, by what is told of its end too.
type lease struct {
	store, path string
	kind        farsync.Kind
	token       farsync.Token
}

func leaseOf(w farsync.TraceCall, token farsync.Token) lease {
	return lease{w.Store, w.Path, w.Kind, token}
}

// held has the calls that have acquired what is held, if they are sampled: several for a lease where Stores of one name
// have granted the same.
type held struct {
	mu    sync.Mutex
	calls map[lease][]*call
}

func (h *held) keep(c *call, w farsync.TraceCall, token farsync.Token) {
	if !c.span.SpanContext().IsSampled() {
		return
	}
	of := leaseOf(w, token)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[of] = append(h.calls[of], c)
}

// take returns the call that has acquired a lease which has ended: of several calls the first. It returns nil if no such
// call was sampled.
func (h *held) take(of lease) *call {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls[of]
	if len(calls) == 0 {
		return nil
	}
	if h.calls[of] = calls[1:]; len(calls) == 1 {
		delete(h.calls, of)
	}
	return calls[0]
}

// holdSpan makes the span of what was held.
func (t *tracing) holdSpan(e farsync.TraceEnd, end string) {
	c, now := t.held.take(leaseOf(e.TraceCall, e.Token)), time.Now()
	if c == nil {
		return
	}
	name := "hold"
	if class := t.class(e.TraceCall); class != "" {
		name += " " + class
	}
	_, span := t.tracer.Start(trace.ContextWithSpanContext(context.Background(), c.parent), name,
		trace.WithTimestamp(now.Add(-e.Held)),
		trace.WithLinks(trace.Link{SpanContext: c.span.SpanContext()}),
		trace.WithAttributes(storeKey.String(e.Store), kindKey.String(e.Kind.String()), pathKey.String(text(e.Path)),
			unitsKey.Int64(e.Units), tokenKey.Int64(int64(e.Token)), endKey.String(end)))
	if end == "lost" {
		span.SetStatus(codes.Error, text(e.Err.Error()))
	}
	span.End(trace.WithTimestamp(now))
}
