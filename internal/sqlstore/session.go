package sqlstore

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
)

// A Session is what all SQL databases do alike of a driver.Session, but Close and Drop.
type Session struct {
	driver.Optional

	// ID names the session's row, and is never used again.
	ID string
	// Waiters are the Watches under way. The driver calls its Wake for what it hears of.
	Waiters *Waiters
	// Life ends with the session. Finish ends it.
	Life   context.Context
	Finish context.CancelFunc
	// Dead reports, if it is not nil, whether the process of a session has died, which no renewal of it can follow.
	Dead func(session string) bool

	// Nearest has Create show no more than one entry ahead of one whose wait ends with that.
	Nearest bool
	// Asks has a Watch of several targets ask at once, and not look first: no look shows that the session is notified of
	// all without asking.
	Asks bool
	// Joins are the turns that joins of the Store take. Without them each join is sent at once.
	Joins *Joins
	// Units has the database decide which permits are granted, by the statements enter, room and turned.
	Units bool
	// Pads says that the database takes no notice of blanks at the end of a text.
	Pads bool

	db  DB
	ttl time.Duration

	mu      sync.Mutex
	from    time.Time // when the last acknowledged renewal was sent
	history string    // of the database, as that has shown it
}

// NewSession returns a session that has not been opened yet.
func NewSession(db DB, ttl time.Duration) *Session {
	life, finish := context.WithCancel(context.Background())
	return &Session{
		Optional: driver.Unsupported, ID: rand.Text(), Waiters: newWaiters(), Life: life, Finish: finish, db: db, ttl: ttl,
	}
}

// NewID returns random text. All have one length, so none is the beginning of another.
func (s *Session) NewID(string, driver.Kind, int64) string { return rand.Text() }

// Granted counts from when the last renewal was sent that the database has confirmed, so the session ends here before
// its deadline there.
func (s *Session) Granted() (time.Duration, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ttl, s.from
}

// History is what the statements open and renew have shown. A session that shows none is of a database that does not go
// back while its clients live.
func (s *Session) History() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history
}

// Open makes the session's row. The statement may take more than the ID and the TTL. It may find sessions that have run
// out, as Renew does.
func (s *Session) Open(ctx context.Context, also ...any) error {
	more, err := s.keep(ctx, "open", append([]any{s.ID, s.ttl.Microseconds()}, also...)...)
	s.buryRest(ctx, more)
	return err
}

// Renew moves the deadline of the session's row, and ends the sessions that have passed theirs, so that a database with
// one live session has no dead ones for long. A row that has passed its deadline and is still there is as good as any:
// a session ends when its row is deleted, which is a transaction as this is.
//
// Sessions that have died with many entries take several steps, and the renewal is answered after the first. The rest,
// when that takes long, is for the next renewal. Whether they have all gone is no matter of this session's.
func (s *Session) Renew(ctx context.Context, _ []driver.Entry) error {
	more, err := s.keep(ctx, "renew", s.ID)
	s.buryRest(ctx, more)
	return err
}

// buryRest ends what sessions have left that have run out, if there is more of it, for as long as a renewal has time.
func (s *Session) buryRest(ctx context.Context, more bool) {
	ctx, cancel := context.WithTimeout(ctx, min(s.ttl/8, time.Second/2))
	defer cancel()
	for more && ctx.Err() == nil {
		more, _, _ = s.bury(ctx, []string{})
	}
}

// keep sets the deadline, which counts from within the transaction. Granted counts from before it: the session ends
// here first, however long the transaction waits. Of two renewals the later may be confirmed first. A second row says
// that more of other sessions is left to bury.
func (s *Session) keep(ctx context.Context, statement string, args ...any) (more bool, _ error) {
	sent := time.Now()
	list, err := Collect(ctx, s.db.Write, func(rows Rows) (history string, err error) {
		return history, rows.Scan(new(string), &history)
	}, statement, args...)
	history, err := one(list, err, ErrExpired)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent.After(s.from) {
		s.from, s.history = sent, history
	}
	return len(list) > 1, nil
}

// Name is the ID: who may end a session may write the tables.
func (s *Session) Name() string { return s.ID }

// End ends the session. A statement that was not refused is sent once more, by a new connection: the first may have
// been broken before, which nobody knows of a connection that was in use a moment ago.
func (s *Session) End(ctx context.Context) error {
	err := End(ctx, s.db.Write, s.ID)
	if is := Outcome(err); err != nil && ctx.Err() == nil && (is == driver.NotDone || is == driver.Unknown) {
		s.db.Reset()
		err = End(ctx, s.db.Write, s.ID)
	}
	return err
}

// End removes a session's row, and its entries before it, in steps where the database has such. A row that is not there
// has been removed before, or has run out.
//
// A request that the session has sent, and the database carries out later, finds no row: a renewal updates none, and an
// entry is made only beside the row of its session, which that transaction keeps until its commit. If it comes first,
// the row is removed after that, and the entry with it. An ID is never used again, so nothing brings the row back.
func End(ctx context.Context, write Run, id string) error {
	rows, err := Collect(ctx, write, scan1[string], "end", id)
	for more := len(rows) > 1; more && err == nil; more = len(rows) > 0 {
		rows, err = Collect(ctx, write, scan1[string], "rest", id)
	}
	return err
}
