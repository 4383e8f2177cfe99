package adapt

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
)

// A GocronLocker locks for gocron, as its Locker: of the replicas that start a job at the same time, one runs it. L is
// gocron.Lock.
//
// gocron releases a job's lock when the job ends. Replicas never start at quite the same time, so of a job that is
// shorter than their clocks are apart, each would find the lock free and run it. A GocronLocker therefore keeps the lock
// for a time at least, counted from when it was held, whenever the job ends.
type GocronLocker[L any] struct {
	store   *farsync.Store
	path    string
	atLeast time.Duration

	life context.Context // the locker's own: done when it is closed
	shut context.CancelFunc

	mu     sync.Mutex
	closed bool
	behind sync.WaitGroup // locks that are kept after their jobs; added to under mu while not closed
}

// NewGocronLocker returns a locker whose locks are below path, with the same rules for store and path as
// farsync.NewMutex. Each is kept for atLeast: longer than clocks and schedules of the replicas are ever apart, and
// shorter than the time between two runs of the job. It panics if atLeast is not positive, or L is not gocron.Lock.
func NewGocronLocker[L any](store *farsync.Store, path string, atLeast time.Duration) *GocronLocker[L] {
	_ = farsync.NewMutex(store, path) // panics where it must
	if atLeast <= 0 {
		panic("farsync: NewGocronLocker: no time to keep a lock for: a short job would run on every replica")
	}
	if _, ok := any((*gocronLock)(nil)).(L); !ok {
		panic(fmt.Sprintf("farsync: NewGocronLocker: %T is not gocron.Lock", *new(L)))
	}
	life, shut := context.WithCancel(context.Background())
	return &GocronLocker[L]{store: store, path: path, atLeast: atLeast, life: life, shut: shut}
}

// Lock locks for a job, and does not wait: if another replica has the lock, the error wraps farsync.ErrLocked, and gocron
// leaves the job out. ErrClosed: the locker or the Store is closed.
func (g *GocronLocker[L]) Lock(ctx context.Context, job string) (L, error) {
	var none L
	if g.life.Err() != nil {
		return none, fmt.Errorf("farsync: lock for gocron: %w", farsync.ErrClosed)
	}
	lease, err := farsync.NewMutex(g.store, below(g.path, job)).TryLock(ctx)
	if err != nil {
		return none, err
	}
	lock := &gocronLock{lease: lease, release: g.releaseBehind, until: time.Now().Add(g.atLeast)}
	return any(lock).(L), nil
}

// releaseBehind releases a lease when its time has come, or the locker is closed.
func (g *GocronLocker[L]) releaseBehind(lease *farsync.Lease, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		_ = lease.Release() // without an answer it goes with its session
		return
	}
	g.behind.Go(func() { // joined by Close
		_ = pause.For(g.life, time.Until(until))
		_ = lease.Release()
	})
}

// Close releases the locks that are kept after their jobs, and returns when they are released. Shut the scheduler down
// before. Then there is no minimum any more: another replica that starts the same job at this moment runs it again.
func (g *GocronLocker[L]) Close() {
	g.shut()
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.behind.Wait()
}

// A gocronLock is one job's.
type gocronLock struct {
	lease   *farsync.Lease
	until   time.Time
	release func(*farsync.Lease, time.Time)
}

// Unlock tells whether the lock was held until now, and lets it go when its time has come.
func (l *gocronLock) Unlock(context.Context) error {
	err := l.lease.Err()
	l.release(l.lease, l.until)
	return err
}
