package farsync

import (
	"context"
	"fmt"

	"github.com/farsync/farsync/driver"
)

// errOneself means that a call would wait for its own caller.
var errOneself = fmt.Errorf("%w by the lease that the context stands for: it would wait for itself", ErrLocked)

// An underKey is the key under which a context holds the leases it was made from.
type underKey struct {
	store *Store
	path  string
}

// An under is a lease whose Context made the context, and what that one's parent was under.
type under struct {
	lease *Lease
	outer *under
}

// stand returns a context that stands for the lease.
func stand(ctx context.Context, l *Lease) context.Context {
	key := underKey{l.store, l.path}
	outer, _ := ctx.Value(key).(*under)
	return context.WithValue(ctx, key, &under{l, outer})
}

// oneself returns an error if a lock of that kind would wait for a lease that ctx stands for, which is not released before
// the call returns: ErrUpgrade, or one that wraps ErrLocked. Units of a semaphore may be free beside those that are held.
// What is between two families is for the queue to tell.
func oneself(ctx context.Context, store *Store, path string, kind driver.Kind) error {
	over, _ := ctx.Value(underKey{store, path}).(*under)
	for ; over != nil; over = over.outer {
		held := driver.Kind(over.lease.kind.Load())
		switch {
		case over.lease.Err() != nil:
		case held == driver.Read && kind == driver.Write:
			return ErrUpgrade
		case held == driver.Write && kind == driver.Read, held == kind && kind != driver.Read && kind != driver.Permit:
			return errOneself
		}
	}
	return nil
}
