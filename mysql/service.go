package mysql

import (
	"cmp"
	"context"
	"database/sql"
	dbdriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/sqlstore"
	"github.com/farsync/farsync/internal/sqlstore/stdsql"
)

const (
	// connections is how many a pool has at most, and renewals that of those that keep sessions: as many as a Store leaves unanswered. Of
	// them idle are kept between calls, for idleFor.
	connections = 3
	renewals    = 8
	idle        = 1
	idleFor     = 30 * time.Second
)

// names are those of procedures that have another than their step: a procedure never changes under its name, for CREATE … IF NOT EXISTS
// would leave an earlier one as it is.
var names = map[string]string{
	"ahead": "ahead_2", "bury": "bury_4", "create": "create_4", "open": "open_6", "owned": "owned_2", "renew": "renew_5",
	"sight": "sight_2",
}

// A service is the driver.Service of one database. It has three pools: what may have to wait, for a row that is locked or for an answer, must
// not keep a session from being renewed. That goes for a renewal, too: the answer to an earlier one may come yet, so that one is left
// under way, and the next has a connection of its own.
type service struct {
	reads, writes, sessions *sql.DB

	life context.Context
	end  context.CancelFunc
}

// NewService returns the driver for a database. It does no I/O. No options are the zero ones. Programs call Open.
func NewService(dsn string, options *Options) (driver.Service, error) {
	to, err := connectorOf(dsn, cmp.Or(options, new(Options)).BeforeConnect)
	if err != nil {
		return nil, err
	}
	s := &service{reads: sql.OpenDB(to), writes: sql.OpenDB(to), sessions: sql.OpenDB(to)}
	s.life, s.end = context.WithCancel(context.Background())
	for _, pool := range s.pools() {
		pool.SetMaxOpenConns(connections)
		pool.SetMaxIdleConns(idle)
		pool.SetConnMaxIdleTime(idleFor)
	}
	s.sessions.SetMaxOpenConns(renewals)
	return s, nil
}

func (s *service) pools() []*sql.DB { return []*sql.DB{s.reads, s.writes, s.sessions} }

// Open makes the session's row.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in := newSession(s, ttl)
	if err := in.Session.Open(ctx); err != nil {
		in.Drop()
		return nil, sqlstore.OfOpen(err)
	}
	return in, nil
}

// End removes a session's row. It may have to wait for a transaction with a guard, so it goes by the pool of what waits: that of renewals is for the
// session which is open now.
func (s *service) End(ctx context.Context, session string) error {
	return sqlstore.End(ctx, func(ctx context.Context, f func(sqlstore.Rows) error, procedure string, args ...any) error {
		return s.call(ctx, s.writes, f, procedure, args...)
	}, session)
}

// call calls a procedure by a connection of a pool. The answer is whole, and the transaction committed, only when all results were
// read. What is known of the connection after an error is that the server rolls back what is open once it is closed.
func (s *service) call(
	ctx context.Context, pool *sql.DB, f func(sqlstore.Rows) error, procedure string, args ...any,
) error {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return s.judge(err, false)
	}
	defer func() { _ = conn.Close() }()
	if ctx.Err() != nil {
		return sqlstore.NotDone(ctx)
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(args)), ", ")
	rows, err := conn.QueryContext(ctx, fmt.Sprintf("CALL farsync_%s(%s)", cmp.Or(names[procedure], procedure), marks), args...)
	if err == nil {
		err = stdsql.Read(rows, f)
	}
	if err != nil {
		_ = conn.Raw(func(any) error { return dbdriver.ErrBadConn })
	}
	return s.judge(err, true)
}

// reset closes the connections that no call uses: one that was cut off without a word is not found before it is used.
func (s *service) reset() {
	for _, pool := range s.pools() {
		pool.SetMaxIdleConns(0)
		pool.SetMaxIdleConns(idle)
	}
}

// Close closes the connections.
func (s *service) Close() error {
	s.end()
	var all []error
	for _, pool := range s.pools() {
		all = append(all, pool.Close())
	}
	return errors.Join(all...)
}
