package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/sqlstore"
)

var (
	//go:embed schema.sql
	schema string
	//go:embed statements.sql
	statements string
)

// connections is how many a service has at most, beside one that looks for changes: one writes, the others read.
const connections = 5

// A service is the driver.Service of one file.
type service struct {
	path    string
	dir     string // of the sockets
	options Options
	db      *sql.DB
	eye     *sql.DB // of one connection, for session.version

	mu    sync.Mutex
	shut  bool           // no new transactions
	tasks sync.WaitGroup // the transactions under way; added to under mu while not shut, joined by Close

	// turn has a value while no transaction of this process writes, and is closed with the service. What follows is set
	// under it, once.
	turn       chan struct{}
	statements map[string]*sql.Stmt
	sockets    *os.File // dir, open
}

// NewService returns the driver for a file, which is opened with the first session. Programs call Open.
func NewService(file string, options *Options) (driver.Service, error) {
	if err := checkName(file); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // processes that know the file by other names find one another
	}
	s := &service{path: path, dir: path + "-farsync", turn: make(chan struct{}, 1)}
	if options != nil {
		s.options = *options
	}
	synchronous := "synchronous(normal)"
	if s.options.Sync {
		synchronous = "synchronous(full)"
	}
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(0)", "journal_mode(wal)", synchronous}}
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
	if s.db, err = sql.Open("sqlite", name); err != nil {
		return nil, err
	}
	if s.eye, err = sql.Open("sqlite", name); err != nil {
		return nil, err
	}
	s.db.SetMaxOpenConns(connections)
	s.db.SetMaxIdleConns(connections)
	s.eye.SetMaxOpenConns(1)
	s.turn <- struct{}{}
	return s, nil
}

// Open makes the tables if they are not there, and the session's row.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	in := newSession(s, ttl)
	if err := in.keep(ctx, "open", ttl.Microseconds(), s.options.Linger); err != nil {
		in.Drop()
		return nil, err
	}
	return in, nil
}

// prepare makes what the file needs, and prepares the statements, once.
func (s *service) prepare(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	if s.statements != nil {
		return nil
	}
	if err := checkLocal(filepath.Dir(s.path)); err != nil {
		return &sqlstore.Error{Err: err, Outcome: driver.Refused}
	}
	// It holds the turn already, so it begins as one that reads.
	err := s.transact(ctx, true, func(t *tx) error {
		_, err := t.raw.ExecContext(t.ctx, schema)
		return err
	})
	if err != nil {
		return err
	}
	all := map[string]*sql.Stmt{}
	for name, text := range sqlstore.Statements(statements) {
		if all[name], err = s.db.PrepareContext(ctx, text); err != nil {
			return s.judge(fmt.Errorf("statement %s: %w", name, err), false)
		}
	}
	if err = os.Mkdir(s.dir, 0o777); err == nil || os.IsExist(err) {
		s.sockets, err = os.Open(s.dir)
	}
	if err != nil {
		return &sqlstore.Error{Err: err, Outcome: driver.Refused}
	}
	s.statements = all
	return nil
}

// take waits for the turn to write. Writers of one process wait for each other here, in order, rather than by trying.
func (s *service) take(ctx context.Context) error {
	select {
	case _, open := <-s.turn:
		if !open {
			return sqlstore.ErrClosed
		}
		return nil
	case <-ctx.Done():
		return sqlstore.NotDone(ctx)
	}
}

func (s *service) give() { s.turn <- struct{}{} }

// start runs a transaction in a goroutine that Close joins. It reports false after Close: the call of a caller that uses the
// Store meanwhile may come as late as that.
func (s *service) start(transaction func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shut {
		s.tasks.Go(transaction)
	}
	return !s.shut
}

// Close closes the file, once what writes has ended.
func (s *service) Close() error {
	<-s.turn
	close(s.turn)
	s.mu.Lock()
	s.shut = true
	s.mu.Unlock()
	s.tasks.Wait()
	if s.sockets != nil {
		_ = s.sockets.Close()
	}
	return errors.Join(s.eye.Close(), s.db.Close()) // the last connection to the file folds the log into it
}
