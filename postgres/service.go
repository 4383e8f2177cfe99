package postgres

import (
	"context"
	_ "embed"
	"errors"
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

// A service is the driver.Service of one database.
type service struct {
	pool *pgxpool.Pool
	ears *pgx.ConnConfig // of the connections that listen
}

// grace is what a statement still has when its ctx ends, to say how it ended.
const grace = 100 * time.Millisecond

// NewService returns the driver for a database. It does no I/O. Programs call Open.
func NewService(config *pgxpool.Config) (driver.Service, error) {
	if config == nil || config.ConnConfig == nil {
		return nil, errors.New("no config, which is one of pgxpool.ParseConfig")
	}
	c := config.Copy()
	cancelStatements(c.ConnConfig)
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, err
	}
	return &service{pool, config.ConnConfig.Copy()}, nil
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

// run runs a statement, which is a transaction of its own.
func (s *service) run(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return judge(err, false)
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, statements[statement][0], args...)
	if err != nil {
		return judge(err, true)
	}
	defer rows.Close()
	if err := f(rows); err != nil {
		return judge(err, true)
	}
	rows.Close() // the statement is carried out when its last row was read
	return judge(rows.Err(), true)
}

// connect returns a connection beside the pool.
func (s *service) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, s.ears)
}

// Close closes the connections.
func (s *service) Close() error {
	s.pool.Close()
	return nil
}
