package farsync

import (
	"context"
	"errors"
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
		if lost := finish(lease); lost != nil {
			err = errors.Join(err, lost)
		}
	}()
	return work(ctx, "do", lease, fn)
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
		err = wrap("release", lease.lock(), lease.Err())
	}
	if errors.Is(err, ErrLost) || errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}
