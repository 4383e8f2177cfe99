package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/aside"
	"github.com/farsync/farsync/internal/sqlstore"
)

//go:embed statements.sql
var text string

// statements has the text of each statement: a step that takes several statements is a function of the database.
var statements = sqlstore.Statements(text)

// A service is the driver.Service of one database. A renewal of a session always finds a connection: all else may have
// to wait for rows that are locked, and for room at the server.
type service struct {
	pool   *pgxpool.Pool
	own    chan *pgxpool.Conn // has the connection that renews the session, while no renewal uses it
	calls  int32              // how many connections of the pool there may be beside those that renew the session
	joins  *sqlstore.Joins    // leave one of these connections to calls that wait for nobody
	places *places            // in the pool, for what acquire returns
	broken sync.WaitGroup     // goroutines that wait for the end of a connection; joined by Close
	making sync.WaitGroup     // goroutines that acquire a connection of the pool; joined by Close
	giving sync.Mutex         // held while a connection goes back to the pool
	held   atomic.Int32       // connections that calls have, and keys
	ears   *pgx.ConnConfig    // of the connections that listen; nil if the Store is to have none
	log    *slog.Logger

	room      sqlstore.Room
	most      atomic.Int64 // max_connections of the server, once a connection was made
	listening atomic.Bool  // a connection listens that does nothing else
	owned     atomic.Int32 // connections that renew the session, in own or in use; a call's are not counted
	lent      atomic.Int32 // sessions that listen by own, or are about to or have just done so
	ttl       atomic.Int64 // of the session that was opened last
	aged      atomic.Bool  // the connection in own was kept for as long as the pool keeps any
	replacing atomic.Bool  // another is asked for in its place
	direct    atomic.Bool  // the connection made last leads to the server itself
	half      int32        // of the connections of calls, or the only one: what a session may keep for its entries, or join a queue with

	lifetime time.Duration // of a connection
	keeps    bool          // the caller's config has the pool keep connections that no call uses
	timeout  time.Duration // of the making of a connection

	before func(context.Context, *pgx.ConnConfig) error // what the caller does before a connection is made, or nil
	hook   aside.Hook
	traces aside.Hook // of the Tracers of all connections
	tracer *tracer    // the Tracer of the caller's config; nil if it has none
	losses sqlstore.Losses

	functions functions

	mu       sync.Mutex
	closed   bool
	tending  sync.WaitGroup    // goroutines that give up connections; joined by Close
	sessions map[*session]bool // that were not dropped
}

// renewals is how many connections renew the session at most, all but one of them while earlier renewals are not
// answered.
const renewals = 4

// connectFor bounds how long a connection may take to be made, where the config does not say. The pool makes some
// without a ctx that ends, and its Close waits for them.
const connectFor = 5 * time.Second

// grace is what a statement still has when its ctx ends, to say how it ended.
const grace = 100 * time.Millisecond

// NewService returns the driver for a database. It does no I/O. A nil *Options is the zero Options. Programs call Open.
func NewService(config *pgxpool.Config, options *Options) (driver.Service, error) {
	if config == nil || config.ConnConfig == nil {
		return nil, errors.New("no config, which is one of pgxpool.ParseConfig")
	}
	options = cmp.Or(options, new(Options))
	calls, listens, err := options.share(config.MaxConns)
	if err != nil {
		return nil, err
	}
	c := config.Copy()
	// A statement that one connection of a proxy has prepared is not known to another. See send for connections to the
	// server itself.
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.ConnConfig.OnNotification = nil // pgx would give the caller what a session listens for, and the session nothing
	c.ConnConfig.ConnectTimeout = cmp.Or(c.ConnConfig.ConnectTimeout, connectFor)
	s := &service{
		before: c.BeforeConnect, log: aside.Logger(options.Logger),
		own: make(chan *pgxpool.Conn, 1), sessions: map[*session]bool{}, calls: calls,
		half: max(calls/2, 1), lifetime: c.MaxConnLifetime, keeps: c.MinConns > 0 || c.MinIdleConns > 0,
		timeout: c.ConnConfig.ConnectTimeout,
	}
	s.losses.Log, s.losses.Remedy = s.log, "fsync on, for the role of the Store synchronous_commit on, or remote_apply, and ALTER TABLE … SET LOGGED"
	s.joins = sqlstore.NewJoins(int(s.half), max(int(calls)-1, 1))
	s.places = newPlaces(calls, &s.room, s.freeKeys)
	if listens {
		s.ears = cmp.Or(options.Listen, config.ConnConfig).Copy()
		s.ears.DefaultQueryExecMode, s.ears.OnNotification = pgx.QueryExecModeExec, nil
	}
	traces := c.ConnConfig.Tracer
	c.ConnConfig.Tracer = s.traced(traces)
	s.tracer, _ = c.ConnConfig.Tracer.(*tracer)
	c.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		if err := begun(ctx); err != nil {
			return err
		}
		c.Tracer = traces // for the caller to change
		// The driver's functions go around the functions that the caller may set just then.
		err := s.prepare(ctx, c)
		s.guardFunctions(c)
		findProxies(c, s.made)
		cancelStatements(c)
		findUnconfirmed(c)
		return err
	}
	c.MaxConns = calls + renewals
	s.functions.takeFrom(s, c)
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), c); err != nil {
		return nil, err
	}
	return s, nil
}

