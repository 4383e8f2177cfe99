package postgres

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync/internal/aside"
)

// A tracer stands before the Tracer of the caller's config. pgx calls a Tracer in the goroutine that sends the statement,
// which may be a renewal, and calls TraceRelease while a connection goes back to the pool. So each of its methods runs in
// a goroutine of its own, and is waited for no longer than for grace. While so many have not returned no other is called,
// and nobody waits at all. A panic is logged.
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
func (t *tracer) released(pool *pgxpool.Pool, conn *pgxpool.Conn) {
	if t == nil {
		return
	}
	if to, is := t.to.(pgxpool.ReleaseTracer); is {
		data := pgxpool.TraceReleaseData{Conn: conn.Conn()} // the pool may have conn by the time of a late call
		t.call("TraceRelease", func() { to.TraceRelease(pool, data) })
	}
}

// untraced is where a ctx has that its start was not traced in time: the Tracer has not put into the ctx by what it would
// know the end.
type untraced struct{}

func isUntraced(ctx context.Context) bool {
	is, _ := ctx.Value(untraced{}).(bool)
	return is
}

// call calls the Tracer, and reports whether it has returned. Its ctx is the call's: that ends later than the wait.
func (t *tracer) call(method string, f func()) (returned bool) {
	return nil == t.hook.CallAs(context.Background(), t.log, "Tracer."+method, grace, func(context.Context) error {
		f()
		return nil
	})
}

// start has the Tracer change the ctx of a call, if it is a Tracer of such calls. If it is late or fails, the call goes on
// with the ctx that it has.
func start[T any](ctx context.Context, t *tracer, method string, f func(to T) context.Context) context.Context {
	to, is := t.to.(T)
	if !is {
		return ctx
	}
	var with context.Context
	switch {
	case !t.call(method, func() { with = f(to) }) || with == nil: //nolint:fatcontext // it is called once
		return context.WithValue(ctx, untraced{}, true)
	case isUntraced(with): // of the call around this
		return context.WithValue(with, untraced{}, false)
	}
	return with
}

// end tells the Tracer of the end of a call whose start it has traced.
func end[T any](ctx context.Context, t *tracer, method string, f func(to T)) {
	if to, is := t.to.(T); is && !isUntraced(ctx) {
		t.call(method, func() { f(to) })
	}
}

func (t *tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return start(ctx, t, "TraceQueryStart", func(to pgx.QueryTracer) context.Context { return to.TraceQueryStart(ctx, conn, data) })
}

func (t *tracer) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	end(ctx, t, "TraceQueryEnd", func(to pgx.QueryTracer) { to.TraceQueryEnd(ctx, conn, data) })
}

func (t *tracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	return start(ctx, t, "TraceBatchStart", func(to pgx.BatchTracer) context.Context { return to.TraceBatchStart(ctx, conn, data) })
}

func (t *tracer) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	end(ctx, t, "TraceBatchQuery", func(to pgx.BatchTracer) { to.TraceBatchQuery(ctx, conn, data) })
}

func (t *tracer) TraceBatchEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchEndData) {
	end(ctx, t, "TraceBatchEnd", func(to pgx.BatchTracer) { to.TraceBatchEnd(ctx, conn, data) })
}

func (t *tracer) TracePrepareStart(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareStartData) context.Context {
	return start(ctx, t, "TracePrepareStart", func(to pgx.PrepareTracer) context.Context { return to.TracePrepareStart(ctx, conn, data) })
}

func (t *tracer) TracePrepareEnd(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareEndData) {
	end(ctx, t, "TracePrepareEnd", func(to pgx.PrepareTracer) { to.TracePrepareEnd(ctx, conn, data) })
}

func (t *tracer) TraceConnectStart(ctx context.Context, data pgx.TraceConnectStartData) context.Context {
	return start(ctx, t, "TraceConnectStart", func(to pgx.ConnectTracer) context.Context { return to.TraceConnectStart(ctx, data) })
}

func (t *tracer) TraceConnectEnd(ctx context.Context, data pgx.TraceConnectEndData) {
	end(ctx, t, "TraceConnectEnd", func(to pgx.ConnectTracer) { to.TraceConnectEnd(ctx, data) })
}

func (t *tracer) TraceAcquireStart(ctx context.Context, pool *pgxpool.Pool, data pgxpool.TraceAcquireStartData) context.Context {
	return start(ctx, t, "TraceAcquireStart", func(to pgxpool.AcquireTracer) context.Context { return to.TraceAcquireStart(ctx, pool, data) })
}

func (t *tracer) TraceAcquireEnd(ctx context.Context, pool *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	end(ctx, t, "TraceAcquireEnd", func(to pgxpool.AcquireTracer) { to.TraceAcquireEnd(ctx, pool, data) })
}
