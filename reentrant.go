package farsync

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/goroutine"
	"github.com/farsync/farsync/recipe"
)

// A ReentrantMutex is a Mutex that code may lock again while it holds, as often as it likes: Curator's
// InterProcessMutex, in one queue with it. Each Lock gives a lease of its own; the lock is free when the last of them
// is released.
//
// Lock enters again under a lease that is held, without a request:
//
//   - under the lease that its ctx stands for, in whatever goroutine. Such a ctx comes from Lease.Context or Lease.Do,
//     or is derived from such a context. The lease may come from another ReentrantMutex on the same path of the same
//     Store, so that a function may make a value for each call;
//   - else under a lease that the calling goroutine has got from the same ReentrantMutex and that is not released, as
//     Curator tells owners apart by thread.
//
// Lease.Do runs a function under the lease that Lock returns, with a context that enters again.
//
// All other calls wait, or are refused, as with Mutex. A goroutine that holds waits for itself if it locks through
// another ReentrantMutex on the path, with a ctx that does not stand for its lease.
//
// Goroutines that have entered under one lease are not kept apart from one another. Leases may be released in any
// order, and by any goroutine: a release counts for the goroutine that got the lease. A goroutine whose leases are
// all released is outside, also while others are inside: it enters no more but by their context.
type ReentrantMutex struct {
	store   *Store
	path    string
	request recipe.Request

	mu  sync.Mutex
	got map[uint64][]*recipe.Hold // by goroutine, oldest first: of its leases that are not released
}

// NewReentrantMutex returns a reentrant mutex on path, with the same rules for the arguments as NewMutex.
func NewReentrantMutex(store *Store, path string) *ReentrantMutex {
	check("NewReentrantMutex", store)
	return &ReentrantMutex{store: store, path: path, request: exclusive(path), got: map[uint64][]*recipe.Hold{}}
}

// Lock enters again, or waits until the mutex is held, and returns a lease on it.
//
// A lease that has ended is not entered. The contexts that stand for it are done then: a Lock with one of them fails
// with ctx.Err(), and wraps ErrReleased, ErrLost or ErrClosed as the cause. A context may outlive its lease, by
// context.WithoutCancel. If the lease was released, a Lock with that context is like any other. If the lease was lost
// and is not released yet, Lock fails with ErrLost, and so does a Lock of the goroutine that has got it: the work under
// the lease may still go on. All else is as with Mutex.Lock.
func (m *ReentrantMutex) Lock(ctx context.Context) (*Lease, error) {
	lease, err := m.lease(ctx, m.request)
	return lease, wrap("lock", m.path, err)
}

// TryLock is Lock without waiting for others, as with Mutex.TryLock.
func (m *ReentrantMutex) TryLock(ctx context.Context) (*Lease, error) {
	lease, err := m.lease(ctx, *trying(m.request))
	return lease, wrap("try lock", m.path, err)
}

// lease enters again, or acquires if there is nothing to enter.
func (m *ReentrantMutex) lease(ctx context.Context, r recipe.Request) (*Lease, error) {
	built(m.store, "NewReentrantMutex")
	caller, ok := goroutine.Number()
	if !ok { // without it a second Lock would wait for the first in silence
		panic("farsync: the runtime does not tell the goroutine's number; use a Mutex")
	}
	if ctx.Err() == nil { // else it is for Acquire to say so
		for hold := range m.within(ctx, caller) {
			again, err := enter(hold)
			if errors.Is(err, ErrReleased) {
				continue // its turn is over: it was released in this moment
			}
			if err != nil {
				return nil, err
			}
			return m.made(caller, again)
		}
	}
	if m.waitsForItself(ctx) {
		return nil, errOneself
	}
	hold, err := recipe.Acquire(ctx, m.store.below, &r)
	if err != nil {
		return nil, err
	}
	return m.made(caller, hold)
}

// within yields what the caller may be inside of: leases that its ctx stands for, and then the leases of its goroutine.
// No lease that it yields was released when it was found.
//
// A ctx comes first, for it says under which lease the work is. A lease that was released is left out though others may
// still hold its turn: what its holder did under it is over, and the others are to be found by contexts of their own.
func (m *ReentrantMutex) within(ctx context.Context, caller uint64) iter.Seq[*recipe.Hold] {
	return func(yield func(*recipe.Hold) bool) {
		for held := range standings(ctx, m.store, m.path) {
			if lease, ok := reentrant(held); ok && !lease.left.Load() && !yield(lease.hold) {
				return
			}
		}
		m.mu.Lock()
		got := slices.Clone(m.got[caller])
		m.mu.Unlock()
		for _, hold := range slices.Backward(got) {
			if !yield(hold) {
				return
			}
		}
	}
}

// reentrant returns a lease of a ReentrantMutex.
func reentrant(s standing) (*Lease, bool) {
	lease, ok := s.(*Lease)
	return lease, ok && lease.leave != nil
}

// enter returns another hold on the turn of one, by the clock. It fails with ErrReleased if the turn is over: a
// release of the last hold comes wholly before or wholly after it.
func enter(hold *recipe.Hold) (*recipe.Hold, error) {
	if err := hold.Err(); err != nil && !errors.Is(err, ErrReleased) {
		return nil, err
	}
	return hold.Again()
}

// waitsForItself reports whether the call would wait for a lease that its ctx stands for. A lease of a ReentrantMutex
// is none: a lease that could not be entered is over, or about to be.
func (m *ReentrantMutex) waitsForItself(ctx context.Context) bool {
	for held := range standings(ctx, m.store, m.path) {
		if _, ok := reentrant(held); !ok && held.held() == driver.Exclusive && held.Err() == nil {
			return true
		}
	}
	return false
}

// made makes a lease of a hold, for the goroutine that has got it.
func (m *ReentrantMutex) made(caller uint64, hold *recipe.Hold) (*Lease, error) {
	lease, err := newLease(m.store, m.path, driver.Exclusive, hold)
	if err != nil {
		return nil, err
	}
	lease.leave = func() { m.leave(caller, hold) }
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got[caller] = append(m.got[caller], hold)
	return lease, nil
}

// leave takes a hold from its goroutine, before it is released: a goroutine that locks again after the last waits for
// that release like any other.
func (m *ReentrantMutex) leave(caller uint64, hold *recipe.Hold) {
	m.mu.Lock()
	defer m.mu.Unlock()
	got := m.got[caller]
	i := slices.Index(got, hold)
	if got = slices.Delete(got, i, i+1); len(got) > 0 {
		m.got[caller] = got
	} else {
		delete(m.got, caller)
	}
}
