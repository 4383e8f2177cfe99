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
	errRepeated  = errors.New("it was sent before, and not answered")
	errSilent    = errors.New("the watch stream is silent")
	errWatchOver = errors.New("the watch ended")
)

// An outcomeError is an error of which more is known than it says itself.
type outcomeError struct {
	error
	outcome driver.Outcome
}

func (e outcomeError) Unwrap() error { return e.error }

// leaseless refuses a queue that is blocked by a key that nothing will ever remove.
func leaseless(key []byte) error {
	return outcomeError{
		fmt.Errorf("key %q has no lease: it would block the queue for ever; delete it if nothing needs it", key),
		driver.Refused,
	}
}

// The errors that tell by themselves what became of an attempt. An error of the connection tells nothing: the request may have
// been sent, and a member that has taken it may still propose it. Neither does ErrTimeout, nor ErrLeaderChanged: the request
// was proposed, and may be committed by the next leader.
var (
	expired = []error{errEnded, errExpired, rpctypes.ErrLeaseNotFound}
	// refused are the driver's own answers, which it gives to a comparison that is false.
	refused = []error{driver.ErrGone, driver.ErrConflict, errors.ErrUnsupported}
	// notDone are the answers of a server that has not proposed the request, and of one that has not carried it out because
	// of something that passes.
	notDone = []error{
		rpctypes.ErrNoLeader,         // the door: the request requires a leader
		rpctypes.ErrTooManyRequests,  // the queue of proposals is full
		rpctypes.ErrInvalidAuthToken, // looked at before the proposal
		rpctypes.ErrAuthOldRevision,  // looked at when it is carried out, before anything is
	}
	// refusals are the codes of a definite no of the server, or of a gateway or proxy before it that has not let the request
	// pass. Of ResourceExhausted there is one case that commit looks at: the quota.
	refusals = []codes.Code{
		codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.ResourceExhausted,
	}
)

// Outcome tells what a server has answered from what it may still carry out. Whatever is not listed is Unknown. A closed
// client comes first, for every error then stems from it. The end of the session comes before what is known of the attempt,
// whose entry goes with the session.
func (s *service) Outcome(err error) driver.Outcome {
	is := func(target error) bool { return errors.Is(err, target) }
	told, known := errors.AsType[outcomeError](err)
	code := status.Code(err)
	if typed, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = typed.Code()
	}
	switch {
	case s.client.Ctx().Err() != nil:
		return driver.Closed
	case slices.ContainsFunc(expired, is):
		return driver.Expired
	case known:
		return told.outcome
	case slices.ContainsFunc(notDone, is):
		return driver.NotDone
	case slices.ContainsFunc(refused, is), slices.Contains(refusals, code):
		return driver.Refused
	default:
		return driver.Unknown
	}
}
