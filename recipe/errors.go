package recipe

import (
	"context"
	"errors"
	"fmt"
)

// The errors a caller can tell apart. The root package exports them under the same names.
var (
	// ErrLocked means that the lock is taken, and the call was not to wait.
	ErrLocked = errors.New("locked")
	// ErrLost means that what was held can no longer be proved to be held. It wraps the cause.
	ErrLost = errors.New("lost")
	// ErrBroken means that another client has ended the hold, with Break. It stands under ErrLost.
	ErrBroken = errors.New("broken")
	// ErrReleased means that the hold was released before.
	ErrReleased = errors.New("released")
	// ErrClosed means that the Store was closed.
	ErrClosed = errors.New("store closed")
	// ErrPath means that the path does not follow the grammar of CheckPath.
	ErrPath = errors.New("bad path")
	// ErrSize means that the semaphore was declared with another size by its present users.
	ErrSize = errors.New("semaphore sizes differ")
	// ErrTooLarge means that more units are asked for than the semaphore has.
	ErrTooLarge = errors.New("more units than the semaphore has")
	// ErrUncertain means that the service did not answer: the change may have been made, or may be made later.
	ErrUncertain = errors.New("outcome unknown")
	// ErrUnavailable means that the service does not answer, or, as a Silence, that it grants nothing to anybody for a
	// while.
	ErrUnavailable = errors.New("the service does not answer")
)

var (
	errNoAnswer  = errors.New("no answer")
	errNoSession = errors.New("no session with the service")
	errExpired   = errors.New("the service has ended the session")
	errUnusable  = errors.New("the session cannot be used any more")
	errDeadline  = errors.New("no renewal was acknowledged in time")

	// These end requests that are Replaceable.
	errOverdue      = fmt.Errorf("%w: no answer within a tenth of the TTL", ErrUnavailable)
	errDisconnected = fmt.Errorf("%w: a renewal is overdue, or the session is over", ErrUnavailable)
)

// gaveUp is the error of a call whose ctx has ended. Its chain has ctx.Err() and the cause, if ctx was given one, and
// ErrUnavailable if the service did not answer, or a Silence if it grants nothing. The reason why the call did not
// succeed earlier is in the text alone.
func gaveUp(ctx context.Context, trouble error, unavailable bool) error {
	err := endOf(ctx, trouble, unavailable)
	if behind, ok := errors.AsType[*waitingError](trouble); ok {
		return &keptError{err, behind.holder}
	}
	return err
}

func endOf(ctx context.Context, trouble error, unavailable bool) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	quiet, silent := errors.AsType[*Silence](trouble)
	stuck, removing := errors.AsType[*stuckError](trouble)
	switch {
	case removing && (unavailable || !stuck.refused):
		return fmt.Errorf("%w: %w (%s)", err, ErrUnavailable, stuck.Error())
	case unavailable && silent:
		return fmt.Errorf("%w: %w", err, quiet)
	case unavailable && trouble != nil && !errors.Is(trouble, ErrUnavailable):
		return fmt.Errorf("%w: %w (%s)", err, ErrUnavailable, trouble.Error())
	case unavailable:
		return fmt.Errorf("%w: %w", err, ErrUnavailable)
	case trouble != nil && !errors.Is(trouble, ctx.Err()):
		return fmt.Errorf("%w (%s)", err, trouble.Error())
	default:
		return err
	}
}