// made notes a connection that was made.
func (s *service) made(direct bool, most int64) {
	s.direct.Store(direct)
	s.most.Store(most)
}

// prepare has the caller change what a connection is made with: a password that is good for minutes, say.
func (s *service) prepare(ctx context.Context, c *pgx.ConnConfig) error {
	if s.before == nil {
		return nil
	}
	with := c.Copy() // who is late may change it for as long as it likes
	err := s.hook.Call(ctx, s.log, cmp.Or(c.ConnectTimeout, connectFor), func(ctx context.Context) error { return s.before(ctx, with) })
	if err == nil {
		*c = *with
	}
	return err
}

// Open makes the session's row.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s.ttl.Store(int64(ttl))
	in := newSession(s, ttl)
	if err := in.Session.Open(ctx); err != nil {
		in.Drop()
		return nil, sqlstore.OfOpen(err)
	}
	return in, nil
}

// End removes a session's row. It may have to wait for a transaction with a guard, as any statement that deletes an
// entry, so it takes a place among the statements that wait: the place beside them is for renewals of the session which
// is open now.
func (s *service) End(ctx context.Context, session string) error {
	return sqlstore.End(budgeted(ctx), func(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
		err := s.runAmongCalls(ctx, f, statement, args...)
		if err == nil && ctx.Err() != nil {
			err = errUnconfirmed // as Write of a session
		}
		return err
	}, session)
}

// run runs a statement, which is a transaction of its own.
func (s *service) run(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	switch statement {
	case "open", "renew", "keep":
		return s.runByOwn(ctx, s.losses.Note(f), statement, args...)
	case "end":
		return s.runByOwn(ctx, f, statement, args...)
	}
	return s.runAmongCalls(ctx, f, statement, args...)
}

// runAmongCalls runs a statement on a connection of the calls.
func (s *service) runAmongCalls(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return judge(err, false)
	}
	defer s.release(conn)
	return judge(s.perform(ctx, conn, f, statement, args...), true)
}

// acquire returns a connection for what may have to wait, which release gives back.
func (s *service) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	return s.acquireFor(ctx, false)
}

// acquireFor is acquire, for a call or for a renewal.
func (s *service) acquireFor(ctx context.Context, renews bool) (*pgxpool.Conn, error) {
	if err := s.places.Take(ctx, renews); err != nil {
		return nil, err
	}
	err := s.room.Ask(ctx, func() bool { return s.pool.Stat().IdleConns() > 0 })
	var conn *pgxpool.Conn
	if err == nil {
		conn, err = s.take(ctx)
	}
	switch {
	case err == nil && renews:
		s.owned.Add(1)
	case err == nil:
		s.held.Add(1)
	case !s.places.Retire():
		s.places.Give()
	}
	return conn, err
}

