package mysql

import (
	"cmp"
	"context"
	"database/sql"
	dbdriver "database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/aside"
	"github.com/farsync/farsync/internal/sqlstore"
	"github.com/farsync/farsync/internal/sqlstore/stdsql"
)

const (
	// connections is how many a Store has at most where the option does not say. Of the connections that do not renew the
	// session, idle are kept between calls, for idleFor.
	connections = 7
	idle        = 2
	idleFor     = 30 * time.Second
	// renewals is how many connections renew the session at most: as many as a Store leaves unanswered.
	renewals = 8
)

// names are the names of procedures that are not called like their step: a procedure never changes under its name, for
// CREATE … IF NOT EXISTS would leave an earlier one as it is.
var names = map[string]string{
	"ahead": "ahead_2", "bury": "bury_4", "create": "create_4", "list": "list_2", "open": "open_9", "owned": "owned_2",
	"poll": "poll_2", "renew": "renew_7", "sight": "sight_2", "survey": "survey_2",
}

// A service is the driver.Service of one database. It has two pools: what may have to wait, for a row that is locked
// or for an answer, must not keep a session from being renewed. That goes for a renewal, too: the answer to an
// earlier one may come yet, so that one is left under way, and the next has a connection of its own. A read waits for
// no row, and so finds a connection beside writes that do, unless room is scarce.
type service struct {
	calls, sessions *sql.DB
	writes          chan struct{}   // has a value for each write under way
	joins           *sqlstore.Joins // leave a write to calls that wait for nobody
	most            int             // connections of calls
	places          *sqlstore.Places
	log             *slog.Logger
	ttl             atomic.Int64 // of the session that was opened last

	room   sqlstore.Room
	bounds boundary
	losses sqlstore.Losses

	mu     sync.Mutex
	closed bool
	looks  sync.WaitGroup // goroutines that ask the server for how much it has room; joined by Close

	life context.Context
	end  context.CancelFunc
}

// NewService returns the driver for a database. It does no I/O. A nil *Options is the zero Options. Programs call Open.
func NewService(dsn string, options *Options) (driver.Service, error) {
	options = cmp.Or(options, new(Options))
	n := cmp.Or(options.Connections, connections)
	if n < sqlstore.Least {
		return nil, fmt.Errorf("option Connections is %d: a Store needs %d", n, sqlstore.Least)
	}
	writes := max((n-1)/2, 1)
	joins := max(writes-1, 1)
	s := &service{
		most: n - 1, writes: make(chan struct{}, writes), joins: sqlstore.NewJoins(joins, joins),
		log: aside.Logger(options.Logger),
	}
	s.losses.Log, s.losses.Remedy = s.log, "innodb_flush_log_at_trx_commit 1 and, with a binary log, sync_binlog 1"
	s.places = sqlstore.NewPlaces(s.most, &s.room, func() {})
	to, err := connectorOf(dsn, s.log, options.BeforeConnect, nil, nil)
	if err != nil {
		return nil, err
	}
	toRenew, err := connectorOf(dsn, s.log, options.BeforeConnect, s.rests, s.bounds.learn)
	if err != nil {
		return nil, err
	}
	s.calls, s.sessions = sql.OpenDB(to), sql.OpenDB(toRenew)
	s.life, s.end = context.WithCancel(context.Background())
	s.calls.SetConnMaxIdleTime(idleFor)
	s.fit()
	s.sessions.SetMaxOpenConns(renewals)
	s.sessions.SetMaxIdleConns(1)
	return s, nil
}

// rests is for how long the connection that renews the session may rest at the server: it does so for a quarter of
// the TTL, and longer while a renewal is late.
func (s *service) rests() time.Duration { return time.Duration(s.ttl.Load()) + time.Minute }

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

// End removes a session's row. It may have to wait for a transaction with a guard, so it goes among the calls: the
// connection that renews belongs to the session which is open now.
func (s *service) End(ctx context.Context, session string) error {
	return sqlstore.End(ctx, s.writeAmongCalls, session)
}

// write calls a procedure that writes.
func (s *service) write(ctx context.Context, f func(sqlstore.Rows) error, procedure string, args ...any) error {
	switch procedure {
	case "renew":
		s.look()
		fallthrough
	case "open":
		return s.call(ctx, s.sessions, s.losses.Note(f), procedure, args...)
	case "end": // a session that ends is renewed no more
		return s.call(ctx, s.sessions, f, procedure, args...)
	}
	return s.writeAmongCalls(ctx, f, procedure, args...)
}

// writeAmongCalls calls a procedure by a connection of the calls that may write.
func (s *service) writeAmongCalls(ctx context.Context, f func(sqlstore.Rows) error, procedure string, args ...any) error {
	select {
	case s.writes <- struct{}{}:
		defer func() { <-s.writes }()
		return s.call(ctx, s.calls, f, procedure, args...)
	case <-ctx.Done():
		return sqlstore.NotDone(ctx)
	}
}

// call calls a procedure by a connection of a pool. The answer is whole, and the transaction committed, only when all
// results were read. After an error it is only known that the server rolls back what is open once the connection is
// closed.
func (s *service) call(
	ctx context.Context, pool *sql.DB, f func(sqlstore.Rows) error, procedure string, args ...any,
) error {
	s.fit()
	conn, done, err := s.connect(ctx, pool)
	if err != nil {
		return s.judge(err, false)
	}
	defer done()
	if ctx.Err() != nil {
		return sqlstore.NotDone(ctx)
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(args)), ", ")
	rows, err := conn.QueryContext(ctx, fmt.Sprintf("CALL farsync_%s(%s)", cmp.Or(names[procedure], procedure), marks), args...)
	if err == nil {
		err = stdsql.Read(rows, f)
	}
	if err != nil && !rolledBack(ctx, conn, err) {
		_ = conn.Raw(func(any) error { return dbdriver.ErrBadConn })
	}
	return s.judge(err, true)
}

// rolledBack reports whether a connection on which a call has failed with err has no transaction any more and is good
// for another call. That is asked only where the call waited too long for a row, or in a circle: other errors may come
// from a server that is not to be used any more. While room is scarce, no other connection may be to be had.
func rolledBack(ctx context.Context, conn *sql.Conn, err error) bool {
	if waited, ok := errors.AsType[*mysql.MySQLError](err); !ok || waited.Number != 1205 && waited.Number != 1213 { // as in outcomes
		return false
	}
	_, err = conn.ExecContext(ctx, "ROLLBACK")
	return err == nil
}

// reset closes the connections of calls that no call uses: a connection that was cut off without a word is not found
// before it is used. The connection that renews the session is kept, for it may be alive, and the Store may get no other:
// the server has no room, or does not take the password any more, or BeforeConnect does not return. If the connection was
// cut off, it costs a renewal one attempt, and the next attempt has another.
func (s *service) reset() {
	s.calls.SetMaxIdleConns(0)
	s.calls.SetMaxIdleConns(s.kept())
}

// String is what errors of Open call it.
func (*service) String() string { return "mysql" }

// Close closes the connections.
func (s *service) Close() error {
	s.end()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.looks.Wait()
	var all []error
	for _, pool := range []*sql.DB{s.calls, s.sessions} {
		all = append(all, pool.Close())
	}
	aside.Close(s.log)
	return errors.Join(all...)
}
