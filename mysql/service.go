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
	// connections is how many a pool has at most, and idle how many of them it keeps between calls, for idleFor.
	connections = 3
	idle        = 1
	idleFor     = 30 * time.Second
)

// names are those of procedures that have another than their step: a procedure never changes under its name, for CREATE … IF NOT EXISTS
// would leave an earlier one as it is.
var names = map[string]string{"ahead": "ahead_2", "create": "create_2", "open": "open_2"}

// A service is the driver.Service of one database. It has two pools: what may have to wait for a row that is locked must not keep a
// session from being renewed.
type service struct {
	reads, writes *sql.DB
	life          context.Context
	end           context.CancelFunc
}

// NewService returns the driver for a database. It does no I/O. Programs call Open.
func NewService(dsn string) (driver.Service, error) {
	to, err := connectorOf(dsn)
	if err != nil {
		return nil, err
	}
	s := &service{reads: sql.OpenDB(to), writes: sql.OpenDB(to)}
	s.life, s.end = context.WithCancel(context.Background())
	for _, pool := range []*sql.DB{s.reads, s.writes} {
		pool.SetMaxOpenConns(connections)
		pool.SetMaxIdleConns(idle)
		pool.SetConnMaxIdleTime(idleFor)
	}
	return s, nil
}

// Open makes the session's row.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in := newSession(s, ttl)
	if err := in.Session.Open(ctx); err != nil {
		in.Drop()
		return nil, err
	}
	return in, nil
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
	for _, pool := range []*sql.DB{s.reads, s.writes} {
		pool.SetMaxIdleConns(0)
		pool.SetMaxIdleConns(idle)
	}
}

// Close closes the connections.
func (s *service) Close() error {
	s.end()
	return errors.Join(s.reads.Close(), s.writes.Close())
}
