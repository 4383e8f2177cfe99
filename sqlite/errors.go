package sqlite

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/farsync/farsync/driver"
)

var (
	errExpired = errors.New("the session's row is gone: it ran out, or was removed")
	errEnded   = errors.New("the session was closed or dropped")
	errClosed  = errors.New("the service is closed")
	errStray   = errors.New("it belongs to no session: delete its row if nothing needs it")
	errKind    = errors.New("only a write entry can be replaced by one of another kind, a read entry")
	errStuck   = errors.New("the file system does not answer")
)

// An outcomeError is an error of which more is known than it says itself.
type outcomeError struct {
	error
	outcome driver.Outcome
}

func (e outcomeError) Unwrap() error { return e.error }

// notDone is the error of an attempt that ended with ctx before it began, or was rolled back.
func notDone(ctx context.Context) error { return outcomeError{context.Cause(ctx), driver.NotDone} }

// code returns the primary result code of SQLite, 0 if err has none.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// isBusy reports whether another connection stands in the way.
func isBusy(err error) bool { return code(err) == lib.SQLITE_BUSY || code(err) == lib.SQLITE_LOCKED }

// refusals are the answers that stay the same while the file is as it is, in words.
var refusals = map[int]string{
	lib.SQLITE_FULL:     "the disk is full",
	lib.SQLITE_READONLY: "the file, or its directory, cannot be written",
	lib.SQLITE_PERM:     "the file may not be used",
	lib.SQLITE_CANTOPEN: "the file cannot be opened or made",
	lib.SQLITE_CORRUPT:  "the file is damaged",
	lib.SQLITE_NOTADB:   "the file is no SQLite database",
	lib.SQLITE_ERROR:    "the tables are not those of farsync",
}

// judge says of the error of a transaction what it means for the attempt. One that has not come to its commit is rolled
// back. So is one that found no room for the log as it committed, for a log without its last frame counts for nothing. Other
// errors of a commit do not tell how far it came: after a power cut, a frame that could not be synced may be there.
func (s *service) judge(err error, committing bool) error {
	words, refused := refusals[code(err)]
	switch {
	case s.Outcome(err) != driver.Unknown:
		return err // of our own making
	case refused && (!committing || code(err) == lib.SQLITE_FULL):
		return outcomeError{fmt.Errorf("%s: %s: %w", s.path, words, err), driver.Refused}
	case committing && !isBusy(err):
		return fmt.Errorf("%s: commit: %w", s.path, err)
	default:
		return outcomeError{fmt.Errorf("%s: %w", s.path, err), driver.NotDone}
	}
}

// Outcome tells what was rolled back from what may have been committed. Whatever is not listed is Unknown.
func (s *service) Outcome(err error) driver.Outcome {
	is := func(target error) bool { return errors.Is(err, target) }
	if told, ok := errors.AsType[outcomeError](err); ok {
		return told.outcome
	}
	switch {
	case is(errClosed):
		return driver.Closed
	case is(errExpired), is(errEnded):
		return driver.Expired
	case is(driver.ErrGone), is(driver.ErrConflict), is(errStray), is(errKind):
		return driver.Refused
	default:
		return driver.Unknown
	}
}
