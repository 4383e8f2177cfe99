package farsync

import (
	"errors"
	"strings"

	"github.com/farsync/farsync/recipe"
)

// The errors a caller can tell apart with errors.Is. Every error of a call wraps one of them, or ctx.Err() if the
// caller gave up, or what the service said; its text names the operation and the path.
var (
	// ErrLocked: a Try found it taken. Nothing was left behind.
	ErrLocked = recipe.ErrLocked
	// ErrLost: the lease ended before it was released; it wraps the cause. Somebody else may hold it now.
	ErrLost = recipe.ErrLost
	// ErrReleased: the lease was released before.
	ErrReleased = recipe.ErrReleased
	// ErrClosed: the Store was closed, which ends all its leases and all waiting.
	ErrClosed = recipe.ErrClosed
	// ErrUpgrade: the write lock was asked for with a context that stands for a read lease on the same lock. It would wait
	// for itself.
	ErrUpgrade = errors.New("farsync: a reader cannot become a writer")
	// ErrTooLarge: more units were asked for than the semaphore has.
	ErrTooLarge = recipe.ErrTooLarge
	// ErrSize: the semaphore was declared with another size by others who use it.
	ErrSize = recipe.ErrSize
	// ErrName: the path is not an absolute path of plain segments; see recipe.CheckPath.
	ErrName = recipe.ErrName
)

var errToken = errors.New("the store's revision does not fit a token")

// opError names the operation and the path of an error, once.
type opError struct {
	op, path string
	err      error
}

func (e *opError) Error() string {
	what := e.op
	if !errors.Is(e.err, ErrName) { // which shows the path in a form that is safe to print
		what += " " + e.path
	}
	return "farsync: " + what + ": " + strings.ReplaceAll(e.err.Error(), "farsync: ", "")
}

func (e *opError) Unwrap() error { return e.err }

// wrap returns nil for nil.
func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &opError{op, path, err}
}
