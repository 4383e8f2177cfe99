package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync/internal/aside"
)

// Functions are what the caller's config has the pool call, but for BeforeConnect. Each may block, whatever its ctx says,
// and panic.
//
// A function that has a connection keeps it if it is late: no two may use a connection of pgx at a time. The Store closes
// what lies below the connection, which ends a function that waits for the server, and has another connection made. The
// pool would wait for a function that it calls itself, with one of its places, so the Store calls those functions.
//
// While a connection is made functions may take as long as they like, as a server may: they have a place of the pool
// meanwhile, and the call that waits for the connection ends with its ctx.
type functions struct {
	ping    func(context.Context, pgxpool.ShouldPingParams) bool
	prepare func(context.Context, *pgx.Conn) (bool, error)
	release func(*pgx.Conn) bool

	pings, prepares, releases, dials, lookups, notices, failures aside.Hook

	pingLate atomic.Int64 // when ShouldPing was late last, in ns of Unix time; 0 if never

	returning atomic.Int32   // connections that AfterRelease has
	listening atomic.Int32   // connections that are made to listen
	closing   atomic.Int32   // calls of BeforeClose
	under     sync.WaitGroup // goroutines that call AfterRelease; joined by Close
}

const (
	// patience is for how long a function is waited for that has no ctx, and for how long Close waits for all of them.
	patience = time.Second
	// unasked is for how long ShouldPing is not called once it was late. It may ask a server that is far away: then it
	// would be late for each connection, and each renewal end without one.
	unasked = 30 * time.Second
	// mostClosing is how many connections may be about to be closed in BeforeClose: each has a place of the pool.
	mostClosing = 2
)

var errUnprepared = errors.New("no connection of the pool answers, and is what PrepareConn accepts")

// takeFrom takes the functions of a config, which the pool then does not call itself.
func (f *functions) takeFrom(s *service, c *pgxpool.Config) {
	f.prepare, f.release, f.ping = c.PrepareConn, c.AfterRelease, c.ShouldPing
	f.pings.Most = 1                                                  // a call that is late costs a connection, and a renewal comes to none if it takes several
	if before := c.BeforeAcquire; f.prepare == nil && before != nil { //nolint:staticcheck // programs that have it go on
		f.prepare = func(ctx context.Context, conn *pgx.Conn) (bool, error) { return before(ctx, conn), nil }
	}
	c.PrepareConn, c.BeforeAcquire, c.AfterRelease = nil, nil, nil //nolint:staticcheck // as above
	// A connection that does not answer the pool stays in the pool until it has said goodbye, for which it has 15 seconds:
	// all places would be taken by connections of before, and there were none for the renewal. So answers asks it.
	c.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		memoOf(p.Conn.PgConn()).idle = &p.IdleDuration
		return false
	}
	c.AfterConnect = guarded(s, "AfterConnect", c.AfterConnect)
	if before := c.BeforeClose; before != nil {
		c.BeforeClose = func(conn *pgx.Conn) {
			defer f.closing.Add(-1)
			if f.closing.Add(1) <= mostClosing {
				_ = s.safely("BeforeClose", func() error { before(conn); return nil })
			}
		}
	}
}

// readsUntil has the connection that listens end what it does with its ctx, in no other way.
func readsUntil(c *pgx.ConnConfig) {
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
}

// connectAside connects, and returns when ctx ends, though a function of the config may not. A connection that comes later
// is closed.
func (s *service) connectAside(ctx context.Context, c *pgx.ConnConfig) (*pgx.Conn, error) {
	connect := func() (*pgx.Conn, error) {
		s.functions.listening.Add(1)
		defer s.functions.listening.Add(-1)
		return pgx.ConnectConfig(ctx, c)
	}
	return made(ctx, s, connect, hangUp)
}

