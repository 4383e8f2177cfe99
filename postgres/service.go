package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/sqlstore"
)

//go:embed statements.sql
var text string

// statements has the text of each, of which there is one: what takes several is a function of the database.
var statements = sqlstore.Statements(text)

// A service is the driver.Service of one database. What renews a session always finds a place in the pool: all else may have to wait for
// rows that are locked.
type service struct {
	pool   *pgxpool.Pool
	places chan struct{}   // in the pool but for one: a value for each connection that acquire has returned
	broken sync.WaitGroup  // goroutines that wait for the end of a connection; joined by Close
	ears   *pgx.ConnConfig // of the connections that listen
	log    *slog.Logger

	direct atomic.Bool // the connection made last leads to the server itself
	keys   int32       // how many of them a session may keep for its entries

	before func(context.Context, *pgx.ConnConfig) error // what the caller does before a connection is made, or nil
}

// connectFor bounds how long a connection may take to be made, where the config does not say. The pool makes some without a ctx that ends,
// and its Close waits for them.
const connectFor = 5 * time.Second

// grace is what a statement still has when its ctx ends, to say how it ended.
const grace = 100 * time.Millisecond

// NewService returns the driver for a database. It does no I/O. No options are the zero ones. Programs call Open.
func NewService(config *pgxpool.Config, options *Options) (driver.Service, error) {
	if config == nil || config.ConnConfig == nil {
		return nil, errors.New("no config, which is one of pgxpool.ParseConfig")
	}
	options = cmp.Or(options, new(Options))
	c := config.Copy()
	// What one connection of a proxy has prepared another does not know. See send for those that are direct.
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.ConnConfig.ConnectTimeout = cmp.Or(c.ConnConfig.ConnectTimeout, connectFor)
	s := &service{
		ears: cmp.Or(options.Listen, config.ConnConfig).Copy(), before: c.BeforeConnect,
		log: cmp.Or(options.Logger, slog.New(slog.DiscardHandler)),
	}
	s.ears.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		// What the driver needs goes around what the caller may set just then.
		err := s.prepare(ctx, c)
		findProxies(c, s.direct.Store)
		cancelStatements(c)
		findUnconfirmed(c)
		return err
	}
	s.places, s.keys = make(chan struct{}, max(c.MaxConns, 1)), c.MaxConns/2
	c.MaxConns++
	var err error
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), c); err != nil {
		return nil, err
	}
	return s, nil
}

// prepare has the caller change what a connection is made with: a password that is good for minutes, say.
func (s *service) prepare(ctx context.Context, c *pgx.ConnConfig) error {
	if s.before == nil {
		return nil
	}
	return s.before(ctx, c)
}

// Open makes the session's row.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in := newSession(s, ttl)
	if err := in.Session.Open(ctx); err != nil {
		in.Drop()
		return nil, sqlstore.OfOpen(err)
	}
	return in, nil
}

// End removes a session's row. It may have to wait for a transaction with a guard, as any statement that deletes an entry, so it takes a place
// among those that wait: the one beside them is for renewals, of the session which is open now.
func (s *service) End(ctx context.Context, session string) error {
	return sqlstore.End(ctx, func(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
		err := s.runBy(ctx, s.acquire, s.release, f, statement, args...)
		if err == nil && ctx.Err() != nil {
			err = errUnconfirmed // as Write of a session
		}
		return err
	}, session)
}

// run runs a statement, which is a transaction of its own.
func (s *service) run(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	switch statement {
	case "open", "renew", "keep", "end":
		return s.runBy(ctx, s.pool.Acquire, s.free, f, statement, args...)
	}
	return s.runBy(ctx, s.acquire, s.release, f, statement, args...)
}

// runBy is run on a connection that is acquired and released so.
func (s *service) runBy(
	ctx context.Context, acquire func(context.Context) (*pgxpool.Conn, error), release func(*pgxpool.Conn),
	f func(sqlstore.Rows) error, statement string, args ...any,
) error {
	conn, err := acquire(ctx)
	if err != nil {
		return judge(err, false)
	}
	defer release(conn)
	return judge(perform(ctx, conn, f, statement, args...), true)
}

// acquire returns a connection for what may have to wait, which release gives back.
func (s *service) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	select {
	case s.places <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		<-s.places
	}
	return conn, err
}

func (s *service) release(conn *pgxpool.Conn) {
	s.free(conn)
	<-s.places
}

