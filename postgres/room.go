package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync/internal/sqlstore"
)

const (
	// noRoom is the code of a server, a database or a role that can have no more connections.
	noRoom = "53300"
	// spare is for how long a connection stays in the pool that no call uses, beside another that none does.
	spare = 30 * time.Second
	// asking is how long a question about the room for connections may take.
	asking = time.Second / 4
	// connections are those in use by clients, and how many those can be who are no superusers.
	connections = `SELECT count(*) FILTER (WHERE pg_stat_get_backend_dbid(i) <> 0)::int,
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
			- coalesce(current_setting('reserved_connections', true)::int, 0)
		FROM pg_stat_get_backend_idset() i`
)

// errCrowded is the error of a connection that was made and is given up, for the server has little room left.
var errCrowded = errors.New("the server has little room for connections")

// refuses reports whether the server has refused a connection for want of room.
func refuses(err error) bool {
	failed, ok := errors.AsType[*pgconn.PgError](err)
	return ok && failed.Code == noRoom
}

// noteRoom has the Store go on with two connections if the server has refused one for want of room, and says so in
// the log.
func (s *service) noteRoom(err error) {
	if !refuses(err) {
		return
	}
	if s.room.Refused() {
		sqlstore.SayNoRoom(s.log, "max_connections", s.most.Load(), err)
	}
	s.shed(0)
}

// freeKeys gives back the keys of all sessions that no Watch uses. It has a budget of its own, beside the budget of the
// step which needs their places: a renewal may.
func (s *service) freeKeys() {
	ctx := budgeted(context.Background())
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.sessions))
	s.mu.Unlock()
	for _, in := range all {
		in.keys.giveBack(ctx, 0)
	}
}

// tend gives up connections that the Store can do without, in the background: the caller is about to renew its session.
func (s *service) tend() {
	all := s.pool.Stat()
	more := all.TotalConns() > sqlstore.Least || s.listening.Load()
	switch {
	case s.room.Scarce():
		s.begin(func() { s.shed(0) }) // joined by Close, as the others are
	case more && s.direct.Load() && s.room.Look():
		s.begin(func() {
			s.look()
			s.shed(spare)
		})
	case all.IdleConns() > 1:
		s.begin(func() { s.shed(spare) })
	}
}

// shed closes the connections of the pool that no call has used for so long, but for the last used. If the caller's
// config has the pool keep some, they are kept. While room is scarce it closes all but the last used.
func (s *service) shed(unused time.Duration) {
	if s.room.Scarce() {
		unused = 0
		s.places.Narrow()
		s.places.demand()
	}
	if s.pool.Stat().IdleConns() < 2 || s.keeps {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	idle := s.pool.AcquireAllIdle(ctx)
	slices.SortFunc(idle, func(a, b *pgxpool.Conn) int { return lastUsed(b).Compare(lastUsed(a)) })
	for i, conn := range idle {
		if i > 0 && time.Since(lastUsed(conn)) >= unused {
			s.discard(conn)
			continue
		}
		// The pool does not know any more for how long it was not used.
		memoOn(conn).asked = true
		if !s.giveBack(conn) { // a call has had another made meanwhile
			s.discard(conn)
		}
	}
}

func lastUsed(conn *pgxpool.Conn) time.Time { return memoOn(conn).used }

// look asks the server how many connections there are, and has the Store go on with two if it has little room left.
func (s *service) look() {
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return
	}
	defer s.release(conn)
	var n, most int
	if conn.QueryRow(ctx, connections).Scan(&n, &most) == nil && sqlstore.Crowded(n, most) {
		s.room.Shrink()
	}
}
