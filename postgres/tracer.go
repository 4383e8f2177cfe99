package postgres

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync/internal/aside"
)

// A tracer stands before the Tracer of the caller's config. pgx calls a Tracer in the goroutine that sends the statement,
// which may be a renewal, and calls TraceRelease while a connection goes back to the pool. So each of its methods runs in
// a goroutine of its own, and is waited for within the budget of the step. While so many have not returned no other is
// called, and nobody waits at all. A panic is logged.
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
		t.call(by, "TraceRelease", func() { to.TraceRelease(pool, data) })
	}
}

// call calls the Tracer, and reports whether it has returned. Its ctx is the call's: that ends later than the wait.
func (t *tracer) call(by *budget, method string, f func()) (returned bool) {
	return nil == by.wait(func(most time.Duration) error {
		return t.hook.CallAs(context.Background(), t.log, "Tracer."+method, most, func(context.Context) error {
			f()
			return nil
		})
	})
}

// A late is a call whose start the Tracer was not told of in time. What follows the start is told once that has returned,
// with the ctx that it returns, in the goroutine of the start: it has a place among the late calls already. If the start
// was left out, or fails, nothing follows.
type late struct {
	mu    sync.Mutex
	with  context.Context //nolint:containedctx // it is what the start has returned, nil until all that came before was told
	queue []func(context.Context)
}

// lates is where the ctx of a call has its late, which is nil where only the call around it is late.
type lates struct{}

func lateOf(ctx context.Context) *late {
	l, _ := ctx.Value(lates{}).(*late)
	return l
}

// returned tells what has come since the start was late.
func (l *late) returned(with context.Context) {
	for with != nil {
		l.mu.Lock()
		queue := l.queue
		if l.queue = nil; queue == nil {
			l.with = with //nolint:fatcontext // once, and then the loop ends
		}
		l.mu.Unlock()
		if queue == nil {
			return
		}
		for _, f := range queue {
			f(with)
		}
	}
}

// add has f told once the start has returned. If it has, add returns the ctx with which to tell it now.
func (l *late) add(f func(context.Context)) (with context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.with == nil {
		l.queue = append(l.queue, f)
	}
	return l.with
}

// start has the Tracer change the ctx of a call, if it is a Tracer of such calls. If it is late or fails, the call goes on
// with the ctx that it has.
func start[T any](ctx context.Context, t *tracer, method string, f func(to T) context.Context) context.Context {
	to, is := t.to.(T)
	if !is {
		return ctx
	}
	l := new(late)
	switch returned := t.call(budgetOf(ctx), method, func() { l.returned(f(to)) }); {
	case !returned || l.with == nil:
		return context.WithValue(ctx, lates{}, l)
	case lateOf(l.with) != nil: // of the call around this
		return context.WithValue(l.with, lates{}, (*late)(nil))
	}
	return l.with
}

// end tells the Tracer of what follows a start.
func end[T any](ctx context.Context, t *tracer, method string, f func(ctx context.Context, to T)) {
	to, is := t.to.(T)
	if !is {
		return
	}
	if l := lateOf(ctx); l != nil {
		if ctx = l.add(func(with context.Context) { f(with, to) }); ctx == nil {
			return
		}
	}
	t.call(budgetOf(ctx), method, func() { f(ctx, to) })
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
