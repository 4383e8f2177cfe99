package mysql

import (
	"context"
	"sync"
	"time"

	"github.com/farsync/farsync/internal/sqlstore"
)

// A session is one row of farsync_sessions, as the process that keeps it sees it.
type session struct {
	*sqlstore.Session

	service *service
	run     sync.WaitGroup // Poll; joined by Drop
}

func newSession(s *service, ttl time.Duration) *session {
	in := &session{service: s}
	in.Session = sqlstore.NewSession(in, ttl)
	in.Joins, in.Pads = s.joins, true // ascii_bin is a collation with PAD SPACE
	in.run.Go(func() { in.Poll(in.Life) })
	return in
}

// Read calls a procedure that reads. No procedure that reads waits for a row.
func (s *session) Read(ctx context.Context, f func(sqlstore.Rows) error, procedure string, args ...any) error {
	return s.service.call(ctx, s.service.calls, f, procedure, args...)
}

// Write calls a procedure that writes. The change wakes the Watches of this session at once. The Watches of other
// sessions poll.
func (s *session) Write(ctx context.Context, f func(sqlstore.Rows) error, procedure string, args ...any) error {
	err := s.service.write(ctx, f, procedure, args...)
	if name := moved(procedure, args); name != "" && err == nil {
		s.Waiters.Wake([]string{name})
	}
	return err
}

// moved returns the name under which a Watch waits for what a procedure has moved. Its first argument names that.
func moved(procedure string, args []any) string {
	first, _ := args[0].(string)
	switch procedure {
	case "delete", "replace", "tell":
		return first
	case "create":
		return "+" + first
	case "write":
		return "=" + first
	default:
		return ""
	}
}

// Hear has nothing to do: each poll compares with what the Watch has read.
func (*session) Hear(context.Context) error { return nil }

// Reset drops the connections of calls that are not in use.
func (s *session) Reset() { s.service.reset() }

// Close removes the session, and its entries with it.
func (s *session) Close(ctx context.Context) error {
	err := s.End(ctx)
	s.Drop()
	return err
}

// Drop ends what runs here, and leaves the session to its deadline.
func (s *session) Drop() {
	s.Finish()
	s.run.Wait()
}
