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

// locker is a sync.Locker over something that is locked with a context.
type locker struct {
	ctx     context.Context // the locker's whole life, given for it: sync.Locker has no place for one per call
	path    string
	lock    func(context.Context) (*Lease, error)
	onError func(error)

	local chan struct{} // holds a value from Lock to Unlock; a channel, for the wait may be long
	lease atomic.Pointer[Lease]
}

func newLocker(
	ctx context.Context, path string, lock func(context.Context) (*Lease, error), onError func(error),
) sync.Locker {
	return &locker{ctx: ctx, path: path, lock: lock, onError: onError, local: make(chan struct{}, 1)}
}

func (l *locker) Lock() {
	select {
	case l.local <- struct{}{}:
	case <-l.ctx.Done():
		panic(wrap("lock", l.path, l.ctx.Err()))
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
			l.lease.Store(lease)
			return
		}
		if l.ctx.Err() != nil || l.onError == nil || lasts(err) {
			panic(err)
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

// lasts reports whether the next attempt of a Locker, with the same context on the same Store and path, must fail as well.
func lasts(err error) bool {
	for _, target := range []error{ErrClosed, ErrPath, ErrDeadlock} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

func (l *locker) Unlock() {
	lease := l.lease.Swap(nil)
	if lease == nil {
		panic("farsync: Unlock of unlocked Locker")
	}
	err := lease.Release()
	<-l.local
	switch {
	case err == nil:
	case l.onError != nil:
		l.onError(err)
	case errors.Is(err, ErrLost) || errors.Is(err, ErrClosed):
		panic(err)
	}
}
