package farsync

import (
	"context"
	"errors"
	"slices"
)

// leased is what Do works under: a Lease, or a MultiLease.
type leased interface {
	Context(parent context.Context) (context.Context, context.CancelFunc)
	Err() error
	Release() error
	// lock is the path of the lock, for errors.
	lock() string
}

// do runs fn under a lease, and releases it.
func do[L leased](ctx context.Context, lease L, fn func(context.Context, L) error) (err error) {
	defer func() { // also if fn panics
		err = with(finish(lease), err)
	}()
	return work(ctx, "do", lease, fn)
}

// with returns the loss of a lease, or nil, beside what fn has returned under the lease. Where fn has returned the
// cause of its context, or a Guard's error, its error says already why the lease has ended, and the loss is not said
// again.
func with(lost, err error) error {
	switch cause := causeOf(lost); {
	case lost == nil:
		return err
	case err == nil, err == cause: //nolint:errorlint // no word of fn's own
		return lost
	case errors.Is(err, cause):
		return err
	default:
		return errors.Join(err, lost)
	}
}

// causeOf returns what the Err of a lease says, of the error of its release.
func causeOf(lost error) error {
	if call, ok := lost.(*Error); ok { //nolint:errorlint // made by finish
		return call.Err
	}
	return lost
}

// work runs fn under a lease, unless that has ended or ctx is done. A loss is for finish to tell.
func work[L leased](ctx context.Context, op string, lease L, fn func(context.Context, L) error) error {
	under, cancel := lease.Context(ctx)
	defer cancel()
	if under.Err() == nil {
		return fn(under, lease)
	}
	switch ended := lease.Err(); {
	case errors.Is(ended, ErrReleased):
		return wrap(op, lease.lock(), ended)
	case ended == nil:
		return wrap(op, lease.lock(), gaveUp(ctx))
	}
	return nil
}

// finish releases a lease, and returns why it was not held until now: it was lost, or its Store was closed. Nil: it was
// held, or was released before it could be lost. Whether the service has confirmed the release is no matter of what was
// done under the lease.
func finish(lease leased) error {
	err := lease.Release()
	if errors.Is(err, ErrReleased) { // by fn, which need not have looked at the answer
		err = wrap("hold", lease.lock(), lease.Err())
	}
	if isLoss(err) {
		return asHeld(err)
	}
	return nil
}

// isLoss reports whether a lease has ended otherwise than by a release.
func isLoss(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrClosed) }

// asHeld returns the error of a release as the error of the hold that it has ended: the caller of Do has called no
// Release, and looks for none in a log. Of joined errors of members it leaves out those whose cause another has told: a
// session that has ended takes all of its leases along.
func asHeld(err error) error {
	parts := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		parts = joined.Unwrap()
	}
	var causes, told []error
	for _, part := range parts {
		cause := causeOf(part)
		if slices.Contains(causes, cause) {
			continue
		}
		if call, ok := part.(*Error); ok { //nolint:errorlint // of this release, and not of a call below it
			part = wrap("hold", call.Path, cause)
		}
		causes, told = append(causes, cause), append(told, part)
	}
	if len(told) == 1 {
		return told[0]
	}
	return errors.Join(told...)
}
