package mysql

import (
	"context"
	"database/sql"
	dbdriver "database/sql/driver"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/farsync/farsync/internal/sqlstore"
)

// bounds are the system variables that bound how many connections there can be, by the number of the error of a
// server that refuses one.
var bounds = map[uint16]string{
	1040: "max_connections",
	1203: "max_user_connections",
	1226: "max_user_connections", // or another limit of the user, which the error names
}

// asking is how long a question about the room for connections may take.
const asking = time.Second / 4

// allowed is how many connections calls have at a time.
func (s *service) allowed() int {
	if s.room.Scarce() {
		return 1
	}
	return s.most
}

// kept is how many of them are kept between calls.
func (s *service) kept() int { return min(s.allowed(), idle) }

// fit has the pool of the calls be as large as the room for it.
func (s *service) fit() {
	if n := s.allowed(); s.calls.Stats().MaxOpenConnections != n {
		s.calls.SetMaxOpenConns(n)
		s.calls.SetMaxIdleConns(min(n, idle))
	}
}

// connect returns a connection of a pool, and what gives it back. If the server refuses another to a renewal, because
// the connection that renews the session was lost, the renewal is the next to have a connection of the calls.
func (s *service) connect(ctx context.Context, pool *sql.DB) (conn *sql.Conn, done func(), err error) {
	if pool == s.calls {
		return s.connectCall(ctx, false)
	}
	conn, err = pool.Conn(ctx)
	if err != nil && s.noteRoom(err) && s.calls.Stats().OpenConnections > 0 {
		return s.connectCall(ctx, true)
	}
	return conn, func() { _ = conn.Close() }, err
}

// connectCall returns a connection of the calls. The pool has one for each place.
func (s *service) connectCall(ctx context.Context, renews bool) (conn *sql.Conn, done func(), err error) {
	if err := s.places.Take(ctx, renews); err != nil {
		return nil, nil, err
	}
	give := func() {
		if !s.places.Retire() {
			s.places.Give()
		}
	}
	if err = s.room.Ask(ctx, func() bool { return s.calls.Stats().Idle > 0 }); err == nil {
		conn, err = s.calls.Conn(ctx)
	}
	if err != nil {
		s.noteRoom(err)
		give()
		return nil, nil, err
	}
	return conn, func() {
		_ = conn.Close()
		give()
	}, nil
}

// noteRoom has the Store go on with two connections if the server has refused one for want of room, and says so in
// the log. It reports whether that was so.
func (s *service) noteRoom(err error) bool {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok || bounds[refused.Number] == "" {
		return false
	}
	say := s.room.Refused()
	s.fit()
	if say {
		name := bounds[refused.Number]
		sqlstore.SayNoRoom(s.log, name, s.bounds.of(name), err)
	}
	return true
}

// look asks the server, now and then, how many connections there are, if the Store has more than two, and has it go on
// with two if the server has little room left. It asks in a goroutine that Close joins, by a connection of the calls.
func (s *service) look() {
	if s.calls.Stats().OpenConnections < sqlstore.Least || s.room.Scarce() || !s.room.Look() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.looks.Go(s.lookNow)
	}
}

func (s *service) lookNow() {
	ctx, cancel := context.WithTimeout(s.life, asking)
	defer cancel()
	conn, done, err := s.connectCall(ctx, false)
	if err != nil {
		return
	}
	defer done()
	var name string
	var n, most int
	if conn.QueryRowContext(ctx, "SELECT @@max_connections").Scan(&most) == nil &&
		conn.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_connected'").Scan(&name, &n) == nil && sqlstore.Crowded(n, most) {
		s.room.Shrink()
		s.fit()
	}
}

// A boundary is what the server has bounded connections by when the Store made its first one. Later the server may
// refuse one, and there may be none to ask by.
type boundary struct {
	asked       atomic.Bool
	all, ofUser atomic.Int64
}

func (b *boundary) of(name string) int64 {
	if name == "max_connections" {
		return b.all.Load()
	}
	return b.ofUser.Load()
}

// learn asks by the first connection. A bound that cannot be learned is in no line of the log, and does no harm.
func (b *boundary) learn(ctx context.Context, conn dbdriver.Conn) {
	by, ok := conn.(dbdriver.QueryerContext)
	if !ok || b.asked.Swap(true) {
		return
	}
	rows, err := by.QueryContext(ctx, "SELECT @@max_connections, @@max_user_connections", nil)
	if err != nil {
		return
	}
	defer rows.Close()
	row := make([]dbdriver.Value, 2)
	if rows.Next(row) != nil {
		return
	}
	for i, to := range []*atomic.Int64{&b.all, &b.ofUser} {
		var n sql.NullInt64
		if n.Scan(row[i]) == nil {
			to.Store(n.Int64)
		}
	}
}