// free gives a connection back to the pool, unless it is closed. That of a statement that was cancelled stays in the pool until the server was
// told, for which it is dialed where it was: where nothing answers there any more that takes 15 seconds, in which there would be no room for
// connections to where it is now. So it is waited for elsewhere. Such are as many as were made in that time.
func (s *service) free(conn *pgxpool.Conn) {
	if !conn.Conn().IsClosed() {
		conn.Release()
		return
	}
	s.broken.Add(1) // before the pool can be closed
	cleaned := conn.Hijack().PgConn().CleanupDone()
	go func() { // joined by Close
		defer s.broken.Done()
		<-cleaned
	}()
}

// perform runs a statement on a connection. Its success is what every synchronous replica has that is to have it.
func perform(ctx context.Context, conn *pgxpool.Conn, f func(sqlstore.Rows) error, statement string, args ...any) error {
	data := conn.Conn().PgConn().CustomData()
	delete(data, unconfirmed)
	if err := send(ctx, conn, f, statement, args...); err != nil {
		return err
	}
	if _, is := data[unconfirmed]; is {
		return errUnconfirmed
	}
	return nil
}

// send runs a statement on a connection. Those to the server itself keep what they have parsed, and have the isolation level that is needed.
// Through a proxy each transaction sets its level first; and a call that gives up cancels nothing there, so what may have to wait is bounded.
func send(ctx context.Context, conn *pgxpool.Conn, f func(sqlstore.Rows) error, statement string, args ...any) error {
	text := statements[statement][0]
	if isDirect(conn.Conn().PgConn()) {
		return read(f)(conn.Query(ctx, text, append([]any{pgx.QueryExecModeCacheStatement}, args...)...))
	}
	var all pgx.Batch // which is one transaction, and one request
	all.Queue(statements["level"][0])
	if waiting[statement] {
		all.Queue(statements["bound"][0], bound(ctx).Milliseconds())
	}
	before := all.Len()
	all.Queue(text, args...)
	answers := conn.SendBatch(ctx, &all)
	var err error
	for n := 0; n < before && err == nil; n++ {
		_, err = answers.Exec()
	}
	if err == nil {
		err = read(f)(answers.Query())
	}
	if end := answers.Close(); err == nil {
		err = end // the commit is behind the last row
	}
	return err
}

// waiting are the statements that wait for transactions of others: those that InTx or a guard is in.
var waiting = map[string]bool{
	"create": true, "enter": true, "turned": true, "delete": true, "replace": true, "tell": true, "write": true, "watch": true, "end": true,
}

// bound returns how long a statement waits for a lock at the server. The Store sends it again.
func bound(ctx context.Context) time.Duration {
	left := connectFor
	if end, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(end))
	}
	return max(left, time.Millisecond) // 0 is for ever
}

// read has f read the rows of a statement, and returns how it has ended.
func read(f func(sqlstore.Rows) error) func(pgx.Rows, error) error {
	return func(rows pgx.Rows, err error) error {
		if err != nil {
			return err
		}
		defer rows.Close()
		if err := f(rows); err != nil {
			return err
		}
		rows.Close() // the statement is carried out when its last row was read
		return rows.Err()
	}
}

// reset closes the connections that no call uses: one that was cut off without a word is not found before it is used.
func (s *service) reset() {
	for _, conn := range s.pool.AcquireAllIdle(context.Background()) {
		abandon(conn)
		conn.Release()
	}
}

// connect returns a connection that listens, or none if it would be one to a proxy, which may have given the server's connection to
// another client by the time of a notification.
func (s *service) connect(ctx context.Context, channel string) (*pgx.Conn, error) {
	ears := s.ears.Copy()
	if err := s.prepare(ctx, ears); err != nil {
		return nil, err
	}
	findProxies(ears, func(bool) {})
	conn, err := pgx.ConnectConfig(ctx, ears)
	if err != nil {
		return nil, err
	}
	if isDirect(conn.PgConn()) {
		if _, err = conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err == nil {
			return conn, nil
		}
	}
	hangUp(conn)
	if err == nil {
		s.log.Warn("a proxy stands before the PostgreSQL server: what waits looks now and then", "remedy", "postgres.Options.Listen")
	}
	return nil, err
}

// hangUp says goodbye to the server, which otherwise takes the connection for one that has failed.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// Close closes the connections.
func (s *service) Close() error {
	s.pool.Close()
	s.broken.Wait()
	return nil
}
