package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync/internal/sqlstore"
)

const (
	// briefly is for how long a session listens before a renewal can have the connection.
	briefly = 20 * time.Millisecond
	// hasty bounds the wait for that connection, and what a session asks the server by it. The connection is lost if
	// the answer takes longer, so it is no shorter. A renewal that comes meanwhile waits for grace, and has another.
	hasty = time.Second
)

// byOwn reports whether a session is to listen by the connection that renews it, because it is to have no other.
func (s *service) byOwn() bool { return s.direct.Load() && (s.ears == nil || s.room.Scarce()) }

// hearOwn is listen by the connection that renews the session. The server sends notifications on it at any time, and
// the notifications that come with the answer to a renewal are kept. The session has the connection for a moment at a
// time, and reads alone, so it keeps no renewal waiting.
func (s *session) hearOwn(h *hearing) {
	s.service.lent.Add(1)
	defer s.service.lent.Add(-1)
	channel := "farsync_" + s.ID
	if h.err = s.listenOwn(channel); h.err != nil {
		s.leaves(h, false)
		close(h.stands)
		return
	}
	close(h.stands)
	for s.hearBriefly(channel) && s.service.byOwn() && !s.leaves(h, true) {
	}
	s.unlistenOwn(channel)
	s.leaves(h, false)
	s.Waiters.Wake(nil)
}

// borrowOwn returns the connection that renews the session, once no renewal uses it. It is nil when that was lost, and
// when ctx ends.
func (s *session) borrowOwn(ctx context.Context) *pgxpool.Conn {
	for s.service.owned.Load() > 0 {
		t := time.NewTimer(grace) // a renewal may find that it was lost
		select {
		case conn := <-s.service.own:
			t.Stop()
			return conn
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
	return nil
}

// listenOwn has the connection listen. If that was lost, it is replaced: the next renewal may be long in coming.
func (s *session) listenOwn(channel string) error {
	conn, err := s.haveOwn()
	if err != nil {
		return err
	}
	defer s.service.returnOwn(conn)
	if !isDirect(conn.Conn().PgConn()) {
		return judge(errProxy, false)
	}
	ctx, cancel := context.WithTimeout(s.Life, hasty)
	defer cancel()
	_, err = conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize(), pgx.QueryExecModeSimpleProtocol)
	if err == nil {
		memoOn(conn).listens = channel
	}
	return judge(err, false)
}

// haveOwn is borrowOwn, and makes the connection if it was lost.
func (s *session) haveOwn() (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(s.Life, hasty)
	defer cancel()
	if conn := s.borrowOwn(ctx); conn != nil {
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, sqlstore.NotDone(ctx)
	}
	long, end := context.WithTimeout(s.Life, s.ttl/4)
	defer end()
	conn, err := s.service.makeOwn(long)
	return conn, judge(err, false)
}

// hearBriefly passes on what comes for a second or so, and reports whether the connection is good.
func (s *session) hearBriefly(channel string) bool {
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		conn := s.borrowOwn(s.Life)
		if conn == nil {
			return false
		}
		// Another connection may renew the session by now.
		good := memoOn(conn).listens == channel && s.passOn(conn)
		s.service.returnOwn(conn)
		if !good {
			return false
		}
	}
	return s.Life.Err() == nil
}

// passOn passes on what comes for a moment, however much that is, and reports whether the connection is good.
func (s *session) passOn(conn *pgxpool.Conn) bool {
	ctx, cancel := context.WithTimeout(s.Life, briefly)
	defer cancel()
	for {
		note, err := listenUntil(ctx, conn.Conn())
		if err != nil {
			return !conn.Conn().IsClosed()
		}
		s.Waiters.Wake([]string{note.Payload})
	}
}

// unlistenOwn has the connection listen no more, for that costs the server processor time at every notification in
// the database. It does so, too, when the session is over: the next may have the connection.
func (s *session) unlistenOwn(channel string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Life), hasty)
	defer cancel()
	conn := s.borrowOwn(ctx)
	if conn == nil {
		return
	}
	defer s.service.returnOwn(conn)
	m := memoOn(conn)
	if m.listens != channel {
		return
	}
	if _, err := conn.Exec(ctx, "UNLISTEN *", pgx.QueryExecModeSimpleProtocol); err != nil {
		abandon(conn)
	}
	m.listens = ""
}