// asks reports whether a connection that was idle for so long has to answer before it is used, or that ShouldPing is late
// to say so. A connection has to where ShouldPing is not called.
func (f *functions) asks(ctx context.Context, log *slog.Logger, conn *pgx.Conn, idle time.Duration) (is, late bool) {
	if f.ping == nil {
		return idle > time.Second, false // as the pool does
	}
	if last := f.pingLate.Load(); last != 0 && time.Since(time.Unix(0, last)) < unasked {
		return true, false
	}
	asks := false
	err := f.pings.CallAs(context.WithoutCancel(ctx), log, "ShouldPing", grace, func(context.Context) error {
		asks = f.ping(ctx, pgxpool.ShouldPingParams{Conn: conn, IdleDuration: idle})
		return nil
	})
	if errors.Is(err, aside.ErrLate) {
		f.pingLate.Store(time.Now().UnixNano())
		return false, true
	}
	return err != nil || asks, false
}

// answers asks a connection of the pool whether it still stands, if the pool's config wants to know, and gives it up if
// not.
func (s *service) answers(ctx context.Context, conn *pgxpool.Conn) bool {
	m := memoOn(conn)
	must, idle := m.asked, m.idle
	m.asked, m.idle = false, nil
	if !must && idle != nil {
		var late bool
		if must, late = s.functions.asks(ctx, s.log, conn.Conn(), *idle); late {
			s.forsake(ctx, conn)
			return false
		}
	}
	if !must || conn.Ping(ctx) == nil {
		return true
	}
	abandon(conn)
	s.free(conn)
	return false
}

// prepared has PrepareConn, or BeforeAcquire, prepare a connection for a call. It has failed with err, or the call is to
// have another connection, if it returns false.
func (s *service) prepared(ctx context.Context, conn *pgxpool.Conn) (is bool, err error) {
	switch {
	case s.functions.prepare == nil:
		return true, nil
	case ctx.Err() != nil:
		s.free(conn)
		return false, context.Cause(ctx)
	}
	good, of := false, conn.Conn() // which is not to be asked for while forsake may take it
	err = s.functions.prepares.CallAs(ctx, s.log, "PrepareConn", s.timeout, func(context.Context) (err error) {
		good, err = s.functions.prepare(ctx, of)
		return err
	})
	switch {
	case errors.Is(err, aside.ErrLate):
		s.forsake(ctx, conn)
		return false, err
	case good && err == nil:
		return true, nil
	case !good && !errors.Is(err, aside.ErrMany):
		abandon(conn)
	}
	s.free(conn)
	return false, err
}

// beginRelease gives a connection back to the pool once AfterRelease has had it, and reports whether the config has that
// function. Giving is held.
func (f *functions) beginRelease(s *service, conn *pgxpool.Conn) bool {
	if f.release == nil {
		return false
	}
	f.returning.Add(1)
	f.under.Go(func() {
		defer f.returning.Add(-1)
		keeps, of := false, conn.Conn()
		err := f.releases.CallAs(context.Background(), s.log, "AfterRelease", patience, func(context.Context) error {
			keeps = f.release(of)
			return nil
		})
		switch {
		case errors.Is(err, aside.ErrLate):
			s.forsakeUntraced(conn)
		case err == nil && keeps && serves(conn):
			conn.Release()
		default:
			s.discard(conn)
		}
	})
	return true
}

// forsake leaves a connection to the function that has it. It is closed without what pgx has above the network, which the
// function may use.
func (s *service) forsake(ctx context.Context, conn *pgxpool.Conn) {
	s.tracer.released(budgetOf(ctx), s.pool, conn)
	s.forsakeUntraced(conn)
}

func (s *service) forsakeUntraced(conn *pgxpool.Conn) {
	of := conn.Hijack().PgConn()
	if w := wireOf(of); w != nil {
		_ = w.Conn.Close()
		return
	}
	_ = of.Conn().Close()
}

// awaitClosed waits until the pool is closed, for as long as no function of the program keeps the pool open. By then each
// attempt to connect has ended with its ctx, or, where the pool keeps idle connections, after its timeout: the pool has no
// ctx for these.
func (s *service) awaitClosed(closed chan struct{}) {
	wait := patience
	if s.keeps {
		wait += s.timeout
	}
	t := time.NewTicker(wait)
	defer t.Stop()
	for {
		select {
		case <-closed:
			return
		case <-t.C:
		}
		if f := &s.functions; s.pool.Stat().ConstructingConns()+f.closing.Load()+f.listening.Load() > 0 {
			s.log.Warn("a function of the config has not returned: Close does not wait for it")
			return
		}
	}
}
