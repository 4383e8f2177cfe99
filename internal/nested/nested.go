// Package nested has contexts stand for leases, so that a call that waits can tell what its caller holds meanwhile.
package nested

import (
	"context"
	"iter"
)

type key struct{}

// A Lease is what a context stands for.
type Lease interface {
	// Err is nil while it is held.
	Err() error
}

// Elsewhere is a lease that another process holds, and keeps until the call has ended. Store is the *recipe.Store that the call
// is made on, and Entry the ID of the entry that stands for the lease there.
type Elsewhere struct {
	Store any
	Entry string
}

// Err is nil: the other process keeps it.
func (Elsewhere) Err() error { return nil }

type under struct {
	lease Lease
	outer *under
}

// Under returns a context that stands for the lease, beside those that ctx stands for.
func Under(ctx context.Context, lease Lease) context.Context {
	outer, _ := ctx.Value(key{}).(*under)
	return context.WithValue(ctx, key{}, &under{lease, outer})
}

// All yields the leases that ctx stands for, held or not, the innermost first.
func All(ctx context.Context) iter.Seq[Lease] {
	return func(yield func(Lease) bool) {
		over, _ := ctx.Value(key{}).(*under)
		for ; over != nil; over = over.outer {
			if !yield(over.lease) {
				return
			}
		}
	}
}

// Is reports whether ctx stands for a lease that is held.
func Is(ctx context.Context) bool {
	for lease := range All(ctx) {
		if lease.Err() == nil {
			return true
		}
	}
	return false
}
