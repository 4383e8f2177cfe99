package adapt

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync"
)

// A GocronLocker locks for gocron, as its Locker: of the replicas that start a job at the same time, one runs it. L is
// gocron.Lock.
//
// gocron releases a job's lock when the job ends. Replicas never start at quite the same time, so of a job that is
// shorter than their clocks are apart, each would find the lock free and run it. A GocronLocker therefore keeps the
// lock for a time at least, counted from when it was held, whenever the job ends.
type GocronLocker[L any] struct {
	store   *farsync.Store
	path    string
	atLeast time.Duration

	closed atomic.Bool
}

// NewGocronLocker returns a locker whose locks are below path, as farsync.PathOf names them, with the same rules for
// store and path as farsync.NewMutex. Each is kept for atLeast: longer than clocks and schedules of the replicas are
// ever apart, and shorter than the time between two runs of the job. It panics if atLeast is not positive, or L is not
// gocron.Lock.
func NewGocronLocker[L any](store *farsync.Store, path string, atLeast time.Duration) *GocronLocker[L] {
	_ = farsync.NewMutex(store, path) // panics where it must
	if atLeast <= 0 {
		panic("farsync: NewGocronLocker: no time to keep a lock for: a short job would run on every replica")
	}
	if _, ok := any((*gocronLock)(nil)).(L); !ok {
		panic(fmt.Sprintf("farsync: NewGocronLocker: %T is not gocron.Lock", *new(L)))
	}
	return &GocronLocker[L]{store: store, path: path, atLeast: atLeast}
}

// Lock locks for a job, and does not wait: if another replica has the lock, the error wraps farsync.ErrLocked, and
// gocron leaves the job out. ErrClosed: the locker or the Store is closed. If the process dies, the service keeps the
// lock until the session runs out, as after farsync.Lease.Outlast.
func (g *GocronLocker[L]) Lock(ctx context.Context, job string) (L, error) {
	var none L
	if g.closed.Load() {
		return none, fmt.Errorf("farsync: lock for gocron: %w", farsync.ErrClosed)
	}
	lease, err := farsync.NewMutex(g.store, farsync.PathOf(g.path, job)).TryLock(ctx)
	if err != nil {
		return none, err
	}
	until := time.Now().Add(g.atLeast)
	if err := lease.Outlast(ctx); err != nil {
		_ = lease.Release() // what it cannot confirm it goes on with in the background
		return none, err
	}
	return any(&gocronLock{lease: lease, until: until}).(L), nil
}

// Close ends the locker: no job gets a lock from it any more. The locks that are kept after their jobs are kept for
// their time, by the Store. Close of the Store gives them back at once, and another replica that starts the same job at
// this moment runs it again. So a process that shuts down within that time ends without it: the service then keeps them
// until the session runs out: for the rest of the TTL, about three quarters of it at least.
func (g *GocronLocker[L]) Close() { g.closed.Store(true) }

// A gocronLock is one job's.
type gocronLock struct {
	lease *farsync.Lease
	until time.Time
}

// Unlock tells whether the lock was held until now, and lets it go when its time has come.
func (l *gocronLock) Unlock(context.Context) error {
	err := l.lease.Err()
	l.lease.ReleaseAfter(time.Until(l.until))
	return err
}
