package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"net/url"
	"path/filepath"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/deaf"
	"github.com/farsync/farsync/internal/machine"
	"github.com/farsync/farsync/internal/peers"
	"github.com/farsync/farsync/internal/sqlstore"
	"github.com/farsync/farsync/internal/sqlstore/stdsql"
	"github.com/farsync/farsync/internal/turnstile"
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
	options Options
	db      stdsql.DB
	eye     *sql.DB          // of one connection, for session.version
	calls   deaf.Calls       // transactions, for a file system that is frozen holds a write up without end
	gate    *turnstile.Gate  // of those that write
	sockets *peers.Directory // nil until there is a session; set under the gate
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
	if err := machine.CheckLocal(filepath.Dir(path)); err != nil {
		return nil, err
	}
	s := &service{path: path, gate: turnstile.New(path + "-gate")}
	if options != nil {
		s.options = *options
	}
	synchronous := "synchronous(normal)"
	if s.options.Sync {
		synchronous = "synchronous(full)"
	}
	// What a statement keeps in order to undo itself is otherwise a file, or a piece of memory that the system gives and takes each time.
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(0)", "journal_mode(wal)", "temp_store(memory)", synchronous}}
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	s.eye, err = sql.Open("sqlite", name)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	s.eye.SetMaxOpenConns(1)
	s.db = stdsql.DB{DB: db, Judge: s.judge}
	return s, err
}

// Open makes the tables if they are not there, and the session's row.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	in := newSession(s, ttl)
	if err := in.Session.Open(ctx, s.options.Linger); err != nil {
		in.Drop()
		return nil, err
	}
	return in, nil
}

// prepare makes what the file needs, and prepares the statements, once.
func (s *service) prepare(ctx context.Context) error {
	return s.inTurn(ctx, func(ticket *turnstile.Ticket) error {
		if s.sockets != nil {
			return nil
		}
		err := s.try(ctx, ticket, func() error {
			return s.db.Transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, schema)
				return err
			})
		})
		if err == nil {
			err = s.db.Prepare(ctx, statements)
		}
		if err != nil {
			return err
		}
		if s.sockets, err = peers.Open(s.path + "-farsync"); err != nil {
			return &sqlstore.Error{Err: err, Outcome: driver.Refused}
		}
		return nil
	})
}

// Close closes the file, once what writes has ended. The last connection folds the log into it.
func (s *service) Close() error {
	err := s.gate.Close()
	s.calls.Close()
	return errors.Join(err, s.sockets.Close(), s.eye.Close(), s.db.Close())
}
