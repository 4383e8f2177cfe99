package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/deaf"
	"github.com/farsync/farsync/internal/machine"
	"github.com/farsync/farsync/internal/pause"
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

const (
	// connections is how many a file has at most, beside the connection that looks for changes: one writes, the others
	// read.
	connections = 5
	// leastLog is what is left of a log that has grown behind a reader, in bytes: as much as SQLite lets one grow where
	// nobody reads for long.
	leastLog = "4194304"
)

// A file is what the path named when it was opened. Sessions in it end when the path names another.
type file struct {
	service *service
	path    string // without links, as SQLite names it, and what lies beside it
	db      *stdsql.DB
	opens   *connector       // the connections of both
	eye     *sql.DB          // of one connection, for session.version; it is there from make on, so that the log stays
	calls   deaf.Calls       // transactions, for a file system that is frozen holds a write up without end
	gate    *turnstile.Gate  // of the transactions that write
	rests   time.Time        // until when nothing is written; under a ticket of gate
	making  chan struct{}    // has a value while make runs
	sockets *peers.Directory // nil until there is a session; set by make
	settled atomic.Bool      // sessions may be opened

	is     atomic.Pointer[identity] // nil until it is made
	over   chan struct{}            // closed when the path does not name this file any more
	finish sync.Once

	// Under the service's mu:
	sessions int  // in it
	failed   bool // it could not be used: its connections may be at fault, and perhaps another file is put in its place
	retired  bool
	closed   chan struct{}
}

func fileAt(s *service, path string) *file {
	f := &file{service: s, path: path, gate: turnstile.New(path + "-gate"), making: make(chan struct{}, 1), over: make(chan struct{}),
		closed: make(chan struct{})}
	synchronous := "synchronous(normal)"
	if s.options.Sync {
		synchronous = "synchronous(full)"
	}
	// By default SQLite keeps the pages with which a statement undoes itself in a file, or in a piece of memory that the
	// system gives and takes each time.
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(0)", "journal_mode(wal)", "journal_size_limit(" + leastLog + ")",
		"temp_store(memory)", synchronous,
	}}
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
	f.opens = &connector{driver: new(sqlite.Driver), file: f, name: name}
	db := sql.OpenDB(f.opens)
	f.eye = sql.OpenDB(f.opens)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	f.eye.SetMaxOpenConns(1)
	f.db = &stdsql.DB{DB: db, Judge: f.judge, Statements: sqlstore.Statements(statements)}
	return f
}

// prepare makes the file ready for a session.
func (f *file) prepare(ctx context.Context, ttl time.Duration) error {
	if err := f.make(ctx); err != nil {
		return err
	}
	return f.settle(ctx, ttl)
}

// make makes what the file needs, once. Calls of one process take turns at it.
func (f *file) make(ctx context.Context) error {
	return f.calls.Do(ctx, func() error {
		select {
		case f.making <- struct{}{}:
			defer func() { <-f.making }()
		case <-ctx.Done():
			return sqlstore.NotDone(ctx)
		}
		if f.sockets != nil {
			return nil
		}
		if err := refuse(f.path); err != nil {
			return &sqlstore.Error{Err: err, Outcome: driver.Refused}
		}
		if err := f.awaitOthers(ctx); err != nil {
			return err
		}
		makeForAll(f.path)
		is, settled, err := f.recognize(ctx)
		if err == nil && is == nil {
			err = f.inTurn(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
				is, settled, err = f.introduce(ctx, tx)
				return err
			})
		}
		if err == nil {
			err = f.db.Judge(f.eye.PingContext(ctx), false)
		}
		if err != nil {
			return err
		}
		sockets, err := f.members()
		if errors.Is(err, fs.ErrPermission) {
			// Without it the sessions of others would not be seen. Who may not write the file is told that first.
			if err := f.inTurn(ctx, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "DELETE FROM farsync_file WHERE false")
				return err
			}); err != nil {
				return err
			}
			err = fmt.Errorf("%w: give the users of the file the same rights on what lies beside it", err)
		}
		if err != nil {
			return &sqlstore.Error{Err: err, Outcome: driver.Refused}
		}
		f.sockets = sockets
		f.is.Store(is)
		f.settled.Store(settled)
		return nil
	})
}