// take returns a connection of the pool that still stands, where the pool's config wants to know, and is prepared.
func (s *service) take(ctx context.Context) (*pgxpool.Conn, error) {
	for range s.calls + renewals + 1 { // as often as the pool itself tries
		conn, err := s.fromPool(ctx)
		if err != nil {
			s.noteRoom(err)
			return nil, err
		}
		spend(ctx, conn.Conn().PgConn())
		if s.answers(ctx, conn) {
			switch is, err := s.prepared(ctx, conn); {
			case err != nil:
				return nil, err
			case is:
				return conn, nil
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return nil, errUnprepared
}

func (s *service) release(conn *pgxpool.Conn) {
	s.held.Add(-1)
	if s.places.Retire() {
		abandon(conn)
		s.free(conn)
		return
	}
	s.free(conn)
	s.places.Give()
}

// free gives a connection back to the pool, unless it is closed or spent, or would be one more than the Store is to
// have. The connection of a statement that was cancelled stays in the pool until the server was told, for which it is
// dialed where it was: where nothing answers there any more that takes 15 seconds, in which there would be no room for
// connections to where it is now. So it is waited for elsewhere. Such are as many as were made in that time.
func (s *service) free(conn *pgxpool.Conn) {
	s.tracer.released(spentBy(conn.Conn().PgConn()), s.pool, conn)
	if serves(conn) {
		memoOn(conn).used = time.Now()
		if s.giveBack(conn) {
			return
		}
	}
	s.discard(conn)
}

// discard closes a connection that is to be in the pool no more.
func (s *service) discard(conn *pgxpool.Conn) {
	abandon(conn)   // unless it is closed
	s.broken.Add(1) // before the pool can be closed
	cleaned := conn.Hijack().PgConn().CleanupDone()
	go func() { // joined by Close
		defer s.broken.Done()
		<-cleaned
	}()
}

// reset closes the connections of calls that no call uses: a connection that was cut off without a word is not found
// before it is used.
func (s *service) reset() {
	s.resetOwn()
	for _, conn := range s.pool.AcquireAllIdle(context.Background()) {
		abandon(conn)
		conn.Release()
	}
}

// connect returns a connection that listens, or none if it would be one to a proxy, which may have given the server's
// connection to another client by the time of a notification.
func (s *service) connect(ctx context.Context, channel string) (*pgx.Conn, error) {
	ears := s.ears.Copy()
	if err := s.prepare(ctx, ears); err != nil {
		return nil, err
	}
	s.guardFunctions(ears)
	findProxies(ears, func(bool, int64) {})
	readsUntil(ears)
	conn, err := s.connectAside(ctx, ears)
	if err != nil {
		s.noteRoom(err)
		return nil, err
	}
	if isDirect(conn.PgConn()) {
		if err = s.hears(ctx, conn.PgConn(), channel); err == nil {
			return conn, nil
		}
	}
	hangUp(conn)
	if err == nil {
		s.log.Warn("a proxy stands before the PostgreSQL server: what waits looks now and then", "remedy", "postgres.Options.Listen")
	}
	return nil, err
}

// hears has a connection listen, unless the server has little room left for others.
func (s *service) hears(ctx context.Context, conn *pgconn.PgConn, channel string) error {
	answer, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()+"; "+connections).ReadAll()
	if err != nil || len(answer) != 2 || len(answer[1].Rows) != 1 {
		return err
	}
	n, _ := strconv.Atoi(string(answer[1].Rows[0][0]))
	most, _ := strconv.Atoi(string(answer[1].Rows[0][1]))
	if !sqlstore.Crowded(n, most) {
		return nil
	}
	if s.direct.Load() { // the connections of the pool lead to that server, too
		s.room.Shrink()
	}
	return errCrowded
}

// hangUp says goodbye to the server, which otherwise takes the connection for broken.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// begin starts a goroutine that Close joins, unless the service is closed.
func (s *service) begin(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.tending.Go(f)
	}
}

// startMaking starts a goroutine that acquires or makes a connection, which Close joins, unless the service is closed.
func (s *service) startMaking(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return sqlstore.ErrClosed
	}
	s.making.Go(f)
	return nil
}

// String is what errors of Open call it.
func (*service) String() string { return "postgres" }

// Close closes the connections.
func (s *service) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.tending.Wait()
	s.closeOwn()
	closed := make(chan struct{})
	go func() { // joined below, unless a function of the program keeps it
		defer close(closed)
		s.pool.Close()
		s.making.Wait()
		s.functions.under.Wait()
		s.broken.Wait()
	}()
	s.awaitClosed(closed)
	aside.Close(s.log)
	return nil
}
