package zk

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
)

// An attemptError is an error about whose attempt more is known than the error itself tells.
type attemptError struct {
	error
	outcome driver.Outcome
}

func (e attemptError) Unwrap() error { return e.error }

// refusal returns a definite no, in words.
func refusal(format string, args ...any) error {
	return attemptError{fmt.Errorf(format, args...), driver.Refused}
}

var (
	// errSequence refuses a queue whose order cannot be told any more. See sequence.
	errSequence = refusal("the queue's sequence has run over 2^31 creates: delete its parent node while no client uses it")
	// errTooLong refuses a read.
	errTooLong = refusal("the answer is longer than 16 MiB")
)

// stray refuses a queue which is blocked by a node that no session will ever remove.
func stray(path string) error {
	return refusal("node %q is not ephemeral: it would block the queue for ever; delete it if it is not needed", path)
}

// notDone returns the error of a step before the one that counts. What is unknown of that step does not matter.
func notDone(err error) error {
	if err != nil && outcome(err) == driver.Unknown {
		return attemptError{err, driver.NotDone}
	}
	return err
}

// The errors that tell by themselves what became of an attempt. ErrNoServer is that of the library's queue, in which a
// request waited to be sent. All others say nothing: the connection was lost, the server was shutting down, or the session
// had moved to another server meanwhile.
var verdicts = map[driver.Outcome][]error{
	driver.Expired: {errExpired, errShortened, errSecondSession, errEnded, client.ErrSessionExpired},
	driver.NotDone: {client.ErrNoServer},
	driver.Refused: {
		driver.ErrGone, driver.ErrConflict, driver.ErrKind, errors.ErrUnsupported, client.ErrAPIError, client.ErrNoAuth,
		client.ErrNoChildrenForEphemerals, client.ErrNotEmpty, client.ErrInvalidACL, client.ErrInvalidPath,
		client.ErrAuthFailed, client.ErrBadArguments,
	},
}

// outcome says what err means for the attempt that it is the error of.
func outcome(err error) driver.Outcome {
	if e, ok := errors.AsType[attemptError](err); ok {
		return e.outcome
	}
	for outcome, list := range verdicts {
		if slices.ContainsFunc(list, func(one error) bool { return errors.Is(err, one) }) {
			return outcome
		}
	}
	return driver.Unknown
}

// The library's errors are plain, and most of the server's have no name there. A refusal that is taken for trouble on the
// way would be sent again for ever, without a word; trouble that is taken for a refusal strands an entry.

// answer returns what an error of the library's is to a driver. Where the server has answered with an error for which the
// library has no name, that a quota is exceeded, say, it makes a text of its number; that is a refusal. A few of them say
// nothing of what was done: that of a system error, a lost connection, a timeout, and a throttled request.
func answer(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrNoNode):
		return driver.ErrGone
	case errors.Is(err, client.ErrBadVersion), errors.Is(err, client.ErrNodeExists):
		return driver.ErrConflict
	}
	code, ok := strings.CutPrefix(err.Error(), "unknown error: ")
	switch {
	case !ok || slices.Contains([]string{"-1", "-4", "-7", "-127"}, code):
		return err
	case code == fmt.Sprint(tooLong):
		return errTooLong
	default:
		return refusal("ZooKeeper answers with error %s", code)
	}
}
