package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/machine"
	"github.com/farsync/farsync/internal/peers"
	"github.com/farsync/farsync/internal/sqlstore"
)

// lookEvery is how often a session looks, at most, whether the path still names its file. It costs three calls of the
// system.
const lookEvery = 250 * time.Millisecond

// A session is one row of farsync_sessions, as the process that keeps it sees it.
type session struct {
	*sqlstore.Session

	file *file
	peer *peers.Member  // nil where there are no sockets: then poll looks more often
	run  sync.WaitGroup // Hear, poll and look; joined by Drop
	over chan struct{}  // closed when the session is known to be of no use
	end  sync.Once      // closes over
	left sync.Once      // the file

	// The highest numbers that the file is known to have had, for it may be put back to an earlier state.
	known    atomic.Int64 // a revision
	deadline atomic.Int64 // of the session's row
}

// newSession returns a session whose socket is there before its row is, so a socket that refuses belongs to a dead
// process.
func newSession(f *file, ttl time.Duration) *session {
	in := &session{file: f, over: make(chan struct{})}
	in.Session = sqlstore.NewSession(in, ttl)
	in.Units = true
	in.peer = f.sockets.Join(in.ID)
	in.Dead = f.sockets.Dead
	in.run.Go(func() { in.peer.Hear(in.heard) })
	in.run.Go(in.poll)
	in.run.Go(func() { in.look(min(ttl/4, lookEvery)) })
	return in
}

// heard wakes the callers who wait for one of the names. An empty name comes from a process that has found another file
// under the path.
func (s *session) heard(names []string) {
	if slices.Contains(names, "") {
		_ = s.file.check()
	}
	s.Waiters.Wake(names)
}

// look looks whether the path still names the session's file, until it does not, or the session ends.
func (s *session) look(every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for s.file.check() == nil {
		select {
		case <-ticks.C:
		case <-s.file.over:
		case <-s.Life.Done():
			return
		}
	}
	s.expired()
}

func (s *session) expired() { s.end.Do(func() { close(s.over) }) }

// Over is closed when the path does not name the session's file any more, or an answer has said that the session is
// over.
func (s *session) Over() <-chan struct{} { return s.over }

// Read runs a statement that reads.
func (s *session) Read(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	return s.file.read(ctx, f, statement, args...)
}

// Write runs a statement that writes.
func (s *session) Write(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	var now int64
	err := s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now = machine.Clock()
		return s.file.db.Perform(ctx, tx, f, statement, s.with(statement, now, args)...)
	}, statement)
	if kept := statement == "open" || statement == "renew"; err == nil && kept {
		ttl, _ := s.Granted()
		s.deadline.Store(now + ttl.Microseconds())
	}
	return err
}

// with adds to the arguments of a statement what it asks for besides: the time, the boot, and what the file is known to
// have.
func (s *session) with(statement string, now int64, args []any) []any {
	all := append([]any{now, machine.Boot()}, args...)
	switch statement {
	case "create", "enter":
		return append(all, s.deadline.Load(), max(s.file.service.highest.Load()+1, time.Now().UnixMicro()))
	case "renew":
		return append(all, s.deadline.Load(), s.known.Load())
	default:
		return all
	}
}

// Create notes the revision: no later one is lower, whatever becomes of the file.
func (s *session) Create(ctx context.Context, e driver.Entry, attempt int) (driver.View, error) {
	v, err := s.Session.Create(ctx, e, attempt)
	if err == nil {
		raise(&s.known, v.Self.Revision)
		raise(&s.file.service.highest, v.Self.Revision)
	}
	return v, s.why(ctx, err)
}

// Renew fails if the file has gone back to an earlier state, and with it what others know of this session.
func (s *session) Renew(ctx context.Context, prove []driver.Entry) error {
	if err := s.file.check(); err != nil {
		return s.why(ctx, err)
	}
	return s.why(ctx, s.Session.Renew(ctx, prove))
}

// Outlast has the session's row say that its end is not told by its socket: others look at the row in the transaction in which they
// would end the session.
func (s *session) Outlast(ctx context.Context) error {
	list, err := sqlstore.Collect(ctx, s.Write, func(rows sqlstore.Rows) (id string, err error) {
		return id, rows.Scan(&id)
	}, "outlast", s.ID)
	if err == nil && len(list) == 0 {
		err = sqlstore.ErrExpired
	}
	return s.why(ctx, err)
}

// why is an error in the words of what has happened, if that is known.
func (s *session) why(ctx context.Context, err error) error {
	if outcome(err) != driver.Expired {
		return err
	}
	s.expired()
	if !errors.Is(err, sqlstore.ErrExpired) {
		return err
	}
	back, asked := sqlstore.Collect(ctx, s.Read, func(rows sqlstore.Rows) (back bool, err error) {
		return back, rows.Scan(&back)
	}, "back", s.ID, s.known.Load())
	if asked == nil && slices.Contains(back, true) {
		err = &sqlstore.Error{Err: fmt.Errorf("%s has gone back to an earlier state", s.file.path), Outcome: driver.Expired}
	}
	return err
}

// raise sets a number that only grows.
func raise(n *atomic.Int64, to int64) {
	for is := n.Load(); is < to && !n.CompareAndSwap(is, to); is = n.Load() {
	}
}

// update runs f in a transaction that writes, by statements of these names, and notifies sessions of what has moved
// only after the commit: a session that was notified before would look, find nothing new, and wait again.
func (s *session) update(ctx context.Context, f transaction, statements ...string) error {
	type notice struct{ session, name string }
	run := func(ctx context.Context, rows func(sqlstore.Rows) error, statement string, _ ...any) error {
		return s.file.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			if err := f(ctx, tx); err != nil {
				return err
			}
			return s.file.perform(ctx, tx, rows, statement)
		}, append(statements, statement)...)
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
		s.file.sockets.Remove(id)
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

// Drop ends what runs here, and leaves the session to its deadline. Transactions that a frozen file system holds up are
// left to service.Close.
func (s *session) Drop() {
	s.Finish()
	s.peer.Leave()
	s.run.Wait()
	s.left.Do(func() { s.file.service.leave(s.file, false) })
}
