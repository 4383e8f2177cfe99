package etcd

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/farsync/farsync/recipe"
)

var (
	errClientClosed = fmt.Errorf("%w: the etcd client was closed", recipe.ErrClosed)
	errUndeclared   = errors.New("the queue has no size")
	errExpired      = errors.New("the server does not know the session's lease: it expired or was revoked")
)

// refused reports whether err is the service's definite no: the request was not carried out, and would not be if it
// were sent again. Of all other errors nobody knows whether it was.
func refused(err error) bool {
	if _, ok := errors.AsType[leaselessError](err); ok {
		return true
	}
	if errors.Is(err, rpctypes.ErrTooManyRequests) ||
		errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) {
		return false // these pass
	}
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.ResourceExhausted:
		return true
	default:
		return false
	}
}

func code(err error) codes.Code {
	if typed, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return typed.Code()
	}
	return status.Code(err)
}

// A leaselessError is that of a queue which is blocked by a key that nothing will ever remove. It holds the key.
type leaselessError string

func (key leaselessError) Error() string {
	return fmt.Sprintf("key %q has no lease: it would block the queue for ever; delete it if nobody needs it", string(key))
}

// A notSizeError is that of a key in the place of a queue's size. It holds the key.
type notSizeError string

func (key notSizeError) Error() string {
	return fmt.Sprintf("key %q is in the place of a semaphore's size, and is none", string(key))
}
