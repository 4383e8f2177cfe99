package postgrestest_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// TestTracerKeepsNobody: a session is opened, used, renewed and closed, and so is its service, whichever method of the Tracer blocks, panics or ends
// its goroutine, from the first call on.
func TestTracerKeepsNobody(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	goes := make(chan struct{})
	t.Cleanup(func() { close(goes) })
	for _, method := range []string{
		"TraceQueryStart", "TraceQueryEnd", "TraceBatchStart", "TraceBatchQuery", "TraceBatchEnd", "TracePrepareStart", "TracePrepareEnd",
		"TraceConnectStart", "TraceConnectEnd", "TraceAcquireStart", "TraceAcquireEnd", "TraceRelease",
	} {
		for does, what := range map[string]func(){
			"blocks":             func() { <-goes },
			"panics":             func() { panic("a bug") },
			"ends its goroutine": runtime.Goexit,
		} {
			t.Run(method+" "+does, func(t *testing.T) {
				t.Parallel()
				var called atomic.Bool
				config, options := d.config(t), d.options(0)
				options.Connections = 2
				config.ConnConfig.Tracer = tracing(func(of string) {
					if of == method {
						called.Store(true)
						what()
					}
				})
				service, err := postgres.NewService(config, options)
				require.NoError(t, err)
				require.NoError(t, locktest.Returns(t, soon, "a session", func() error { return d.session(t, service) }))
				require.NoError(t, locktest.Returns(t, soon, "Close", service.Close))
				require.Eventually(t, called.Load, soon, time.Millisecond)
			})
		}
	}
}

// session opens a session, and has it do what all sessions do.
func (d database) session(t testing.TB, service driver.Service) error {
	in, err := service.Open(within(t, soon), time.Hour)
	for n := 0; err == nil && n < 2; n++ {
		// It may wait for a lock, so it is sent in a batch.
		_, err = in.Create(within(t, soon), driver.Entry{Queue: "/traced", ID: in.NewID("/traced", driver.Read, 1), Kind: driver.Read, Units: 1}, 0)
		if err == nil {
			_, err = in.List(within(t, soon), "/traced", 1)
		}
		if err == nil {
			err = in.Renew(within(t, soon), nil)
		}
	}
	if err == nil {
		err = in.Close(within(t, soon))
	}
	return err
}

// tracing is a Tracer with all of the methods that a Store has called. It is told which.
type tracing func(method string)

func (tr tracing) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	tr("TraceQueryStart")
	return ctx
}

func (tr tracing) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {
	tr("TraceQueryEnd")
}

func (tr tracing) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	tr("TraceBatchStart")
	return ctx
}

func (tr tracing) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	tr("TraceBatchQuery")
}

func (tr tracing) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {
	tr("TraceBatchEnd")
}

func (tr tracing) TracePrepareStart(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareStartData) context.Context {
	tr("TracePrepareStart")
	return ctx
}

func (tr tracing) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {
	tr("TracePrepareEnd")
}

func (tr tracing) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	tr("TraceConnectStart")
	return ctx
}

func (tr tracing) TraceConnectEnd(context.Context, pgx.TraceConnectEndData) { tr("TraceConnectEnd") }

func (tr tracing) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	tr("TraceAcquireStart")
	return ctx
}

func (tr tracing) TraceAcquireEnd(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireEndData) {
	tr("TraceAcquireEnd")
}

func (tr tracing) TraceRelease(*pgxpool.Pool, pgxpool.TraceReleaseData) { tr("TraceRelease") }

// TestTracerIsToldOfTheEnd of each connection that was acquired, which is that it is released. What a start puts into the ctx is there at the end,
// and without the start there is no end: a machine that is busy may have the Tracer be late.
func TestTracerIsToldOfTheEnd(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	config, options := d.config(t), d.options(0)
	options.Connections = 2
	var acquired, released, known, unknown atomic.Int64
	config.ConnConfig.Tracer = counting{tracing(func(method string) {
		switch method {
		case "TraceAcquireStart":
			acquired.Add(1)
		case "TraceRelease":
			released.Add(1)
		}
	}), &known, &unknown}
	service, err := postgres.NewService(config, options)
	require.NoError(t, err)
	require.NoError(t, d.session(t, service))
	require.NoError(t, service.Close())
	require.Positive(t, acquired.Load())
	require.Eventually(t, func() bool { return acquired.Load() == released.Load() }, soon, time.Millisecond)
	require.Positive(t, known.Load())
	require.Zero(t, unknown.Load())
}

