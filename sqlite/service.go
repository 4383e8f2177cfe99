package sqlite

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/machine"
	"github.com/farsync/farsync/internal/sqlstore"
)

// A service is the driver.Service of what a path names: one file after the other, if the file is replaced.
type service struct {
	name    string // as it was given, for people
	path    string // absolute, as it was given: links in it may be switched
	options Options

	// highest is the highest revision that a session of this service has been told. A revision that is given later is
	// higher, in whichever file.
	highest atomic.Int64

	mu      sync.Mutex
	closed  bool
	current *file          // in which sessions are opened
	closing sync.WaitGroup // files that are not in use any more; joined by Close
}

// NewService returns the driver for a file, which is opened with the first session. Programs call Open.
func NewService(name string, options *Options) (driver.Service, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	s := &service{name: name, path: path}
	if options != nil {
		s.options = *options
	}
	s.current, err = s.open()
	if err != nil {
		return nil, err
	}
	return s, nil
}

// open returns the file that the path names now.
func (s *service) open() (*file, error) {
	path := resolved(s.path) // processes that know the file by other names find one another
	if err := machine.CheckLocal(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return fileAt(s, path), nil
}

// Open makes the tables if they are not there, and the session's row. If the path names another file than at the last
// session, the session is in that one.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	f, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.prepare(ctx, ttl); err != nil {
		s.leave(f, true)
		return nil, err
	}
	in := newSession(f, ttl)
	if err := in.Session.Open(ctx, s.options.Linger); err != nil {
		in.Drop()
		return nil, err
	}
	return in, nil
}

// End removes a session's row from the file that the path names now: the sessions in a file that was there before have
// ended with its name. It takes a socket for as long as that takes, to tell those who waited.
func (s *service) End(ctx context.Context, session string) error {
	f, err := s.enter(ctx)
	if err != nil {
		return err
	}
	if err := f.make(ctx); err != nil {
		s.leave(f, false) // there may be a session in it
		return err
	}
	by := newSession(f, time.Second) // without a row: nothing is ever made in it
	defer by.Drop()
	return sqlstore.End(ctx, by.Write, session)
}

// enter returns the file that the path names, for a session, which leaves it. It waits until the file before is closed:
// connections of one process to one file share what they know of its log, and the connections to the file before may
// know another log.
func (s *service) enter(ctx context.Context) (*file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && s.current.isAnother() {
		s.retire(s.current)
		last := s.current
		s.mu.Unlock()
		select {
		case <-last.closed:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return nil, sqlstore.NotDone(ctx)
		}
		if s.current != last {
			continue
		}
		next, err := s.open()
		if err != nil {
			return nil, err
		}
		s.current = next
	}
	if s.closed {
		return nil, sqlstore.ErrClosed
	}
	s.current.sessions++
	return s.current, nil
}

// leave takes a session out of its file, which has failed if there was no session.
func (s *service) leave(f *file, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.sessions--
	f.failed = f.failed || failed
	if f.isAnother() {
		s.retire(f)
	}
}

// release closes a file that the path does not name any more, as soon as it has no sessions.
func (s *service) release(f *file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.isAnother() {
		s.retire(f)
	}
}

// retire closes a file that has no sessions, in a goroutine that Close joins. The caller holds mu.
func (s *service) retire(f *file) {
	if f.sessions == 0 && !f.retired && !s.closed {
		f.retired = true
		s.closing.Go(func() { _ = f.close() }) // what it might say is of a file that is not in use
	}
}

// String is what errors of Open call it.
func (s *service) String() string { return shown(s.name) }

// Close closes the file, once what writes has ended. The last connection folds the log into it.
func (s *service) Close() error {
	s.mu.Lock()
	s.closed = true
	f := s.current
	retired := f.retired
	s.mu.Unlock()
	s.closing.Wait()
	if retired {
		return nil
	}
	return f.close()
}

// Outcome reads the outcome that judge has put into the error.
func (s *service) Outcome(err error) driver.Outcome { return outcome(err) }
