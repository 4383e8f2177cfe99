package postgres

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// notes is a Tracer that takes some time for each call, and notes the methods that have returned, with what their start has put into the ctx.
type notes struct {
	takes map[string]time.Duration // for all others as long as for ""
	list  chan string
}

type parent struct{}

func (n notes) note(ctx context.Context, method string) {
	d, is := n.takes[method]
	if !is {
		d = n.takes[""]
	}
	time.Sleep(d) //nolint:forbidigo // in a bubble
	of, _ := ctx.Value(parent{}).(string)
	n.list <- of + "/" + method
}

func (n notes) start(ctx context.Context, method string) context.Context {
	n.note(ctx, method)
	of, _ := ctx.Value(parent{}).(string)
	return context.WithValue(ctx, parent{}, of+"/"+method)
}

func (n notes) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return n.start(ctx, "query")
}

func (n notes) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	n.note(ctx, "end")
}

func (n notes) TracePrepareStart(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareStartData) context.Context {
	return n.start(ctx, "prepare")
}

func (n notes) TracePrepareEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareEndData) {
	n.note(ctx, "prepared")
}

func (n notes) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return n.start(ctx, "acquire")
}

func (n notes) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireEndData) {
	n.note(ctx, "acquired")
}

// step has a Tracer told of what pgx does for a statement on a connection that was just acquired.
func step(ctx context.Context, tr *tracer) {
	acquire := tr.TraceAcquireStart(ctx, nil, pgxpool.TraceAcquireStartData{})
	tr.TraceAcquireEnd(acquire, nil, pgxpool.TraceAcquireEndData{})
	query := tr.TraceQueryStart(ctx, nil, pgx.TraceQueryStartData{})
	prepare := tr.TracePrepareStart(query, nil, pgx.TracePrepareStartData{})
	tr.TracePrepareEnd(prepare, nil, pgx.TracePrepareEndData{})
	tr.TraceQueryEnd(query, nil, pgx.TraceQueryEndData{})
}

func traces(takes map[string]time.Duration) (*tracer, notes) {
	s, n := &service{log: slog.New(slog.DiscardHandler)}, notes{takes, make(chan string, 100)}
	tr, _ := s.traced(n).(*tracer)
	return tr, n
}

// told returns what a Tracer has noted.
func (n notes) told() (list []string) {
	synctest.Wait()
	for len(n.list) > 0 {
		list = append(list, <-n.list)
	}
	return list
}

// TestWaitsForTheTracerDoNotAddUp to more than a single call may take in a step, whichever method is slow.
func TestWaitsForTheTracerDoNotAddUp(t *testing.T) {
	for _, row := range []struct {
		takes time.Duration
		waits time.Duration
	}{
		{0, 0},
		{grace / 10, 6 * grace / 10},
		{grace / 4, grace},
		{grace * 9 / 10, grace},
		{time.Minute, grace},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, n := traces(map[string]time.Duration{"": row.takes})
			ctx := budgeted(t.Context())
			require.Equal(t, ctx, budgeted(ctx), "a step in a step")
			began := time.Now()
			step(ctx, tr)
			require.Equal(t, row.waits, time.Since(began))
			step(ctx, tr)
			require.Equal(t, min(2*row.waits, grace), time.Since(began), "of the step, not of a statement")
			step(budgeted(t.Context()), tr)
			require.Equal(t, min(2*row.waits, grace)+row.waits, time.Since(began), "of no other step")
			time.Sleep(time.Hour) //nolint:forbidigo // in a bubble
			n.told()
		})
	}
}

// TestFastTracerIsToldInOrder: all of it is told before the statement goes on.
func TestFastTracerIsToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, n := traces(map[string]time.Duration{"": time.Millisecond})
		step(budgeted(t.Context()), tr)
		require.Len(t, n.list, 6)
		require.Equal(t, []string{"/acquire", "/acquire/acquired", "/query", "/query/prepare", "/query/prepare/prepared", "/query/end"}, n.told())
	})
}

// TestLateStartIsToldItsEnd, after it has returned, and with the ctx that it has returned.
func TestLateStartIsToldItsEnd(t *testing.T) {
	for name, pause := range map[string]time.Duration{"returns before the end": time.Minute, "returns after the end": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, n := traces(map[string]time.Duration{"query": time.Second})
				query := tr.TraceQueryStart(budgeted(t.Context()), nil, pgx.TraceQueryStartData{})
				prepare := tr.TracePrepareStart(query, nil, pgx.TracePrepareStartData{})
				tr.TracePrepareEnd(prepare, nil, pgx.TracePrepareEndData{})
				require.ElementsMatch(t, []string{"/prepare", "/prepare/prepared"}, n.told(), "the query has put nothing into the ctx yet")
				time.Sleep(pause) //nolint:forbidigo // in a bubble
				tr.TraceQueryEnd(query, nil, pgx.TraceQueryEndData{})
				time.Sleep(time.Hour) //nolint:forbidigo // in a bubble
				require.Equal(t, []string{"/query", "/query/end"}, n.told())
			})
		})
	}
}

// TestStartThatFailsIsToldNoEnd, nor is a start that was left out.
func TestStartThatFailsIsToldNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, n := traces(nil)
		tr.to = fails{n}
		tr.TraceQueryEnd(tr.TraceQueryStart(t.Context(), nil, pgx.TraceQueryStartData{}), nil, pgx.TraceQueryEndData{})
		require.Empty(t, n.told())

		tr, n = traces(map[string]time.Duration{"": time.Hour})
		for range 100 {
			tr.TraceQueryEnd(tr.TraceQueryStart(t.Context(), nil, pgx.TraceQueryStartData{}), nil, pgx.TraceQueryEndData{})
		}
		time.Sleep(24 * time.Hour) //nolint:forbidigo // in a bubble
		told := n.told()
		require.Len(t, told, 16, "eight may be late")
		require.Equal(t, []string{"/query", "/query/end"}, []string{told[0], told[15]})
	})
}

// fails is a Tracer whose starts panic.
type fails struct{ notes }

func (fails) TraceQueryStart(context.Context, *pgx.Conn, pgx.TraceQueryStartData) context.Context {
	panic("a bug")
}

func (n notes) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return n.start(ctx, "batch")
}

func (n notes) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	n.note(ctx, data.SQL)
	if data.SQL == "panics" {
		panic("a bug")
	}
}

func (n notes) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	n.note(ctx, "end")
}

// TestBatchIsToldInOrder: a Tracer that is late for some part of a batch, or fails there, is told the rest once that part
// is over, whether the start was late or not.
func TestBatchIsToldInOrder(t *testing.T) {
	for name, takes := range map[string]map[string]time.Duration{
		"in time":       nil,
		"a query":       {"first": grace * 2, "second": grace},
		"all queries":   {"first": grace * 9 / 10, "second": grace * 9 / 10, "panics": grace * 9 / 10},
		"the start":     {"batch": time.Second},
		"start and all": {"": time.Second, "end": 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, n := traces(takes)
				batch := tr.TraceBatchStart(budgeted(t.Context()), nil, pgx.TraceBatchStartData{})
				for _, query := range []string{"first", "second", "panics"} {
					tr.TraceBatchQuery(batch, nil, pgx.TraceBatchQueryData{SQL: query})
				}
				tr.TraceBatchEnd(batch, nil, pgx.TraceBatchEndData{})
				time.Sleep(time.Hour) //nolint:forbidigo // in a bubble
				require.Equal(t, []string{"/batch", "/batch/first", "/batch/second", "/batch/panics", "/batch/end"}, n.told())
			})
		})
	}
}
