package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/farsync/farsync"
)

// A taking takes the lock of a path, and returns what gives it back. A call that gives up returns an error that wraps
// context.DeadlineExceeded.
type taking func(ctx context.Context, path string) (giveBack func() error, err error)

// A side is farsync or a stock lock, with its clients open.
type side struct {
	takes []taking // a caller's each
	whole taking   // of a newcomer with a client of its own: nobody else holds any of the lock meanwhile
	lost  func() (sessions, leases int)
}

// An opener opens a side on a stage, until the stage is closed: callers who share so many clients.
type opener func(ctx context.Context, on *stage, clients, callers int) (*side, error)

// A kind is how callers use a primitive of farsync's: with a new value for each call.
type kind struct {
	name  string
	take  func(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error)
	whole func(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error)
	under bool // the ctx of each call stands for a lease
}

func lockMutex(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
	return farsync.NewMutex(store, path).Lock(ctx)
}

func lockRW(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
	return farsync.NewRWMutex(store, path).Lock(ctx)
}

func lockRWMostlyRead(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
	if writes() {
		return lockRW(ctx, store, path)
	}
	return farsync.NewRWMutex(store, path).RLock(ctx)
}

// acquire returns the acquisition of n units of a semaphore of two.
func acquire(n int64) func(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
	return func(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
		return farsync.NewSemaphore(store, path, 2).Acquire(ctx, n)
	}
}

func campaign(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
	return farsync.NewElection(store, path).Campaign(ctx, "")
}

var (
	mutexKind     = kind{name: "Mutex", take: lockMutex, whole: lockMutex}
	writerKind    = kind{name: "RWMutex.Lock", take: lockRW, whole: lockRW}
	readersKind   = kind{name: "RWMutex-90-10", take: lockRWMostlyRead, whole: lockRW}
	semaphoreKind = kind{name: "Semaphore-2", take: acquire(1), whole: acquire(2)}
	electionKind  = kind{name: "Election", take: campaign, whole: campaign}
	underKind     = kind{name: "Mutex-under-a-lease", take: lockMutex, whole: lockMutex, under: true}
)

// ourSide opens Stores. Each Store holds a lease on a path of its own as well.
func (k kind) ourSide(s store) opener {
	return func(ctx context.Context, on *stage, stores, callers int) (*side, error) {
		var sessions atomic.Int64
		var leases []*farsync.Lease
		counted := farsync.Options{OnState: func(state farsync.State) {
			if state == farsync.StateLost {
				sessions.Add(1)
			}
		}}
		opened := make([]*farsync.Store, stores)
		for i := range opened {
			store, err := s.openedWith(ctx, on, counted)
			if err != nil {
				return nil, fmt.Errorf("opening Store %d: %w", i, err)
			}
			lease, err := lockMutex(ctx, store, fmt.Sprint(on.path, "-other-", i))
			if err != nil {
				return nil, fmt.Errorf("the other lease of Store %d: %w", i, err)
			}
			opened[i], leases = store, append(leases, lease)
		}
		fresh, err := s.opened(ctx, on)
		if err != nil {
			return nil, err
		}
		all := &side{
			whole: leased(fresh, k.whole),
			lost: func() (int, int) {
				gone := 0
				for _, lease := range leases {
					if lease.Err() != nil {
						gone++
					}
				}
				return int(sessions.Load()), gone
			},
		}
		for i := range callers {
			take := leased(opened[i%stores], k.take)
			if k.under {
				take = under(take, leases[i%stores])
			}
			all.takes = append(all.takes, take)
		}
		return all, nil
	}
}

// leased is a taking of farsync's.
func leased(store *farsync.Store, take func(context.Context, *farsync.Store, string) (*farsync.Lease, error)) taking {
	return func(ctx context.Context, path string) (func() error, error) {
		lease, err := take(ctx, store, path)
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}
}

// under has the ctx of each call stand for a lease.
func under(take taking, lease *farsync.Lease) taking {
	return func(ctx context.Context, path string) (func() error, error) {
		ctx, cancel := lease.Context(ctx)
		defer cancel()
		return take(ctx, path)
	}
}
