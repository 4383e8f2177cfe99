package recipe

import (
	"context"
	"errors"
	"fmt"
)

// The errors a Store tells apart. The root package exports those that reach users under the same names.
var (
	// ErrLocked: somebody else is in the way, and the call was not to wait.
	ErrLocked = errors.New("farsync: locked")
	// ErrLost: what was held is no longer proved to be held; it wraps the cause.
	ErrLost = errors.New("farsync: lost")
	// ErrReleased: the hold was given back before.
	ErrReleased = errors.New("farsync: released")
	// ErrClosed: the Store was closed.
	ErrClosed = errors.New("farsync: store closed")
	// ErrName: the path does not follow the grammar of CheckPath.
	ErrName = errors.New("farsync: bad name")
	// ErrSize: the semaphore was declared with another size by somebody else.
	ErrSize = errors.New("farsync: semaphore sizes differ")
	// ErrTooLarge: more units are asked for than the semaphore has.
	ErrTooLarge = errors.New("farsync: more units than the semaphore has")
	// ErrUnknown: nobody answered, so the change may have been made, or be made later.
	ErrUnknown = errors.New("farsync: outcome unknown")
	// ErrGone: the entry is not in its queue any more, or its session is over.
	ErrGone = errors.New("farsync: entry gone")
)

var errCannotAsk = errors.New("the store cannot carry requests to a holder")

// GaveUp is the error of a call whose ctx has ended: ctx.Err(), the cause if ctx was given one, and last, the
// trouble that kept the call from succeeding earlier, if there was any.
func GaveUp(ctx context.Context, last error) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if last != nil && !errors.Is(last, ctx.Err()) {
		err = fmt.Errorf("%w (%w)", err, last)
	}
	return err
}