// members opens the directory of sockets. Whoever may write to it can have a session that lives taken for dead.
func (f *file) members() (*peers.Directory, error) {
	const suffix = "-farsync"
	file, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	d, err := peers.Open(f.path+suffix, membersOf(file))
	if err != nil {
		return nil, err
	}
	if is := d.Stat(); is != nil {
		err = checkWriters(f.path, suffix, file, is)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// made are the names of all that the schema makes where it is not there.
var made = sync.OnceValue(func() (names []string) {
	for _, found := range regexp.MustCompile(`(?m)^CREATE \w+ IF NOT EXISTS (\w+)`).FindAllStringSubmatch(schema, -1) {
		names = append(names, found[1])
	}
	return names
})

// recognize reads which file this is, and whether it is settled. It returns no identity if introduce has something to
// write. Where processes are started at one moment, all but some find all there, and make others wait for nothing.
func (f *file) recognize(ctx context.Context) (is *identity, settled bool, err error) {
	err = f.try(ctx, new(turnstile.Ticket), func() error {
		complete, err := f.complete(ctx, f.db)
		if err == nil && complete {
			is, settled, err = f.known(ctx, f.db)
		}
		if err != nil && ctx.Err() != nil {
			return sqlstore.NotDone(ctx)
		}
		return f.db.Judge(err, false)
	})
	return is, settled, err
}

// A querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// complete reports whether all is there that the schema makes.
func (f *file) complete(ctx context.Context, in querier) (is bool, err error) {
	err = in.QueryRowContext(ctx, `SELECT count(*) = ? AND EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence')
		FROM sqlite_schema WHERE name IN (SELECT value FROM json_each(?))`, len(made()), sqlstore.Array(made())).Scan(&is)
	if err == nil && is {
		err = in.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'farsync_entries')").Scan(&is)
	}
	return is, err
}

// known returns the identity of this file and whether it is settled, if both stand in it.
func (f *file) known(ctx context.Context, in querier) (is *identity, settled bool, err error) {
	var was string
	if err = in.QueryRowContext(ctx, "SELECT name, settled FROM farsync_file").Scan(&was, &settled); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return nil, false, err
	}
	if is, err = f.identify(); err != nil || is.name() != was {
		return nil, false, err
	}
	return is, settled, nil
}

// identify returns what the connections are in, if that can be known here, or else what is named.
func (f *file) identify() (*identity, error) {
	if is := f.opens.in.Load(); is != nil {
		return is, nil
	}
	return identify(f.service.path, f.path)
}

// introduce makes the tables, and writes down which file they are in, unless that stands there: another process may
// have done either since this one has looked. It reports whether the file is settled. A file that is new, or was
// somewhere else before, is not. A file with tables of a farsync that wrote down nothing is. Tables that are not
// farsync's are refused, and then nothing is written.
func (f *file) introduce(ctx context.Context, tx *sql.Tx) (is *identity, settled bool, err error) {
	settled, err = f.complete(ctx, tx)
	if err == nil && !settled {
		const known = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'farsync_sessions')"
		err = tx.QueryRowContext(ctx, known).Scan(&settled)
		if err == nil {
			_, err = tx.ExecContext(ctx, schema)
		}
		if err == nil {
			err = f.db.Check(ctx, tx)
		}
	}
	if err != nil {
		return nil, false, err
	}
	var others int // 1, if the file was known before
	err = tx.QueryRowContext(ctx, "SELECT count(*) FROM farsync_file").Scan(&others)
	if err == nil && others > 0 {
		is, settled, err = f.known(ctx, tx)
	}
	if err != nil || is != nil {
		return is, settled, err
	}
	if is, err = f.identify(); err != nil {
		return nil, false, err
	}
	_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO farsync_file (one, name, since, settled) VALUES (1, ?, ?, ?)",
		is.name(), machine.Clock(), settled)
	return is, settled, err
}

// settle waits until the sessions of another file, which was in the place of this one, have ended, for they may hold
// what could be taken in this one. Their sockets tell of them: whoever has a socket before a session was opened here is
// one of them. They are told to look, and leave. A session that is stopped, or that is of an earlier farsync, is waited
// for until a TTL has passed since the file was first seen here.
func (f *file) settle(ctx context.Context, ttl time.Duration) error {
	for wait := time.Millisecond; !f.settled.Load(); wait = min(2*wait, 50*time.Millisecond) {
		var others int
		err := f.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			var settled bool
			err := tx.QueryRowContext(ctx, "SELECT settled OR since + ? <= ? FROM farsync_file",
				ttl.Microseconds(), machine.Clock()).Scan(&settled)
			if err != nil || settled {
				return err
			}
			if others = f.sockets.Knock(); others == 0 {
				_, err = tx.ExecContext(ctx, "UPDATE farsync_file SET settled = 1")
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case others == 0:
			f.settled.Store(true)
		case pause.For(ctx, wait) != nil:
			return &sqlstore.Error{Err: fmt.Errorf("%s is new, or was replaced: nothing is granted in it before"+
				" the %d sessions of the file that was there have ended, which takes a TTL at most: %w",
				f.path, others, context.Cause(ctx)), Outcome: driver.NotDone}
		}
	}
	return nil
}

// check returns an error if the path does not name this file any more, or another log. The sessions in the file are
// then over: others find another file there, and in it, or without the log, nothing of what is held here.
func (f *file) check() error {
	is := f.is.Load()
	if is == nil {
		return nil
	}
	err := is.compare(f.service.path, f.path)
	if err == nil {
		return nil
	}
	f.finish.Do(func() { close(f.over) })
	return &sqlstore.Error{Err: err, Outcome: driver.Expired}
}

// isAnother reports whether the path names another file, or this one cannot be used. The caller holds the service's mu.
func (f *file) isAnother() bool {
	return f.failed || f.retired || f.check() != nil || resolved(f.service.path) != f.path
}

// close closes the file, once what writes has ended.
func (f *file) close() error {
	defer close(f.closed)
	defer f.forget()
	err := f.gate.Close()
	f.calls.Close()
	return errors.Join(err, f.sockets.Close(), f.eye.Close(), f.db.Close())
}
