package farsync

import (
	"context"
	"errors"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// An RWMutex is a reader/writer mutual exclusion lock across processes: it is held by any number of readers or by one
// writer. Curator calls it InterProcessReadWriteLock, and takes part in the same queue.
//
// It is fair to both sides: a reader waits for the writers who came before, a writer for all who came before, with one
// exception. The readers of one Store on one path share one place in the queue, whichever values they use: the first
// reader, up to 255 more who wait with the first, and those who come within 50 ms after that. These may pass a writer
// who came in between. Writers take turns as with Mutex.
//
// Lock and RLock return a lease, and Lease.Do runs a function under it. There is no Do of the RWMutex, whose name would
// not say whether it reads or writes.
//
// A reader cannot become a writer: it would wait for itself, and two of them for each other. A writer can become a
// reader: see Downgrade.
//
// All methods may be called by many goroutines at once.
type RWMutex struct {
	store  *Store
	path   string
	writer recipe.Request
	reader recipe.Request
}

// NewRWMutex returns a reader/writer mutex on path, with the same rules for the arguments as NewMutex.
func NewRWMutex(store *Store, path string) *RWMutex {
	check("NewRWMutex", store)
	return &RWMutex{
		store: store, path: path,
		writer: recipe.Request{Queue: path, Kind: driver.Write, Units: 1, Line: true},
		reader: recipe.Request{Queue: path, Kind: driver.Read, Units: 1, Line: true},
	}
}

// Lock waits until the lock is held for writing, as Mutex.Lock does. ErrUpgrade, at once: ctx was made by the Context
// of a lease for reading on this lock that is still held.
func (rw *RWMutex) Lock(ctx context.Context) (*Lease, error) {
	return acquire(ctx, "lock", built(rw.store, "NewRWMutex"), &rw.writer)
}

// TryLock is Lock without waiting for others, as Mutex.TryLock is.
func (rw *RWMutex) TryLock(ctx context.Context) (*Lease, error) {
	return acquire(ctx, "try lock", built(rw.store, "NewRWMutex"), trying(rw.writer))
}

// RLock waits until the lock is held for reading. The errors, and the state after an error, are the same as for
// Mutex.Lock. ErrDeadlock, at once: ctx was made by the Context of a lease for reading on this lock that is still held,
// and for which a writer waits: the writer would wait for that lease, and RLock for the writer.
func (rw *RWMutex) RLock(ctx context.Context) (*Lease, error) {
	if !reads(ctx, built(rw.store, "NewRWMutex"), rw.path) {
		return acquire(ctx, "read lock", rw.store, &rw.reader)
	}
	lease, err := acquire(ctx, "read lock", rw.store, trying(rw.reader)) // nobody is ahead of it but for readers, and who waits for them
	switch {
	case errors.Is(err, ErrLocked):
		tried, _ := errors.AsType[*Error](err)
		err = &Error{Op: "read lock", Path: rw.path, Err: errBehind, Holder: tried.Holder}
	case isSilence(err), recipe.IsStuck(err):
		// The lease of its ctx is lost, and nobody waits for that; or the writer who stands in the way has given up.
		return acquire(ctx, "read lock", rw.store, &rw.reader)
	}
	return lease, err
}

// TryRLock is RLock without waiting for others: ErrLocked if a writer holds or waits. Where RLock would share the place
// of another goroutine's lease, past a writer that waits, TryRLock does so too.
func (rw *RWMutex) TryRLock(ctx context.Context) (*Lease, error) {
	return acquire(ctx, "try read lock", built(rw.store, "NewRWMutex"), trying(rw.reader))
}

var errNotWriter = errors.New("not a lease of this lock")

// Downgrade turns a lease for writing into one for reading, without a moment in between in which another client could
// write: it keeps the lease's place in the queue, and its token. Readers that wait right behind it come in at once.
//
// On error the lease is as it was, and Downgrade may be called again. There is one exception: when ctx ends, or the
// lease does, before the service has answered, readers may be in or not. Then the lease is lost. A lease that is for
// reading already stays so.
func (rw *RWMutex) Downgrade(ctx context.Context, lease *Lease) error {
	if lease == nil || lease.store != built(rw.store, "NewRWMutex") || lease.path != rw.path || !lease.is(driver.Write) && !lease.is(driver.Read) {
		return wrap("downgrade", rw.path, errNotWriter)
	}
	err := lease.hold.Change(ctx, driver.Read, nil)
	if err == nil {
		lease.kind.Store(uint32(driver.Read))
	}
	return wrap("downgrade", rw.path, err)
}

// Locker returns the lock for writing as a sync.Locker, as Mutex.Locker does.
func (rw *RWMutex) Locker(ctx context.Context, onError func(error)) *Locker {
	return newLocker(ctx, rw.path, rw.Lock, onError)
}

// RLocker returns the lock for reading as a sync.Locker. Like every Locker it is one hold at a time: each of the
// readers of a process needs one of its own.
func (rw *RWMutex) RLocker(ctx context.Context, onError func(error)) *Locker {
	return newLocker(ctx, rw.path, rw.RLock, onError)
}