// counting counts the statements that end: known by what their start has put into the ctx, and unknown.
type counting struct {
	tracing

	known, unknown *atomic.Int64
}

type counted struct{}

func (counting) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, counted{}, true)
}

func (c counting) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(counted{}) != nil {
		c.known.Add(1)
	} else {
		c.unknown.Add(1)
	}
}

// TestSlowFunctionsCostNoLease: the waits for functions that take just less than a call of them may take do not add up, however many calls a
// renewal makes: it gives back keys, and has a connection made.
func TestSlowFunctionsCostNoLease(t *testing.T) {
	suite.Long(t, suite.Postgres, "a session of 2 s is renewed ten times")
	suite.Timed(t, 200*time.Millisecond)
	d := newDatabase(t)
	d.exec(t, `CREATE FUNCTION says() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN FOR n IN 1..30 LOOP RAISE NOTICE 'renewed'; END LOOP; RETURN NEW; END $$`)
	d.exec(t, `CREATE TRIGGER says AFTER UPDATE ON farsync_sessions FOR EACH ROW EXECUTE FUNCTION says()`)
	for name, set := range map[string]func(c *pgxpool.Config, do func()){
		"Tracer":   func(c *pgxpool.Config, do func()) { c.ConnConfig.Tracer = tracing(func(string) { do() }) },
		"OnNotice": functions["ConnConfig.OnNotice"].set,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, options := d.config(t), d.options(2*time.Second)
			config.MaxConns = 12
			var slow atomic.Bool
			set(config, func() {
				if slow.Load() {
					time.Sleep(grace * 9 / 10) //nolint:forbidigo // as slow as it may be
				}
			})
			store, err := postgres.Open(within(t, soon), config, options)
			require.NoError(t, err)
			t.Cleanup(func() { _ = store.Close() })
			var leases []*farsync.Lease
			for n := range 6 {
				lease, err := farsync.NewMutex(store, fmt.Sprintf("/slow/%s/%d", name, n)).Lock(within(t, soon))
				require.NoError(t, err)
				leases = append(leases, lease)
			}
			slow.Store(true)
			select {
			case <-leases[0].Done(): // all are in one session
			case <-time.After(5 * time.Second):
			}
			for _, lease := range leases {
				require.NoError(t, lease.Err())
			}
		})
	}
}

// grace is for how long a call of a function that a step can do without is waited for.
const grace = 100 * time.Millisecond

// TestCustomDataIsTheCallers: a Tracer that is late may look at what the caller keeps in the custom data of a
// connection.
func TestCustomDataIsTheCallers(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	config, options := d.config(t), d.options(0)
	options.Connections = 2
	config.ConnConfig.ValidateConnect = func(_ context.Context, conn *pgconn.PgConn) error {
		conn.CustomData()["caller's"] = true
		return nil
	}
	l := looking{tracing(func(string) {}), new(atomic.Int64), make(chan struct{})}
	end := sync.OnceFunc(func() { close(l.over) })
	t.Cleanup(end)
	config.ConnConfig.Tracer = l
	service, err := postgres.NewService(config, options)
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	l.calls.Store(2)
	for range 10 {
		require.NoError(t, in.Renew(within(t, soon), nil))
		_, err = in.List(within(t, soon), "/traced", 1)
		require.NoError(t, err)
	}
	end()
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
}

// looking is a Tracer that looks at the custom data of a connection, in some calls until it is told to end.
type looking struct {
	tracing

	calls *atomic.Int64
	over  chan struct{}
}

func (l looking) TraceQueryEnd(_ context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	for looks := l.calls.Add(-1) >= 0; looks; runtime.Gosched() {
		_ = conn.PgConn().CustomData()["caller's"]
		select {
		case <-l.over:
			looks = false
		default:
		}
	}
}
