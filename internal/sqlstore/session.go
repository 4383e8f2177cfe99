package sqlstore

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
)

// A Session is what all SQL databases do alike of a driver.Session, but Renew, Close and Drop.
type Session struct {
	driver.Optional

	// ID names the session's row, and is never used again.
	ID string
	// Waiters are the Watches under way. What the driver hears of goes to its Wake.
	Waiters *Waiters
	// Life ends with the session. End ends it.
	Life context.Context
	End  context.CancelFunc

	db  DB
	ttl time.Duration

	mu   sync.Mutex
	from time.Time // when the last acknowledged renewal was sent
}

// NewSession returns a session that has not been opened yet.
func NewSession(db DB, ttl time.Duration) *Session {
	life, end := context.WithCancel(context.Background())
	return &Session{
		Optional: driver.Unsupported, ID: rand.Text(), Waiters: newWaiters(), Life: life, End: end, db: db, ttl: ttl,
	}
}

// NewID returns random text. All have one length, so none is the beginning of another.
func (s *Session) NewID(string, driver.Kind, int64) string { return rand.Text() }

// Granted returns what Acknowledged has noted.
func (s *Session) Granted() (time.Duration, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ttl, s.from
}

// Acknowledged notes that the database has confirmed a renewal, or the opening, which was sent then. It counts from when it was
// sent, so that the session ends here before its deadline there. Of two renewals the later may be confirmed first.
func (s *Session) Acknowledged(sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent.After(s.from) {
		s.from = sent
	}
}
