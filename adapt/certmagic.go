package adapt

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/farsync/farsync"
)

// A CertMagic locks for certmagic, as its Locker and its TryLocker: of all processes that use the same path, one at a
// time obtains or renews a certificate. Give it to certmagic as part of a Storage.
//
// All methods may be called by many goroutines at once.
type CertMagic struct {
	store *farsync.Store
	path  string

	mu   sync.Mutex
	held map[string][]*farsync.Lease // the oldest first: several, where all but the last were lost and are not unlocked yet
}

// NewCertMagic returns a CertMagic whose locks are below path, as farsync.PathOf names them, with the same rules for
// the arguments as farsync.NewMutex.
func NewCertMagic(store *farsync.Store, path string) *CertMagic {
	_ = farsync.NewMutex(store, path) // panics where it must
	return &CertMagic{store: store, path: path, held: map[string][]*farsync.Lease{}}
}

// Lock waits until the named lock is held, or ctx is done. It returns the errors of farsync's Mutex.Lock.
func (c *CertMagic) Lock(ctx context.Context, name string) error {
	lease, err := farsync.NewMutex(c.store, farsync.PathOf(c.path, name)).Lock(ctx)
	return c.keep(name, lease, err)
}

// TryLock locks if the named lock is free, and reports whether it did.
func (c *CertMagic) TryLock(ctx context.Context, name string) (bool, error) {
	lease, err := farsync.NewMutex(c.store, farsync.PathOf(c.path, name)).TryLock(ctx)
	if errors.Is(err, farsync.ErrLocked) {
		return false, nil
	}
	err = c.keep(name, lease, err)
	return err == nil, err
}

func (c *CertMagic) keep(name string, lease *farsync.Lease, err error) error {
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[name] = append(c.held[name], lease)
	return nil
}

// Unlock releases the named lock. It needs no ctx, and takes one because certmagic gives it. ErrLost: it was lost
// before, and another client may have held it meanwhile. farsync's other errors of Lease.Release are possible too.
//
// Who unlocks is not known. If the lock was lost, and another goroutine of this process has locked it since, the first
// of them that unlocks gets ErrLost, and the lock is given back when both have.
func (c *CertMagic) Unlock(_ context.Context, name string) error {
	c.mu.Lock()
	var lease *farsync.Lease
	if of := c.held[name]; len(of) > 0 {
		lease = of[0]
		c.held[name] = of[1:]
	}
	if len(c.held[name]) == 0 {
		delete(c.held, name)
	}
	c.mu.Unlock()
	if lease == nil {
		return fmt.Errorf("farsync: unlock %q: %w", name, farsync.ErrReleased)
	}
	return lease.Release()
}
