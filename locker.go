package farsync

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// A Locker tries again after lockerFirst, then twice as long each time, up to lockerMost.
	lockerFirst = 10 * time.Millisecond
	lockerMost  = time.Second
)

// A Locker is a sync.Locker over a lock of other processes: see Mutex.Locker.
type Locker struct {
	ctx     context.Context // the locker's whole life, given for it: sync.Locker has no place for one per call
	path    string
	lock    func(context.Context) (*Lease, error)
	onError func(error)

	local chan struct{} // holds a value from Lock to Unlock; a channel, for the wait may be long
	held  atomic.Pointer[holding]
}

var _ sync.Locker = (*Locker)(nil)

// A holding is what a Locker has from Lock to Unlock.
type holding struct {
	lease *Lease
	told  chan struct{} // closed when a loss was told
	stop  func() bool   // has a loss not told, and reports false if it was told, or is about to be; nil without onError
}

func newLocker(
	ctx context.Context, path string, lock func(context.Context) (*Lease, error), onError func(error),
) *Locker {
	return &Locker{ctx: ctx, path: path, lock: lock, onError: onError, local: make(chan struct{}, 1)}
}

// Lock waits until the lock is held: see Mutex.Locker.
func (l *Locker) Lock() {
	mustBeMade(l.lock != nil, "Mutex.Locker")
	select {
	case l.local <- struct{}{}:
	case <-l.ctx.Done():
		l.fail(wrap("lock", l.path, l.ctx.Err()))
	}
	held := false
	defer func() {
		if !held { // it panics, or onError has
			<-l.local
		}
	}()
	for delay := lockerFirst; ; delay = min(2*delay, lockerMost) {
		lease, err := l.lock(l.ctx)
		if err == nil {
			held = true
			l.hold(lease)
			return
		}
		if l.ctx.Err() != nil || l.onError == nil || lasts(err) {
			l.fail(err)
		}
		l.onError(err)
		again := time.NewTimer(delay)
		select {
		case <-again.C:
		case <-l.ctx.Done():
			again.Stop()
		}
	}
}

// fail tells of an error that cannot pass, and panics with it.
func (l *Locker) fail(err error) {
	if l.onError != nil {
		l.onError(err)
	}
	panic(err)
}

// hold has the loss of a lease told when it comes, not at Unlock only: another client may hold by then. It is told by a
// goroutine that the loss starts, and that Unlock joins. A loss beside an Unlock is told once: either stop reports that
// this goroutine will not run, and Unlock tells what Release returns, or Unlock waits until the goroutine has told it.
func (l *Locker) hold(lease *Lease) {
	h := &holding{lease: lease, told: make(chan struct{})}
	l.held.Store(h) // first, for onError may ask for Lease
	if l.onError == nil {
		return
	}
	hold, told, onError, path := lease.hold, h.told, l.onError, l.path // not the lease: see there
	h.stop = context.AfterFunc(hold.Life(), func() {
		defer close(told)
		if err := hold.Err(); isLoss(err) { // else it was released, by a user of Lease
			onError(wrap("hold", path, err))
		}
	})
}

// lasts reports whether the next attempt of a Locker, with the same context on the same Store and path, must fail as
// well.
func lasts(err error) bool {
	for _, target := range []error{ErrClosed, ErrPath, ErrDeadlock} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// Lease returns the lease that the Locker holds, for its Token, its Context or a Guard. It returns nil if the Locker is
// not locked, and from when Unlock has begun. Unlock releases the lease.
func (l *Locker) Lease() *Lease {
	if h := l.held.Load(); h != nil {
		return h.lease
	}
	return nil
}

// Unlock releases the lock: see Mutex.Locker.
func (l *Locker) Unlock() {
	h := l.held.Swap(nil)
	if h == nil {
		panic("farsync: Unlock of unlocked Locker")
	}
	told := h.stop != nil && !h.stop()
	if told {
		<-h.told
	}
	err := h.lease.Release()
	<-l.local
	switch {
	case err == nil, told && isLoss(err):
	case l.onError != nil:
		l.onError(err)
	case isLoss(err):
		panic(err)
	}
}
