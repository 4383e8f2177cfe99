package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

//go:embed schema.sql
var schema string

// Open opens a session in an SQLite file and returns a Store in it. The file is made if it does not exist; its directory
// must. ctx governs Open alone.
//
// Open fails if the file cannot be opened and written, is damaged, or is not on a local disk; if another program keeps it
// locked until ctx ends, or for 5 seconds, whichever is shorter; and if an option is not valid.
func Open(ctx context.Context, file string, options *Options) (*farsync.Store, error) {
	if options == nil {
		options = new(Options)
	}
	s, err := NewService(file, options)
	if err != nil {
		return nil, &farsync.Error{Op: "open", Path: shown(file), Err: err}
	}
	store, err := recipe.Open(ctx, s, options.Options)
	if err != nil {
		return nil, &farsync.Error{Op: "open", Path: shown(file), Err: err}
	}
	return store, nil
}

// A service is the driver.Service of one file.
type service struct {
	path    string
	dir     string // of the sockets
	options Options
	write   pool // of one connection: writers of a process take turns here, and in the file with those of others
	read    pool

	local  sync.Map       // the sessions of this service by ID: they are woken without a datagram
	ready  chan struct{}  // has a value while no call of prepare is under way
	sent   *os.File       // dir, open; nil until it is ready
	tasks  sync.WaitGroup // the transactions under way; joined by Close
	closed chan struct{}
}

// A pool is a number of connections of one kind with their statements.
type pool struct {
	db         *sql.DB
	statements map[string]*sql.Stmt
}

var _ driver.Service = (*service)(nil)

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
	s := &service{path: path, dir: path + "-farsync", ready: make(chan struct{}, 1), closed: make(chan struct{})}
	if options != nil {
		s.options = *options
	}
	s.ready <- struct{}{}
	if s.write.db, err = s.connect("immediate", 1); err != nil {
		return nil, err
	}
	s.read.db, err = s.connect("deferred", readers)
	return s, err
}

// readers is how many reads of a service run at a time.
const readers = 4

// connect returns a number of connections to the file. It does no I/O.
func (s *service) connect(lock string, most int) (*sql.DB, error) {
	synchronous := "synchronous(normal)"
	if s.options.Sync {
		synchronous = "synchronous(full)"
	}
	query := url.Values{"_txlock": {lock}, "_pragma": {"busy_timeout(0)", "journal_mode(wal)", synchronous}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: s.path}).EscapedPath()+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}

// Open makes the tables if they are not there, and the session's row. Its socket is there before its row.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	select {
	case <-s.ready:
	case <-s.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, notDone(ctx)
	}
	err := s.prepare(ctx)
	s.ready <- struct{}{}
	if err != nil {
		return nil, err
	}
	in := newSession(s, rand.Text(), ttl)
	in.from = time.Now()
	_, err = transact(ctx, s, &s.write, func(t *tx) (bool, error) {
		if err := t.sweep(); err != nil {
			return false, err
		}
		_, err := t.exec("open", in.id, boot(), clock(), ttl.Microseconds(), s.options.Linger)
		return true, err
	})
	if err != nil {
		in.Drop()
		return nil, err
	}
	return in, nil
}

// prepare makes what the file needs, and prepares the statements, once.
func (s *service) prepare(ctx context.Context) error {
	if s.sent != nil {
		return nil
	}
	if err := checkLocal(filepath.Dir(s.path)); err != nil {
		return outcomeError{err, driver.Refused}
	}
	_, err := transact(ctx, s, &s.write, func(t *tx) (bool, error) {
		_, err := t.raw.ExecContext(t.ctx, schema)
		return true, err
	})
	if err != nil {
		return err
	}
	for _, p := range []*pool{&s.write, &s.read} {
		p.statements = map[string]*sql.Stmt{}
		for name, text := range statements() {
			if p.statements[name], err = p.db.PrepareContext(ctx, text); err != nil {
				return s.judge(fmt.Errorf("statement %s: %w", name, err), false)
			}
		}
	}
	if err := os.Mkdir(s.dir, 0o777); err != nil && !os.IsExist(err) {
		return outcomeError{err, driver.Refused}
	}
	if s.sent, err = os.Open(s.dir); err != nil {
		return outcomeError{err, driver.Refused}
	}
	return nil
}

//go:embed statements.sql
var statementsFile string

// statements returns the statements by their names.
func statements() map[string]string {
	all := map[string]string{}
	for _, part := range strings.Split(statementsFile, "-- name: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		all[name] = text
	}
	return all
}

// Close closes the file.
func (s *service) Close() error {
	close(s.closed)
	<-s.ready // and leave it empty
	s.tasks.Wait()
	_ = s.read.db.Close()
	err := s.write.db.Close() // the last connection to the file folds the log into it
	if s.sent != nil {
		_ = s.sent.Close()
	}
	return err
}
