package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/farsync/farsync/internal/sqlstore"
)

// A session is one row of farsync_sessions, as the process that keeps it sees it. It listens only while it waits: each
// connection that listens, to whatever, costs the server processor time at every notification in the database.
type session struct {
	*sqlstore.Session

	service *service
	ttl     time.Duration
	run     sync.WaitGroup // listen and replaceOwn; joined by Drop
	keys    keys
	alone   atomic.Bool // the last renewal has failed

	mu    sync.Mutex
	heard *hearing  // nil while nothing is listened to
	since time.Time // when it first could not listen; zero once it could
}

// A hearing is the time from when a connection is asked for until it is given back or has failed.
type hearing struct {
	stands chan struct{} // closed when it listens, or has failed
	err    error         // set before
}

func newSession(s *service, ttl time.Duration) *session {
	in := &session{service: s, ttl: ttl, keys: keys{release: s.release, most: s.half, of: map[string]key{}}}
	in.Session = sqlstore.NewSession(in, ttl)
	in.Nearest, in.Asks, in.Units, in.Joins = true, true, true, s.joins
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[in] = true
	return in
}

// Read runs a statement that reads.
func (s *session) Read(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	return s.perform(budgeted(ctx), f, statement, args...)
}

// Write runs a statement that writes. The server notifies sessions with the commit. Once ctx has ended it may have been
// asked to cancel, and it tells of that by a warning, which client_min_messages can hold back: what succeeds then may
// not be confirmed.
func (s *session) Write(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	if err := s.write(budgeted(ctx), f, statement, args...); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errUnconfirmed
	}
	return nil
}

func (s *session) write(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	switch statement {
	case "create":
		return s.join(ctx, f, args)
	case "delete":
		return s.leave(ctx, f, args)
	case "renew":
		return s.renew(ctx, f, args)
	}
	return s.perform(ctx, f, statement, args...)
}

// renew renews the session and buries others, in one transaction. After a renewal that has failed, the next renewal
// buries no session: whatever keeps others from being buried, as a full queue of notifications does, must not end this
// session.
func (s *session) renew(ctx context.Context, f func(sqlstore.Rows) error, args []any) error {
	statement := "renew"
	if s.alone.Load() {
		statement = "keep"
	}
	err := s.perform(ctx, f, statement, args...)
	s.alone.Store(err != nil)
	return err
}

// Reset has the next call use a new connection, and the next renewal a connection that answers.
func (s *session) Reset() { s.service.reset() }

// Hear returns once the session listens. All Watches of the session share the connection, and it outlives the call.
func (s *session) Hear(ctx context.Context) error {
	s.mu.Lock()
	if s.Life.Err() != nil {
		s.mu.Unlock()
		return sqlstore.ErrEnded
	}
	if s.heard == nil {
		h := &hearing{stands: make(chan struct{})}
		s.heard = h
		s.run.Go(func() { s.listen(h) })
	}
	h := s.heard
	s.mu.Unlock()
	select {
	case <-h.stands:
		return h.err
	case <-ctx.Done():
		return sqlstore.NotDone(ctx)
	}
}

// listen listens until no Watch is left, the connection fails, room is scarce, or the session ends. When the connection
// fails, waiters look, and ask for the next connection. Where the session cannot listen, for long or at all, they look
// instead. It runs in one goroutine a hearing, which Drop joins.
func (s *session) listen(h *hearing) {
	if s.service.byOwn() {
		s.hearOwn(h)
		return
	}
	conn, err := s.connect()
	if conn == nil && s.service.byOwn() {
		s.hearOwn(h)
		return
	}
	if conn != nil {
		defer hangUp(conn)
	}
	crowded := s.service.room.Scarce()
	deaf := !crowded && s.deaf(err)
	if err != nil && !deaf && !crowded {
		h.err = err
		s.leaves(h, false)
		close(h.stands)
		return
	}
	close(h.stands)
	switch {
	case conn != nil:
		s.service.listening.Store(true)
		for !s.service.room.Scarce() && s.hear(conn) && !s.leaves(h, true) {
		}
		s.service.listening.Store(false)
	case crowded && s.service.ears != nil:
		s.pollFor(s.service.room.For())
	case err != nil:
		s.service.log.Warn("cannot listen to the PostgreSQL server: what waits looks now and then", "cause", err)
		s.pollFor(listenAgain)
	default:
		s.Poll(s.Life)
	}
	s.leaves(h, false)
	s.Waiters.Wake(nil)
}

// connect returns a connection that listens, or none where the Store is to look.
func (s *session) connect() (*pgx.Conn, error) {
	if s.service.ears == nil || s.service.room.Scarce() {
		return nil, nil //nolint:nilnil // as it says
	}
	ctx, cancel := context.WithTimeout(s.Life, s.ttl/2)
	defer cancel()
	conn, err := s.service.connect(ctx, "farsync_"+s.ID)
	return conn, judge(err, false)
}

// pollFor looks for so long.
func (s *session) pollFor(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.Life, d)
	defer cancel()
	s.Poll(ctx)
}

const (
	// deafAfter is for how long a session tries to listen before it looks instead: a server that restarts is back by then.
	deafAfter = 5 * time.Second
	// listenAgain is after how long a session that looks, because it could not listen, tries that again.
	listenAgain = time.Minute
)

// deaf notes how an attempt to listen has ended, and reports whether they have all failed for long. The option Listen
// may lead where no server is, or to a replica.
func (s *session) deaf(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = time.Now()
	}
	return err != nil && s.Life.Err() == nil && time.Since(s.since) >= deafAfter
}

// leaves forgets the hearing, so that the next Hear begins another, unless it is still needed. A Watch is among the
// Waiters before it asks for a hearing, so a Watch that was told of this is seen here.
func (s *session) leaves(h *hearing, unlessNeeded bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unlessNeeded && s.Waiters.Any() {
		return false
	}
	if s.heard == h {
		s.heard = nil
	}
	return true
}

// hear passes on what comes for a second or so, or until the session ends, and reports whether the connection is good.
func (s *session) hear(conn *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(s.Life, time.Second)
	defer cancel()
	for {
		note, err := conn.WaitForNotification(ctx)
		switch {
		case err == nil:
			s.Waiters.Wake([]string{note.Payload})
		case ctx.Err() == nil || s.Life.Err() != nil:
			return false
		default:
			return s.answers(conn)
		}
	}
}

// answers asks the server something: a connection that has broken without a word is found in no other way.
func (s *session) answers(conn *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(s.Life, s.ttl/4)
	defer cancel()
	return conn.Ping(ctx) == nil
}

// Close removes the session, and its entries with it.
func (s *session) Close(ctx context.Context) error {
	err := s.End(ctx)
	s.Drop()
	return err
}

// Drop ends what runs here, and leaves the session to its deadline.
func (s *session) Drop() {
	s.mu.Lock()
	s.Finish()
	s.mu.Unlock()
	s.keys.close()
	s.service.mu.Lock()
	delete(s.service.sessions, s)
	s.service.mu.Unlock()
	s.run.Wait()
}
