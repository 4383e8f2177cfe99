package farsync

import (
	"context"
	"fmt"
	"sync"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/goroutine"
	"github.com/farsync/farsync/recipe"
)

// A ReentrantMutex is a Mutex that its owner may lock again while it holds, as often as it likes: Curator's
// InterProcessMutex, in one queue with it. Each Lock gives a lease; the lock is free when the last of them is released.
//
// The owner is the goroutine that calls Lock, or the owner that the context names: see WithOwner. Which goroutine it is, is
// asked in Lock and TryLock only. A lease may be released by any goroutine, and counts down for the owner that got it.
// Leases may be released in any order.
//
// An owner enters again only through one ReentrantMutex value. Through another on the same path it would wait for itself.
// Ownership does not travel through Lease.Context: a Lock with it, in another goroutine, would wait for the lease that
// the context ends with, and fails like Mutex.Lock.
type ReentrantMutex struct {
	store   *Store
	path    string
	request recipe.Request

	mu     sync.Mutex
	owners map[owner]*ownership
}

// An owner is a goroutine's number, or the value that WithOwner has made.
type owner any

// An ownership is what an owner holds, or is about to. There is one as long as a lease of the owner is not released.
type ownership struct {
	hold   *recipe.Hold  // nil while it is being acquired
	known  chan struct{} // closed when it is known what became of that
	leases int
}

// NewReentrantMutex returns a reentrant mutex on path, with the same rules for the arguments as NewMutex.
func NewReentrantMutex(store *Store, path string) *ReentrantMutex {
	check("NewReentrantMutex", store)
	return &ReentrantMutex{
		store: store, path: path, request: exclusive(path), owners: map[owner]*ownership{},
	}
}

// Lock waits until the caller's owner holds the mutex, and returns a lease on it. If the owner holds it already, that
// costs no traffic. If what the owner holds is lost, the error wraps ErrLost, until the owner has released all leases
// on it. All else is as with Mutex.Lock.
func (m *ReentrantMutex) Lock(ctx context.Context) (*Lease, error) {
	lease, err := m.lease(ctx, m.request)
	return lease, wrap("lock", m.path, err)
}

// TryLock is Lock without waiting for others, as with Mutex.TryLock.
func (m *ReentrantMutex) TryLock(ctx context.Context) (*Lease, error) {
	lease, err := m.lease(ctx, *trying(m.request))
	return lease, wrap("try lock", m.path, err)
}

// lease enters again for an owner that holds, and acquires for one that does not. Of several goroutines that are one owner,
// the first acquires for all: two of them in the queue would wait for each other.
func (m *ReentrantMutex) lease(ctx context.Context, r recipe.Request) (*Lease, error) {
	built(m.store, "NewReentrantMutex")
	if ctx.Err() != nil {
		return nil, m.gaveUp(ctx)
	}
	caller := ownerOf(ctx)
	for {
		m.mu.Lock()
		o := m.owners[caller]
		switch {
		case o == nil:
			o = &ownership{known: make(chan struct{})}
			m.owners[caller] = o
			m.mu.Unlock()
			return m.first(ctx, caller, o, r)
		case o.hold != nil:
			hold, err := o.hold.Again()
			if err == nil {
				o.leases++
			}
			m.mu.Unlock()
			if err != nil {
				return nil, err
			}
			return m.made(caller, o, hold)
		}
		m.mu.Unlock()
		if r.Try {
			return nil, m.taken(ctx)
		}
		select {
		case <-o.known:
		case <-ctx.Done():
			return nil, m.gaveUp(ctx)
		}
	}
}

// taken is the error of a Try beside another goroutine of its owner, which is about to hold. That one waits for others
// only if the service answers, and grants: so the service is asked.
func (m *ReentrantMutex) taken(ctx context.Context) error {
	if _, _, err := (recipe.Queue{Store: m.store.below, Path: m.path}).List(ctx, 1); err != nil {
		return err
	}
	if quiet := recipe.SilenceOf(m.store.below); quiet != nil {
		return quiet
	}
	return ErrLocked
}

// gaveUp is the error of a ctx that has ended before the owner held.
func (m *ReentrantMutex) gaveUp(ctx context.Context) error {
	if quiet := recipe.SilenceOf(m.store.below); quiet != nil {
		return fmt.Errorf("%w: %w", gaveUp(ctx), quiet)
	}
	if state := m.store.State(); state != Connected && state != Recovering {
		return unavailable(ctx, "")
	}
	return gaveUp(ctx)
}

// first acquires for an owner that holds nothing.
func (m *ReentrantMutex) first(ctx context.Context, caller owner, o *ownership, r recipe.Request) (*Lease, error) {
	err := oneself(ctx, m.store, m.path, driver.Exclusive)
	var hold *recipe.Hold
	if err == nil {
		hold, err = recipe.Acquire(ctx, m.store.below, r)
	}
	m.mu.Lock()
	if err != nil {
		delete(m.owners, caller)
	} else {
		o.hold, o.leases = hold, 1
	}
	close(o.known)
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return m.made(caller, o, hold)
}

func (m *ReentrantMutex) made(caller owner, o *ownership, hold *recipe.Hold) (*Lease, error) {
	lease, err := newLease(m.store, m.path, driver.Exclusive, hold)
	if err != nil {
		m.leave(caller, o)
		return nil, err
	}
	lease.leave = func() { m.leave(caller, o) }
	return lease, nil
}

// leave counts a lease out, before it is released: an owner that locks again after the last waits for that release like
// any other. While any is left, o.hold can be entered again, also if it was released itself: what it stands for is
// the turn.
func (m *ReentrantMutex) leave(caller owner, o *ownership) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.leases--; o.leases == 0 {
		delete(m.owners, caller)
	}
}

// Participants is as with Mutex.
func (m *ReentrantMutex) Participants(ctx context.Context) ([]Participant, error) {
	list, err := participants(ctx, built(m.store, "NewReentrantMutex"), m.path)
	return list, wrap("participants", m.path, err)
}

// ownerKey is the key of a context's owner.
type ownerKey struct{}

// WithOwner returns a context that stands for a new owner. A Lock of a ReentrantMutex with that context, or with one
// derived from it, counts for that owner in whatever goroutine it is called. Use it for one task that runs in several
// goroutines. The mutex does not keep these goroutines apart.
func WithOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, new(byte))
}

// ownerOf returns the context's owner, or the calling goroutine.
func ownerOf(ctx context.Context) owner {
	if named := ctx.Value(ownerKey{}); named != nil {
		return named
	}
	n, ok := goroutine.Number()
	if !ok {
		panic("farsync: the runtime does not tell the goroutine's number; use WithOwner")
	}
	return n
}

// Ask is as with Mutex.
func (m *ReentrantMutex) Ask(ctx context.Context) error {
	return wrap("ask", m.path, ask(ctx, built(m.store, "NewReentrantMutex"), m.path))
}
