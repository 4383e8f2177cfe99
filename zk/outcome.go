package zk

import (
	"errors"
	"fmt"
	"slices"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/legible"
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
	// errCounter refuses an entry whose place in its queue cannot be told. See placed.
	errCounter = refusal("the counter of the queue's node is exhausted: ZooKeeper has numbered 2^31 entries below it, and gives all others one" +
		" number. Let the queue drain: the server removes its node, if it is a container, and counting begins at 0." +
		" If it is none, delete it while no client uses it")
	// errTooLong refuses a read.
	errTooLong = refusal("the answer is longer than 16 MiB")
)

// stray refuses a queue which is blocked by a node that no session will ever remove.
func stray(path string) error {
	return refusal("node %s is not ephemeral: it would block the queue for ever; delete it if it is not needed", legible.Quote(path))
}

// notDone returns the error of a step that goes before the step that counts. An unknown outcome of it does not matter.
func notDone(err error) error {
	if err != nil && outcome(err) == driver.Unknown {
		return attemptError{err, driver.NotDone}
	}
	return err
}

// The errors that tell by themselves what became of an attempt. All others say nothing: the connection was lost, the
// server was shutting down, or the session had moved to another server meanwhile.
var verdicts = map[driver.Outcome][]error{
	driver.Expired: {errExpired, errShortened, errSecondSession, errEnded},
	driver.Refused: {
		driver.ErrGone, driver.ErrConflict, driver.ErrKind, errors.ErrUnsupported, client.ErrNoAuth,
		client.ErrNoChildrenForEphemerals, client.ErrInvalidACL, client.ErrAuthFailed,
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

const (
	errNoNode = -101
	errExpiry = -112
	// tooLong is the error that stands for an answer above maxFrame. No server has such an error.
	tooLong = 0x7fffffff
)

// codes are the errors of the server that have a name, or say nothing of what was done: of a system error, a lost
// connection, a timeout, a server or a session that ends there, and a throttled request. Trouble that is taken for a
// refusal strands an entry.
var codes = map[int32]error{
	0: nil, errNoNode: driver.ErrGone, errExpiry: errExpired, tooLong: errTooLong,
	-103: driver.ErrConflict, -110: driver.ErrConflict, // another version, and a node that is there
	-102: client.ErrNoAuth, -108: client.ErrNoChildrenForEphemerals, -114: client.ErrInvalidACL, -115: client.ErrAuthFailed,
	-1: client.ErrUnknown, -4: client.ErrConnectionClosed, -7: errors.New("the server's own request has timed out"),
	-116: client.ErrClosing, -117: client.ErrNothing, -118: client.ErrSessionMoved, -127: errors.New("the server has too many requests"),
}

// answer returns what an error of the server's is to a driver. All others are refusals, that a quota is exceeded, say.
// A refusal that is taken for trouble on the way would be sent again for ever, without a word.
func answer(code int32) error {
	err, known := codes[code]
	if !known {
		return refusal("ZooKeeper answers with error %d", code)
	}
	return err
}
