package redis

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	client "github.com/redis/go-redis/v9"

	"github.com/farsync/farsync/driver"
)

var (
	errExpired = errors.New("the session is not in Redis any more: it ran out, or the server was restarted or replaced")
	errEnded   = errors.New("the session was closed or dropped")
	errCut     = errors.New("the connections of the session were dropped before the request was sent")
	errStray   = errors.New("its session is not in Redis: remove the entry if nothing needs it")
	errKind    = errors.New("only a write entry can be replaced by one of another kind, a read entry")
	errReplica = errors.New("the server is a replica: locks are taken at its master")
	errUnknown = errors.New("the server does not know the scripts although it was given them")
	errTorn    = errors.New("a part of a message was lost")
	errAnswer  = errors.New("an answer that is none of farsync's scripts: other versions of farsync may use the namespace")
)

// An outcomeError is an error of which more is known than it says itself.
type outcomeError struct {
	error
	outcome driver.Outcome
}

func (e outcomeError) Unwrap() error { return e.error }

// notDone is the error of an attempt that ended with ctx before anything was sent.
func notDone(ctx context.Context) error { return outcomeError{context.Cause(ctx), driver.NotDone} }

// What Redis answers before it has carried out anything of a script. Of a script that breaks in the middle nothing is
// known, so other answers are Unknown.
var (
	refusals = []string{"NOPERM", "NOAUTH", "WRONGPASS", "OOM", "MISCONF", "DENIED", "invalid password", "DB index"}
	tryAgain = []string{"LOADING", "READONLY", "NOREPLICAS", "BUSY", "MASTERDOWN", "max number of clients"}
)

// Outcome tells what was certainly not carried out. Whatever is not listed is Unknown.
func (s *service) Outcome(err error) driver.Outcome {
	is := func(target error) bool { return errors.Is(err, target) }
	begins := func(word string) bool { return client.HasErrorPrefix(err, word) }
	if told, ok := errors.AsType[outcomeError](err); ok {
		return told.outcome
	}
	dial, _ := errors.AsType[*net.OpError](err)
	switch {
	case is(errExpired), is(errEnded):
		return driver.Expired
	case is(driver.ErrGone), is(driver.ErrConflict), is(errStray), is(errKind), slices.ContainsFunc(refusals, begins):
		return driver.Refused
	case is(errUnknown), is(errReplica), is(errCut), is(client.ErrPoolTimeout), is(client.ErrPoolExhausted), slices.ContainsFunc(tryAgain, begins),
		dial != nil && dial.Op == "dial":
		return driver.NotDone
	case err != nil && strings.Contains(err.Error(), "x509: "):
		return driver.Refused
	default:
		return driver.Unknown
	}
}
