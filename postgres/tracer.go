package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync/internal/aside"
)

// A tracer stands before the Tracer of the caller's config. pgx calls a Tracer in the goroutine that sends the statement,
// which may be a renewal, and calls TraceRelease while a connection goes back to the pool. So each of its methods runs in
// a goroutine of its own, and is waited for within the budget of the step: see trace. While so many have not returned no
// other is called, and nobody waits at all. A panic is logged.
//
// It has no TraceRelease, for the pool would call that in the middle of giveBack. See released.
type tracer struct {
	to   pgx.QueryTracer
	hook *aside.Hook // of all tracers of a Store
	log  *slog.Logger
}

// traced returns what pgx is to call in place of a Tracer, which may be nil.
func (s *service) traced(to pgx.QueryTracer) pgx.QueryTracer {
	if to == nil {
		return nil
	}
	return &tracer{to, &s.traces, s.log}
}

// released tells the Tracer of a connection that the Store has acquired and is about to give back or to close, as the
// pool does. The caller holds no mutex.
func (t *tracer) released(by *budget, pool *pgxpool.Pool, conn *pgxpool.Conn) {
	if t == nil {
		return
	}
	if to, is := t.to.(pgxpool.ReleaseTracer); is {
		data := pgxpool.TraceReleaseData{Conn: conn.Conn()} // the pool may have conn by the time of a late call
		_ = t.call(by, "TraceRelease", func() { to.TraceRelease(pool, data) })
	}
}

// call calls the Tracer as a budget does.
func (t *tracer) call(by *budget, method string, f func()) error {
	return by.call(t.hook, t.log, "Tracer."+method, f)
}

// A trace is what a Tracer is told of a statement, or of another call of pgx: a start, and what follows the start, one
// after the other, with the ctx that the start has returned. If the Tracer is late, what comes meanwhile is told by the
// goroutine that is late, which has a place among the late calls already. If the start was left out, or fails, nothing
// follows.
type trace struct {
	mu      sync.Mutex
	with    context.Context //nolint:containedctx // it is what the start has returned, nil before
	queue   []func(context.Context)
	telling bool // a goroutine tells, or the start has not returned, and never may
}

// told is where the ctx of a call has its trace.
type told struct{}

func traceOf(ctx context.Context) *trace {
	tr, _ := ctx.Value(told{}).(*trace)
	return tr
}

// begun notes what the start has returned, and tells what has come since.
func (tr *trace) begun(with context.Context) {
	if with == nil {
		return
	}
	tr.mu.Lock()
	tr.with = with
	tr.mu.Unlock()
	tr.tell()
}

// add has f told, and reports whether the caller is to have a goroutine tell.
func (tr *trace) add(f func(context.Context)) (tells bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.queue = append(tr.queue, f)
	tells, tr.telling = !tr.telling, true
	return tells
}

// tell tells all that is in the queue. A panic keeps nothing else from being told.
func (tr *trace) tell() {
	done := false
	defer func() {
		if !done {
			tr.tell()
		}
	}()
	for f := tr.next(); f != nil; f = tr.next() {
		f(tr.with)
	}
	done = true
}

// next takes out what is to be told next. It returns nil if there is nothing, and then the goroutine tells no more.
func (tr *trace) next() (f func(context.Context)) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.queue) == 0 {
		tr.telling = false
		return nil
	}
	f, tr.queue = tr.queue[0], tr.queue[1:]
	return f
}

// leaveOut forgets what is in the queue.
func (tr *trace) leaveOut() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.queue, tr.telling = nil, false
}

// start has the Tracer change the ctx of a call, if it is a Tracer of such calls. If it is late or fails, the call goes on
// with the ctx that it has.
func start[T any](ctx context.Context, t *tracer, method string, f func(to T) context.Context) context.Context {
	to, is := t.to.(T)
	if !is {
		return ctx
	}
	tr := &trace{telling: true}
	with := ctx
	if t.call(budgetOf(ctx), method, func() { tr.begun(f(to)) }) == nil && tr.with != nil {
		with = tr.with
	}
	return context.WithValue(with, told{}, tr)
}

// end tells the Tracer of what follows a start.
func end[T any](ctx context.Context, t *tracer, method string, f func(ctx context.Context, to T)) {
	to, is := t.to.(T)
	tr := traceOf(ctx)
	if !is || tr == nil || !tr.add(func(with context.Context) { f(with, to) }) {
		return
	}
	if err := t.call(budgetOf(ctx), method, tr.tell); errors.Is(err, aside.ErrMany) {
		tr.leaveOut()
	}
}

func (t *tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return start(ctx, t, "TraceQueryStart", func(to pgx.QueryTracer) context.Context { return to.TraceQueryStart(ctx, conn, data) })
}

func (t *tracer) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	end(ctx, t, "TraceQueryEnd", func(ctx context.Context, to pgx.QueryTracer) { to.TraceQueryEnd(ctx, conn, data) })
}

func (t *tracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	return start(ctx, t, "TraceBatchStart", func(to pgx.BatchTracer) context.Context { return to.TraceBatchStart(ctx, conn, data) })
}

func (t *tracer) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	end(ctx, t, "TraceBatchQuery", func(ctx context.Context, to pgx.BatchTracer) { to.TraceBatchQuery(ctx, conn, data) })
}

func (t *tracer) TraceBatchEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchEndData) {
	end(ctx, t, "TraceBatchEnd", func(ctx context.Context, to pgx.BatchTracer) { to.TraceBatchEnd(ctx, conn, data) })
}

func (t *tracer) TracePrepareStart(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareStartData) context.Context {
	return start(ctx, t, "TracePrepareStart", func(to pgx.PrepareTracer) context.Context { return to.TracePrepareStart(ctx, conn, data) })
}

func (t *tracer) TracePrepareEnd(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareEndData) {
	end(ctx, t, "TracePrepareEnd", func(ctx context.Context, to pgx.PrepareTracer) { to.TracePrepareEnd(ctx, conn, data) })
}

func (t *tracer) TraceConnectStart(ctx context.Context, data pgx.TraceConnectStartData) context.Context {
	return start(ctx, t, "TraceConnectStart", func(to pgx.ConnectTracer) context.Context { return to.TraceConnectStart(ctx, data) })
}

func (t *tracer) TraceConnectEnd(ctx context.Context, data pgx.TraceConnectEndData) {
	end(ctx, t, "TraceConnectEnd", func(ctx context.Context, to pgx.ConnectTracer) { to.TraceConnectEnd(ctx, data) })
}

func (t *tracer) TraceAcquireStart(ctx context.Context, pool *pgxpool.Pool, data pgxpool.TraceAcquireStartData) context.Context {
	return start(ctx, t, "TraceAcquireStart", func(to pgxpool.AcquireTracer) context.Context { return to.TraceAcquireStart(ctx, pool, data) })
}

func (t *tracer) TraceAcquireEnd(ctx context.Context, pool *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	end(ctx, t, "TraceAcquireEnd", func(ctx context.Context, to pgxpool.AcquireTracer) { to.TraceAcquireEnd(ctx, pool, data) })
}
