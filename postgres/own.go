package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync/internal/sqlstore"
)

// The connection that renews the session is out of the pool between renewals, so that no other call can have it: a
// server that has no room for another must not keep the session from being renewed. If it is lost there, the next
// renewal has the connection that all other calls share.

// takeOwn returns the connection that renews the session, or another if a renewal without an answer has it. While room
// is scarce another is made only in place of a connection that was lost, and the connection of the calls is the last
// resort: a renewal is the next to have it.
func (s *service) takeOwn(ctx context.Context) (*pgxpool.Conn, error) {
	if conn := s.rests(); conn != nil {
		if s.stands(ctx, conn) {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if !s.room.Scarce() || s.owned.Load() == 0 {
		conn, err := s.makeOwn(ctx)
		if !refuses(err) {
			return conn, err
		}
	}
	conn, err := s.acquireFor(ctx, true)
	if err == nil {
		s.places.Give() // the next call asks the server for another connection
	}
	return conn, err
}

// runByOwn runs a statement on the connection that renews the session. If the server refuses the statement, the next
// attempt has another connection, which may lead to another server: this one may have become a replica, or have a disk
// that is full. The connection is kept if the statement has only waited too long, and while room is scarce.
func (s *service) runByOwn(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	conn, err := s.takeOwn(ctx)
	if err != nil {
		return judge(err, false)
	}
	defer s.giveOwn(conn)
	err = s.perform(ctx, conn, f, statement, args...)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && !hasWaited(refused) && !s.room.Scarce() {
		abandon(conn)
	}
	return judge(err, true)
}

// makeOwn returns a connection of the pool that is to renew the session. The pool makes one if all are in use.
func (s *service) makeOwn(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := s.take(ctx)
	if err == nil {
		s.owned.Add(1)
	}
	return conn, err
}

// rests returns the connection that renews the session, or nil if a renewal has it. A session that listens by it
// gives it back before long. Such a session has said so before it took the connection, and takes that back after it
// has given the connection back, so one of the three looks finds it.
func (s *service) rests() *pgxpool.Conn {
	if conn := s.resting(); conn != nil {
		return conn
	}
	if s.lent.Load() == 0 {
		return s.resting()
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case conn := <-s.own:
		return conn
	case <-t.C:
		return nil
	}
}

func (s *service) resting() *pgxpool.Conn {
	select {
	case conn := <-s.own:
		return conn
	default:
		return nil
	}
}

// stands asks a connection that has rested whether it still stands, as take does, and gives it up if it does not.
func (s *service) stands(ctx context.Context, conn *pgxpool.Conn) bool {
	spend(ctx, conn.Conn().PgConn())
	asks, late := s.functions.asks(ctx, s.log, conn.Conn(), time.Since(memoOn(conn).rested))
	switch {
	case late:
		s.owned.Add(-1)
		s.forsake(ctx, conn)
	case asks && conn.Ping(ctx) != nil:
		abandon(conn)
		s.freeOwn(conn)
	default:
		return true
	}
	return false
}

// giveOwn keeps a connection for the next renewal. A connection that is broken goes back to the pool. So does a
// connection beyond the number that is needed. A connection that has been kept for as long as the pool keeps any is kept
// until replaceOwn has another. While a session listens by it, it is kept for longer: nobody would hear what comes until
// the next renewal.
func (s *service) giveOwn(conn *pgxpool.Conn) {
	m, now := memoOn(conn), time.Now()
	if m.since.IsZero() {
		m.since = now
	}
	m.rested = now
	aged := now.Sub(m.since) >= s.lifetime && m.listens == ""
	if s.returnOwn(conn) {
		s.aged.Store(aged)
	}
}

// replaceOwn replaces the connection that renews the session, if it was kept for long enough, within a session's life.
// No renewal waits for that: a function of the config may block where a connection is made. The other connection has a
// place of the calls, so the Store has no more connections than it is to have, and is an idle one if there is any. It is
// not asked for while the pool makes one: an earlier attempt may have asked for that connection, which will be idle.
func (s *session) replaceOwn() {
	of := s.service
	if !of.aged.Load() || of.room.Scarce() || of.lent.Load() > 0 || of.pool.Stat().ConstructingConns() > 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Life.Err() == nil && of.replacing.CompareAndSwap(false, true) {
		s.run.Go(func() {
			defer of.replacing.Store(false)
			ctx, cancel := context.WithTimeout(budgeted(s.Life), of.timeout)
			defer cancel()
			if conn, err := of.acquireFor(ctx, true); err == nil {
				of.swapOwn(conn)
				if !of.places.Retire() {
					of.places.Give()
				}
			}
		})
	}
}

// swapOwn has a connection renew the session in place of the connection that does, which goes back to the pool. A renewal
// that has that just now frees it, and a renewal that begins meanwhile waits for the moment that this takes.
func (s *service) swapOwn(conn *pgxpool.Conn) {
	m, now := memoOn(conn), time.Now()
	m.since, m.rested = now, now
	s.lent.Add(1)
	old := s.resting()
	if old != nil && memoOn(old).listens != "" { // a session has begun to listen by it
		old, conn = conn, old
	} else {
		s.aged.Store(false)
	}
	s.returnOwn(conn)
	s.lent.Add(-1)
	if old != nil {
		s.freeOwn(old)
	}
}

// resetOwn has the connection that renews the session asked whether it still stands before it is used, unless a renewal
// has it. The connection is not closed, for it may be alive, and the Store may get no other: the server has no room, or does
// not take the password any more, or a function of the config does not return.
func (s *service) resetOwn() {
	s.lent.Add(1) // a renewal that begins meanwhile waits for the moment that this takes
	defer s.lent.Add(-1)
	if conn := s.resting(); conn != nil {
		memoOn(conn).rested = time.Time{}
		s.returnOwn(conn)
	}
}

// returnOwn gives back a connection that was taken from own, and reports whether it is kept. It goes back to the pool if
// it is broken, another has come in its place, or the service is closed: the pool, which is closed after own, waits for
// all connections.
func (s *service) returnOwn(conn *pgxpool.Conn) (kept bool) {
	s.mu.Lock()
	if !s.closed && serves(conn) {
		select {
		case s.own <- conn:
			kept = true
		default:
		}
	}
	s.mu.Unlock()
	if !kept {
		s.freeOwn(conn)
	}
	return kept
}

// freeOwn gives a connection back to the pool that renews the session no more.
func (s *service) freeOwn(conn *pgxpool.Conn) {
	m := memoOn(conn)
	m.since = time.Time{}
	if m.listens != "" { // what comes would be kept for nobody
		abandon(conn)
	}
	s.owned.Add(-1) // first: the place that this leaves may be its own
	s.free(conn)
}

// closeOwn gives the connection back to the pool, which is to be closed.
func (s *service) closeOwn() {
	if conn := s.resting(); conn != nil {
		s.tracer.released(nil, s.pool, conn)
		conn.Release()
	}
}
