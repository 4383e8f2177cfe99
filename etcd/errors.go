package etcd

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/farsync/farsync/driver"
)

var (
	errEnded     = errors.New("the session has ended")
	errExpired   = errors.New("the server does not know the session's lease: it expired or was revoked")
	errSilent    = errors.New("the watch stream is silent")
	errWatchOver = errors.New("the watch ended")
)

// An outcomeError is an error of which more is known than it says itself.
type outcomeError struct {
	error
	outcome driver.Outcome
}

func (e outcomeError) Unwrap() error { return e.error }

// A leaselessError is that of a queue which is blocked by a key that nothing will ever remove. It holds the key.
type leaselessError string

func (key leaselessError) Error() string {
	return fmt.Sprintf("key %q has no lease: it would block the queue for ever; delete it if nothing needs it", string(key))
}

// notDone are the answers of a server that has not proposed the request, and of one that has not carried it out because
// of something that passes.
var notDone = []error{
	rpctypes.ErrNoLeader,         // the door: the request requires a leader
	rpctypes.ErrTooManyRequests,  // the queue of proposals is full
	rpctypes.ErrInvalidAuthToken, // looked at before the proposal
	rpctypes.ErrAuthOldRevision,  // looked at when it is carried out, before anything is
}

// Outcome tells what a server has answered from what it may still carry out. Whatever is not listed is Unknown.
func (s *service) Outcome(err error) driver.Outcome {
	is := func(target error) bool { return errors.Is(err, target) }
	if s.client.Ctx().Err() != nil {
		return driver.Closed
	}
	if is(errEnded) || is(errExpired) || is(rpctypes.ErrLeaseNotFound) {
		return driver.Expired
	}
	if told, ok := errors.AsType[outcomeError](err); ok {
		return told.outcome
	}
	if _, ok := errors.AsType[leaselessError](err); ok || is(driver.ErrGone) || is(driver.ErrConflict) || is(errors.ErrUnsupported) {
		return driver.Refused
	}
	if slices.ContainsFunc(notDone, is) {
		return driver.NotDone
	}
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.ResourceExhausted:
		return driver.Refused
	default:
		return driver.Unknown
	}
}

func code(err error) codes.Code {
	if typed, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return typed.Code()
	}
	return status.Code(err)
}
