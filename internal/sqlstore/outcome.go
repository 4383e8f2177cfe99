package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/farsync/farsync/driver"
)

// The errors that all SQL databases share. A session is over when its row is gone, and not before: a row that has
// passed its deadline can still be renewed by the process that it belongs to, unless another has deleted it.
var (
	ErrExpired = errors.New("the session's row is gone: it ran out, or was removed")
	ErrEnded   = errors.New("the session was closed or dropped")
	ErrClosed  = errors.New("the service is closed")
	ErrStray   = errors.New("it belongs to no session: delete its row if nothing needs it")
)

// An Error is an error together with its outcome. The outcome is decided where the error happens, in the driver:
// whether a transaction had come to its COMMIT cannot be seen in the error of the database.
type Error struct {
	Err     error
	Outcome driver.Outcome
}

// Error returns the text of the error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *Error) Unwrap() error { return e.Err }

// A LoginError is the error of a server that has not let the client in: the password, a certificate or a right to
// connect is not what the server wants. While a session lives the attempt is made again, because credentials are
// changed at the server and at the client at two moments.
type LoginError struct{ Err error }

// Error returns the text of the error.
func (e *LoginError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *LoginError) Unwrap() error { return e.Err }

// OfMigrate returns the error of Migrate for an error that a driver has judged as an error of a connection: it wraps
// unavailable, which is farsync.ErrUnavailable, as the error of Open does, unless the server has refused.
func OfMigrate(err, unavailable error) error {
	if Outcome(OfOpen(err)) == driver.Refused {
		return err
	}
	return fmt.Errorf("%w (%w)", unavailable, err)
}

// OfRevision adds to the error of a server whose numbers have come to their end what to do. Only a change by hand, or by
// another program, gets that far: revisions are the time of day in microseconds.
func OfRevision(err error) error {
	return fmt.Errorf("a revision was set too high: delete the entries of the queue in farsync_entries that have it, and "+
		"set last in its row of farsync_queues to 0: %w", err)
}

// OfOpen returns the error of Open for an error: no session lives, so a server that does not let the client in has
// refused.
func OfOpen(err error) error {
	if _, ok := errors.AsType[*LoginError](err); ok {
		return &Error{err, driver.Refused}
	}
	return err
}

// NotDone is the error of an attempt that ended with ctx before it began, or was rolled back. Use it only for what is
// certain: the Store sends the request again without looking.
func NotDone(ctx context.Context) error { return &Error{context.Cause(ctx), driver.NotDone} }

// Outcome tells what was rolled back from what may have been committed. Whatever is not listed is Unknown.
func Outcome(err error) driver.Outcome {
	is := func(target error) bool { return errors.Is(err, target) }
	if told, ok := errors.AsType[*Error](err); ok {
		return told.Outcome
	}
	if _, ok := errors.AsType[*LoginError](err); ok {
		return driver.NotDone
	}
	switch {
	case is(ErrClosed):
		return driver.Closed
	case is(ErrExpired), is(ErrEnded):
		return driver.Expired
	case is(driver.ErrGone), is(driver.ErrConflict), is(ErrStray):
		return driver.Refused
	default:
		return driver.Unknown
	}
}
