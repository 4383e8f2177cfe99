//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/torture/history"
)

// The primitives that can be tortured.
const (
	mutex     = "mutex"
	reentrant = "reentrant"
	rwmutex   = "rwmutex"
	semaphore = "semaphore"
	election  = "election"
	quorum    = "quorum"
)

var primitives = []string{mutex, reentrant, rwmutex, semaphore, election, quorum}

// playable returns the primitives that a store can have: a quorum takes several services.
func playable(store string, primitives []string) []string {
	return slices.DeleteFunc(slices.Clone(primitives), func(p string) bool { return (p == quorum) != (store == onQuorum) })
}

// semaphoreSize is the size of all semaphores.
const semaphoreSize = 3

// A held lock is what a section needs of it. A *farsync.Lease is one.
type held interface {
	Token() farsync.Token
	Err() error
	Done() <-chan struct{}
	Release() error
}

// A lock is one way to take one lock.
type lock struct {
	kind  history.Kind
	queue string
	units int64
	take  func(context.Context) (held, error)
	try   func(context.Context) (held, error) // nil if there is none
	again bool                                // its owner may take it again while it holds
	// downgrade turns a writer's hold into a reader's. It may be nil.
	downgrade func(context.Context, held) error
	// observe returns the token of the leader, 0 if there is none. It may be nil.
	observe func(context.Context) (int64, error)
}

// A locker makes locks of a primitive. The random numbers decide which.
type locker interface {
	lock(random *rand.Rand, primitive string) lock
	Close() error
}

// restFor is for how long one half of the queues is left alone, and the other half is used. A ZooKeeper server
// meanwhile collects the nodes of the first, whose sequences begin again at 0.
const restFor = 7 * time.Second

// queuesOf returns the queues of a primitive, for one half of the time and for the other. Where there are many
// primitives, each has fewer queues, so that clients meet.
func queuesOf(paths int, primitives []string, primitive string) (halves [2][]string) {
	n := max(1, paths/len(primitives))
	for half := range halves {
		for i := range n {
			halves[half] = append(halves[half], fmt.Sprintf("/torture/%s-%d.%d", primitive, half, i))
		}
	}
	return halves
}

// queueOf returns one of the queues that all processes use now.
func (p part) queueOf(random *rand.Rand, primitive string) string {
	now := queuesOf(p.Paths, p.Primitives, primitive)[history.Now()/int64(restFor)%2]
	return now[random.IntN(len(now))]
}

// A machine is a client of the service, as it is seen from there: a Store, and a value of each primitive for each
// queue, which the goroutines share.
type machine struct {
	part
	store      *farsync.Store
	leave      func()
	mutexes    map[string]*farsync.Mutex
	reentrants map[string]*farsync.ReentrantMutex
	rwmutexes  map[string]*farsync.RWMutex
	semaphores map[string]*farsync.Semaphore
	elections  map[string]*farsync.Election
}

func newMachine(p part, store *farsync.Store, leave func()) *machine {
	m := &machine{
		part: p, store: store, leave: leave,
		mutexes: map[string]*farsync.Mutex{}, reentrants: map[string]*farsync.ReentrantMutex{},
		rwmutexes: map[string]*farsync.RWMutex{}, semaphores: map[string]*farsync.Semaphore{}, elections: map[string]*farsync.Election{},
	}
	for _, primitive := range p.Primitives {
		halves := queuesOf(p.Paths, p.Primitives, primitive)
		for _, path := range slices.Concat(halves[0], halves[1]) {
			switch primitive {
			case mutex:
				m.mutexes[path] = farsync.NewMutex(store, path)
			case reentrant:
				m.reentrants[path] = farsync.NewReentrantMutex(store, path)
			case rwmutex:
				m.rwmutexes[path] = farsync.NewRWMutex(store, path)
			case semaphore:
				m.semaphores[path] = farsync.NewSemaphore(store, path, semaphoreSize)
			case election:
				m.elections[path] = farsync.NewElection(store, path)
			}
		}
	}
	return m
}

// Close closes the Store.
func (m *machine) Close() error {
	err := m.store.Close()
	m.leave()
	return err
}

// taking has a call that returns a lease return what a section needs.
func taking(call func(context.Context) (*farsync.Lease, error)) func(context.Context) (held, error) {
	return func(ctx context.Context) (held, error) {
		lease, err := call(ctx)
		if err != nil {
			return nil, err
		}
		return lease, nil
	}
}

func (m *machine) lock(random *rand.Rand, primitive string) lock {
	queue := m.queueOf(random, primitive)
	l := lock{kind: history.Exclusive, queue: queue, units: 1}
	switch primitive {
	case mutex:
		mu := m.mutexes[queue]
		l.take, l.try = taking(mu.Lock), taking(mu.TryLock)
	case reentrant:
		mu := m.reentrants[queue]
		l.kind, l.again = history.Reentrant, true
		l.take, l.try = taking(mu.Lock), taking(mu.TryLock)
	case rwmutex:
		rw := m.rwmutexes[queue]
		if random.IntN(4) > 0 {
			l.kind, l.take, l.try = history.Read, taking(rw.RLock), taking(rw.TryRLock)
			break
		}
		l.kind, l.take, l.try = history.Write, taking(rw.Lock), taking(rw.TryLock)
		l.downgrade = func(ctx context.Context, h held) error { return rw.Downgrade(ctx, h.(*farsync.Lease)) }
	case semaphore:
		s, units := m.semaphores[queue], 1+random.Int64N(semaphoreSize)
		l.kind, l.units = history.Permit, units
		l.take = taking(func(ctx context.Context) (*farsync.Lease, error) { return s.Acquire(ctx, units) })
		l.try = taking(func(ctx context.Context) (*farsync.Lease, error) { return s.TryAcquire(ctx, units) })
	case election:
		e := m.elections[queue]
		l.kind = history.Lead
		l.take = taking(func(ctx context.Context) (*farsync.Lease, error) { return e.Campaign(ctx, "") })
		l.observe = func(ctx context.Context) (int64, error) {
			leader, err := e.Leader(ctx)
			return int64(leader.Token), err
		}
	default:
		panic("torture: primitive " + primitive)
	}
	return l
}

// entryOf returns the entry that stands for a lease. From then on it is not handed off.
func entryOf(h held) driver.Entry {
	if lease, ok := h.(farsync.Guarded); ok {
		if list, err := lease.GuardEntries(); err == nil && len(list) > 0 {
			return list[0]
		}
	}
	return driver.Entry{}
}
