package farsync

import (
	"context"
	"fmt"
	"iter"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/nested"
	"github.com/farsync/farsync/recipe"
)

// errOneself means that a call would wait for its own caller.
var errOneself = fmt.Errorf("%w: the lock is held by the lease that the context stands for", ErrDeadlock)

// errBehind means that a reader would wait for a writer that waits for the lease of its own caller.
var errBehind = fmt.Errorf("%w: a writer waits for the lease that the context stands for", ErrDeadlock)

// A standing is a lease as far as a context stands for it.
type standing interface {
	nested.Lease
	// held returns the kind of the lease, while Err is nil.
	held() driver.Kind
	// on returns what is held on that path of the store, nil if nothing is.
	on(store *Store, path string) *recipe.Hold
}

// An under is a lease whose Context made the context, and the lock that it is on.
type under struct {
	standing
	store *Store
	path  string
}

// Hold is what package recipe asks for, to have waiters say what they hold meanwhile.
func (u under) Hold() *recipe.Hold { return u.on(u.store, u.path) }

// stand returns a context that stands for a lease on a lock.
func stand(ctx context.Context, store *Store, path string, l standing) context.Context {
	return nested.Under(ctx, under{l, store, path})
}

// oneself returns an error if a lock of that kind would wait for a lease that ctx stands for, which is not released
// before the call returns: ErrUpgrade, or another that wraps ErrDeadlock. Units of a semaphore may be free beside the
// units that are held. A call of another family is for the queue to refuse.
func oneself(ctx context.Context, store *Store, path string, kind driver.Kind) error {
	for held := range stoodFor(ctx, store, path) {
		switch {
		case held == driver.Read && kind == driver.Write:
			return ErrUpgrade
		case held == driver.Write && kind == driver.Read, held == kind && kind != driver.Read && kind != driver.Permit:
			return errOneself
		}
	}
	return nil
}

// reads reports whether ctx stands for a lease for reading on that lock.
func reads(ctx context.Context, store *Store, path string) bool {
	for held := range stoodFor(ctx, store, path) {
		if held == driver.Read {
			return true
		}
	}
	return false
}

// stoodFor yields what the leases are for that ctx stands for on a lock, and that are held.
func stoodFor(ctx context.Context, store *Store, path string) iter.Seq[driver.Kind] {
	return func(yield func(driver.Kind) bool) {
		for lease := range standings(ctx, store, path) {
			if lease.Err() == nil && !yield(lease.held()) {
				return
			}
		}
	}
}

// standings yields the leases on a lock that ctx stands for, held or not, the innermost first.
func standings(ctx context.Context, store *Store, path string) iter.Seq[standing] {
	return func(yield func(standing) bool) {
		for lease := range nested.All(ctx) {
			over, ok := lease.(under)
			if ok && over.store == store && over.path == path && !yield(over.standing) {
				return
			}
		}
	}
}
