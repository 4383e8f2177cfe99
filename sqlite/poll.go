package sqlite

import (
	"context"
	"time"

	"github.com/farsync/farsync/internal/sqlstore"
)

const (
	// A session that waits knocks at the sockets of the sessions that it waits for after times that grow from probeFirst
	// to probeMost: to be woken ten times a second costs a process more than a thousandth of a processor.
	probeFirst = 100 * time.Millisecond
	probeMost  = 500 * time.Millisecond
	// checkEvery is how often it looks whether the file has changed without a datagram.
	checkEvery = time.Second
	// deafEvery is how often it looks without a socket, which nothing can be sent to.
	deafEvery = 10 * time.Millisecond
)

// poll is the one poller of a session. It runs in one goroutine, which Drop joins.
func (s *session) poll() {
	first, most, check := probeFirst, probeMost, checkEvery
	if s.peer == nil {
		first, most, check = deafEvery, deafEvery, deafEvery
	}
	var version int64
	var known []sqlstore.Owner // the owner of an entry stays the same
	var checked time.Time
	s.Waiters.Tend(s.Life, first, most, func(names []string, others bool) {
		ctx, cancel := context.WithTimeout(s.Life, checkEvery)
		defer cancel()
		if others {
			known, _ = s.Owners(ctx, "", names)
		}
		if time.Since(checked) >= check {
			// Before the waiters look, so that what comes after their look is seen the next time.
			if is := s.version(ctx); is != version || is == 0 {
				version = is
				s.Waiters.Wake(nil)
			}
			checked = time.Now()
		}
		_ = s.BuryKnown(ctx, known, names)
	})
}

// version returns a number that is another whenever the file has changed, 0 if it cannot be read. It is one of a
// connection.
func (s *session) version(ctx context.Context) (is int64) {
	if err := s.file.eye.QueryRowContext(ctx, "PRAGMA data_version").Scan(&is); err != nil {
		return 0
	}
	return is
}
