package farsync

import (
	"context"
	"errors"
	"fmt"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// The errors a caller can tell apart with errors.Is. Every error of a call is an *Error that wraps one of them, or
// ctx.Err() if the caller gave up, or what the service said.
var (
	// ErrDeadlock means that the context of the call stands for a lease on the same lock, see Lease.Context: the call
	// would wait for its own caller. It is a mistake in the program, and told at once, also by a Try. Nothing was left
	// behind.
	ErrDeadlock = errors.New("it would wait for itself")
	// ErrUpgrade means that the write lock was asked for with a context that stands for a read lease on the same lock.
	// It wraps ErrDeadlock.
	ErrUpgrade = fmt.Errorf("%w: a reader cannot become a writer", ErrDeadlock)
	// ErrLocked means that a Try found the lock taken: held or waited for, by a client of a service that answers and
	// grants. Nothing was left behind. An entry that this Store has given up and that the service does not remove is no
	// holder: the Try fails with the refusal of the service, or with ErrUnavailable. No call that waits for holders fails
	// with ErrLocked. LockTx of the packages postgres and mysql fails with it where a lease holds or waits.
	ErrLocked = recipe.ErrLocked
	// ErrLost means that the lease ended before it was released; it wraps the cause. Another client may hold the lock
	// now.
	ErrLost = recipe.ErrLost
	// ErrBroken means that the lease was ended by another client with Store.Break; the text says by whom and why. It
	// stands under ErrLost.
	ErrBroken = recipe.ErrBroken
	// ErrReleased means that the lease was released before.
	ErrReleased = recipe.ErrReleased
	// ErrClosed means that the Store was closed, which ends all its leases and all waiting.
	ErrClosed = recipe.ErrClosed
	// ErrUnavailable means that the service does not answer; or that it grants nothing to anybody for a while, as Redis
	// does after a restart: then the text says for how long. Beside ctx.Err(), it tells that the caller gave up on the
	// service, not on the present holder: when ctx ended, the Store was not StateConnected, or the last request of the
	// call had had no answer for a third of the TTL or a second, whichever is less. A Try that finds a service which
	// grants nothing fails with it at once.
	ErrUnavailable = recipe.ErrUnavailable
	// ErrTooLarge means that more units were asked for than the semaphore has.
	ErrTooLarge = recipe.ErrTooLarge
	// ErrSize means that the semaphore was declared with another size by its present users. A deployment that replaces
	// them one after the other keeps the size that they declare, and changes the size that counts with Resize, before
	// or after: see Semaphore.
	ErrSize = recipe.ErrSize
	// ErrKind means that primitives of another family use the path, which the package documentation lists. The text
	// names the holder of the oldest entry, and the primitive that this holder uses. It comes at once from a Try, and
	// after a second or so from a call that waits, for the others may be about to leave. Nothing was left behind, and
	// the other users were not disturbed. A lock that another program holds counts as a Mutex or a candidate; an
	// RWMutex waits for it, and a Semaphore refuses it.
	ErrKind = driver.ErrKind
	// ErrPath means that the path is not valid: see NewMutex.
	ErrPath = recipe.ErrPath
	// ErrUncertain means that the service did not say whether a change was made. It may have been, or may be later.
	ErrUncertain = recipe.ErrUncertain
	// ErrNoLeader means that an election has no candidates, or that none of them leads yet.
	ErrNoLeader = errors.New("no leader")
)

var errToken = errors.New("the store's revision does not fit a token: another program has set it that high; set it back, as the runbook has it")

// An Error is the error of a call, with its operation and its path, in the manner of fs.PathError.
type Error struct {
	Op   string // what was asked for, such as "lock"
	Path string // of the lock, as it was given; of Open, what was opened
	Err  error  // why it failed

	// Holder is who was ahead of a call that locks, as Participant.Holder has it: with ErrLocked, with ErrKind, and
	// when ctx ended while the call waited. It was so when the service said it, and proves nothing now.
	//
	// A call that waits until a deadline asks for the name shortly before, if it does not know it. Otherwise no request
	// is made for a name, and Holder is empty where the answers do not show it: with ErrLocked on ZooKeeper, whose
	// answers have the names of nodes and not their data; with ErrLocked of a Semaphore on Redis and the SQL stores,
	// which count the units themselves; and mostly on etcd and ZooKeeper when ctx was cancelled. If ahead is another
	// caller of the same Store, Holder is known on all stores. It is empty while the service grants nothing, and with
	// all other errors.
	Holder string
}

// Error returns "farsync: ", the operation, the path if there is one, and the error. A path that is not valid is shown
// by its error alone, in a form that is safe to print.
func (e *Error) Error() string {
	if e.Path == "" || errors.Is(e.Err, ErrPath) {
		return "farsync: " + e.Op + ": " + e.Err.Error()
	}
	return "farsync: " + e.Op + " " + e.Path + ": " + e.Err.Error()
}

// Unwrap returns the error without operation and path.
func (e *Error) Unwrap() error { return e.Err }

// wrap returns nil for nil.
func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Path: path, Err: err, Holder: holderOf(err)}
}

// holderOf returns who was ahead of a call that has failed with err, "" if that is not known.
func holderOf(err error) string {
	if short, ok := err.(*shortage); ok { //nolint:errorlint // as recipe.HolderOf
		return short.holder()
	}
	return recipe.HolderOf(err)
}

// isSilence reports whether the service grants nothing for a while.
func isSilence(err error) bool {
	_, ok := errors.AsType[*recipe.Silence](err)
	return ok
}

// gaveUp is the error of a ctx that has ended, with its cause.
func gaveUp(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
