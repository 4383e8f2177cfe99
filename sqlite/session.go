package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync/internal/peers"
	"github.com/farsync/farsync/internal/sqlstore"
)

// A session is one row of farsync_sessions, as the process that keeps it sees it.
type session struct {
	*sqlstore.Session

	service *service
	peer    *peers.Member  // nil where there are no sockets: then poll looks more often
	run     sync.WaitGroup // Hear and poll; joined by Drop
}

// newSession returns a session whose socket is there before its row is, so a socket that refuses is that of a dead process.
func newSession(s *service, ttl time.Duration) *session {
	in := &session{service: s}
	in.Session = sqlstore.NewSession(in, ttl)
	in.Units = true
	in.peer = s.sockets.Join(in.ID)
	in.Dead = s.sockets.Dead
	in.run.Go(func() { in.peer.Hear(in.Waiters.Wake) })
	in.run.Go(in.poll)
	return in
}

// Read runs a statement that reads.
func (s *session) Read(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	return s.service.read(ctx, f, statement, args...)
}

// Write runs a statement that writes.
func (s *session) Write(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return s.service.perform(ctx, tx, f, statement, args...)
	})
}

// update runs f in a transaction that writes, and notifies sessions of what has moved only after the commit: one that was
// notified before would look, find nothing new, and wait again.
func (s *session) update(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	type notice struct{ session, name string }
	run := func(ctx context.Context, rows func(sqlstore.Rows) error, statement string, _ ...any) error {
		return s.service.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			if err := f(ctx, tx); err != nil {
				return err
			}
			return s.service.perform(ctx, tx, rows, statement)
		})
	}
	list, err := sqlstore.Collect(ctx, run, func(rows sqlstore.Rows) (n notice, err error) {
		return n, rows.Scan(&n.session, &n.name)
	}, "told")
	told := map[string][]string{}
	for _, n := range list {
		told[n.session] = append(told[n.session], n.name)
	}
	// A process that dies here has notified no session: the others find that the file has changed, within checkEvery.
	for session, names := range told {
		s.send(session, names)
	}
	return err
}

// send notifies a session that names have moved. The empty name is its own end: then send removes its socket.
func (s *session) send(id string, names []string) {
	if id == s.ID {
		s.Waiters.Wake(names)
	} else {
		s.peer.Send(id, names)
	}
	if slices.Contains(names, "") {
		s.service.sockets.Remove(id)
	}
}

// Hear has nothing to do: the socket is there.
func (s *session) Hear(context.Context) error { return nil }

// Close removes the session, and its entries with it.
func (s *session) Close(ctx context.Context) error {
	err := s.End(ctx)
	s.Drop()
	return err
}

// Drop ends what runs here, and leaves the session to its deadline. Transactions that a frozen file system holds up are left to
// service.Close.
func (s *session) Drop() {
	s.Finish()
	s.peer.Leave()
	s.run.Wait()
}
