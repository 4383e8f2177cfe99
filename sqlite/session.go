package sqlite

import (
	"context"
	"crypto/rand"
	"net"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
)

// A session is one row of farsync_sessions, as the process that keeps it sees it.
type session struct {
	driver.Optional

	*service
	id   string
	ttl  time.Duration
	life context.Context
	end  context.CancelFunc
	run  sync.WaitGroup // listen and poll; joined by stop
	ears *net.UnixConn  // nil where there are no such sockets: then poll looks more often

	mu      sync.Mutex
	from    time.Time            // when the last acknowledged renewal was sent
	waiters map[*waiter]struct{} // the Watches under way
	busy    chan struct{}        // has a value when there may be one
}

func newSession(s *service, id string, ttl time.Duration) *session {
	in := &session{
		Optional: driver.Unsupported, service: s, id: id, ttl: ttl,
		waiters: map[*waiter]struct{}{}, busy: make(chan struct{}, 1),
	}
	in.life, in.end = context.WithCancel(context.Background())
	if in.ears = s.listen(id); in.ears != nil {
		in.run.Go(in.hear)
	}
	in.run.Go(in.poll)
	s.local.Store(id, in)
	return in
}

// NewID returns random text. All have one length.
func (s *session) NewID(string, driver.Kind, int64) string { return rand.Text() }

// Granted returns what Open and Renew have noted.
func (s *session) Granted() (time.Duration, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ttl, s.from
}

// Renew moves the deadline of the session's row, and buries the sessions that have passed theirs, so that a file with one
// live session has no dead ones for long. A row that has passed its deadline and was not buried is as good as any: a
// session ends when its row is deleted, which is a transaction as this is.
//
// The deadline counts from within the transaction, Granted from before it, so a session ends here first, however long the
// file was locked.
func (s *session) Renew(ctx context.Context, _ []driver.Entry) error {
	sent := time.Now()
	_, err := update(ctx, s, func(t *tx) (bool, error) {
		if n, err := t.exec("renew", s.id, boot(), clock()); err != nil || n == 0 {
			return false, orExpired(err)
		}
		return true, t.sweep()
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent.After(s.from) {
		s.from = sent
	}
	return nil
}

func orExpired(err error) error {
	if err == nil {
		err = errExpired
	}
	return err
}

// update runs f in a transaction that writes.
func update[T any](ctx context.Context, s *session, f func(*tx) (T, error)) (T, error) {
	return transact(ctx, s.service, &s.write, f)
}

// query runs f in a transaction that reads one state of the file, no older than the call.
func query[T any](ctx context.Context, s *session, f func(*tx) (T, error)) (T, error) {
	return transact(ctx, s.service, &s.read, f)
}

// Close removes the session and its entries.
func (s *session) Close(ctx context.Context) error {
	_, err := update(ctx, s, func(t *tx) (bool, error) { return true, t.bury(s.id) })
	s.stop()
	return err
}

// Drop leaves the session to its deadline: its socket is unlinked first, so that it is not taken for that of a process
// that has died.
func (s *session) Drop() { s.stop() }

// stop ends what runs here. Transactions that a frozen file system holds up are left to service.Close.
func (s *session) stop() {
	s.end()
	s.local.Delete(s.id)
	s.hush()
	s.run.Wait()
}
