package farsync

import "github.com/farsync/farsync/driver"

// Guarded is what the Guard of a store's package takes: a *Lease, or a *MultiLease with its members on one store.
type Guarded interface {
	// GuardEntries returns what stands for the lease in the store while it is held. Otherwise the error is an *Error
	// that has the path of the lock, and wraps what Err of the lease says.
	GuardEntries() ([]driver.Entry, error)
}
