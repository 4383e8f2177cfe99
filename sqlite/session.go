package sqlite

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/sqlstore"
)

// A session is one row of farsync_sessions, as the process that keeps it sees it.
type session struct {
	*sqlstore.Session

	service *service
	ears    *net.UnixConn  // nil where there are no such sockets: then poll looks more often
	run     sync.WaitGroup // hear and poll; joined by Drop
}

// newSession returns a session whose socket is there before its row is.
func newSession(s *service, ttl time.Duration) *session {
	in := &session{service: s}
	in.Session = sqlstore.NewSession(in, ttl)
	if in.ears = s.listen(in.ID); in.ears != nil {
		in.run.Go(in.hear)
	}
	in.run.Go(in.poll)
	return in
}

// Read runs f in a transaction that reads.
func (s *session) Read(ctx context.Context, f func(sqlstore.Tx) error) error {
	return s.service.transact(ctx, true, func(t *tx) error { return f(t) })
}

// Update runs f in a transaction that writes. Sessions are notified of what has moved only after the commit: one that was
// notified before would look, find nothing new, and wait again.
func (s *session) Update(ctx context.Context, f func(sqlstore.Tx) error) error {
	told := map[string][]string{}
	err := s.service.transact(ctx, false, func(t *tx) error {
		clear(told)
		if err := f(t); err != nil {
			return err
		}
		return t.Query(func(r sqlstore.Row) error {
			var session, name string
			err := r.Scan(&session, &name)
			told[session] = append(told[session], name)
			return err
		}, "told")
	})
	if err != nil {
		return err
	}
	// A process that dies here has notified no session: the others find that the file has changed, within checkEvery.
	for session, names := range told {
		s.send(session, names)
	}
	return nil
}

// Renew moves the deadline of the session's row, and ends the sessions that have passed theirs, so that a file with one live
// session has no dead ones for long. A row that has passed its deadline and is still there is as good as any: a session ends
// when its row is deleted, which is a transaction as this is.
//
// The deadline counts from within the transaction, Granted from before it, so a session ends here first, however long the
// file was locked.
func (s *session) Renew(ctx context.Context, _ []driver.Entry) error {
	return s.keep(ctx, "renew")
}

// keep runs a statement that sets the deadline of the session's row, as of now. Only then sessions of an earlier boot are given
// a deadline by this clock, and those that have run out are ended: its own comes first.
func (s *session) keep(ctx context.Context, statement string, args ...any) error {
	sent := time.Now()
	err := s.Update(ctx, func(t sqlstore.Tx) error {
		n, err := t.Exec(statement, append([]any{s.ID, boot(), clock()}, args...)...)
		if err == nil && n == 0 {
			err = sqlstore.ErrExpired
		}
		if err == nil {
			_, err = t.Exec("adopt", boot(), clock())
		}
		if err == nil {
			_, err = t.Exec("bury", boot(), clock(), "[]")
		}
		return err
	})
	if err == nil {
		s.Acknowledged(sent)
	}
	return err
}

// Close removes the session, and its entries with it.
func (s *session) Close(ctx context.Context) error {
	err := s.Update(ctx, func(t sqlstore.Tx) error {
		_, err := t.Exec("end", s.ID)
		return err
	})
	s.Drop()
	return err
}

// Drop ends what runs here, and leaves the session to its deadline: its socket is unlinked first, so that it is not taken
// for that of a process that has died. Transactions that a frozen file system holds up are left to service.Close.
func (s *session) Drop() {
	s.End()
	if s.ears != nil {
		s.service.unlink(s.ID)
		_ = s.ears.Close()
	}
	s.run.Wait()
}
