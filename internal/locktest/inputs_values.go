package locktest

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/farsync/farsync"
)

// nothing are the things that are nil, empty or missing.
func (g given) nothing() []Input {
	mu := func(path string) *farsync.Mutex { return farsync.NewMutex(g.store, path) }
	named := func(name string) *farsync.Mutex { return farsync.NewMutex(g.open(farsync.Options{Name: name}), g.path) }
	nameless, one, another := named(""), named("one"), named("one")
	list := []Input{
		panicking("farsync: NewMultiMutex: no members", func(context.Context) { farsync.NewMultiMutex() }),
		panicking("farsync: NewMultiMutex: nil member", func(context.Context) { farsync.NewMultiMutex(mu(g.path), nil) }),
		panicking("farsync: NewMultiMutex: several stores, and one without a name", func(context.Context) { farsync.NewMultiMutex(nameless, one) }),
		panicking(`farsync: NewMultiMutex: two stores have the name "one"`, func(context.Context) { farsync.NewMultiMutex(one, another) }),
		panicking("farsync: NewPool: nil semaphore", func(ctx context.Context) { farsync.NewPool(ctx, nil) }),
		panicking("farsync: Unlock of unlocked Locker", func(ctx context.Context) { mu(g.path).Locker(ctx, nil).Unlock() }),
		panicking("farsync: lock: bad path", func(ctx context.Context) { mu("no slash").Locker(ctx, nil).Lock() }),
	}
	list[len(list)-1].Is = []error{farsync.ErrPath}
	for name, construct := range map[string]func(store *farsync.Store, path string){
		"NewMutex":          func(store *farsync.Store, path string) { farsync.NewMutex(store, path) },
		"NewReentrantMutex": func(store *farsync.Store, path string) { farsync.NewReentrantMutex(store, path) },
		"NewRWMutex":        func(store *farsync.Store, path string) { farsync.NewRWMutex(store, path) },
		"NewSemaphore":      func(store *farsync.Store, path string) { farsync.NewSemaphore(store, path, 1) },
		"NewElection":       func(store *farsync.Store, path string) { farsync.NewElection(store, path) },
	} {
		list = append(list, panicking("farsync: "+name+": nil store", func(context.Context) { construct(nil, g.path) }))
	}
	return list
}

// numbers are units, sizes and values that cannot be.
func (g given) numbers() []Input {
	const why = "it would wait for ever, or take what is not there"
	sem := farsync.NewSemaphore(g.store, g.path+"-numbers", 3)
	list := []Input{
		input("more units than there are", why, func(ctx context.Context) error {
			_, err := sem.Acquire(ctx, 4)
			return err
		}, farsync.ErrTooLarge, "farsync: acquire "+g.path, "4 of 3"),
		input("more units than there are, without waiting", why, func(ctx context.Context) error {
			_, err := sem.TryAcquire(ctx, math.MaxInt64)
			return err
		}, farsync.ErrTooLarge, "farsync: try acquire "+g.path, "of 3"),
		input("another size than its users have", "half of the program was deployed with another number", func(ctx context.Context) error {
			lease, err := farsync.NewSemaphore(g.store, g.path+"-size", 5).Acquire(ctx, 1)
			if err == nil {
				defer func() { _ = lease.Release() }()
				_, err = farsync.NewSemaphore(g.store, g.path+"-size", 7).Acquire(ctx, 1)
			}
			return err
		}, farsync.ErrSize, g.path+"-size", "declared as 5", "as 7 here"),
		input("a value that is too long", "the service would refuse it in its own words, or be slow for all", func(ctx context.Context) error {
			_, err := farsync.NewElection(g.store, g.path+"-value").Campaign(ctx, strings.Repeat("x", 64<<10+1))
			return err
		}, nil, "farsync: campaign "+g.path+"-value", "65537 bytes, 65536 are allowed"),
		input("a longer value to proclaim", "", func(ctx context.Context) error {
			e := farsync.NewElection(g.store, g.path+"-proclaim")
			lease, err := e.Campaign(ctx, "")
			if err == nil {
				defer func() { _ = lease.Release() }()
				err = e.Proclaim(ctx, lease, strings.Repeat("x", 64<<10+1))
			}
			return err
		}, nil, "farsync: proclaim "+g.path+"-proclaim", "65537 bytes, 65536 are allowed"),
	}
	for _, n := range []int64{0, -1, math.MinInt64} {
		const why = "numbers come from data, which must not end the process"
		none := farsync.NewSemaphore(g.store, g.path+"-none", n)
		says := fmt.Sprintf("asked for %d units", n)
		of := fmt.Sprintf("made with %d units", n)
		list = append(list,
			input(fmt.Sprintf("a size of %d", n), why, func(ctx context.Context) error { return sem.Resize(ctx, n) }, nil, "farsync: resize "+g.path, says),
			input(fmt.Sprintf("%d units", n), why, func(ctx context.Context) error { _, err := sem.Acquire(ctx, n); return err },
				nil, "farsync: acquire "+g.path, says),
			input(fmt.Sprintf("%d units, without waiting", n), why, func(ctx context.Context) error { _, err := sem.TryAcquire(ctx, n); return err },
				nil, "farsync: try acquire "+g.path, says),
			input(fmt.Sprintf("a semaphore of %d units", n), why, func(ctx context.Context) error { _, err := none.Acquire(ctx, 1); return err },
				nil, "farsync: acquire "+g.path+"-none", of),
			input(fmt.Sprintf("a new size of a semaphore of %d units", n), why, func(ctx context.Context) error { return none.Resize(ctx, 1) },
				nil, "farsync: resize "+g.path+"-none", of),
		)
	}
	return list
}

// leases are given to calls that are not theirs, or that have ended.
func (g given) leases() []Input {
	const why = "a lease of another lock would be changed, or lost"
	// under returns what is called with a lease that get has got on a path of its own.
	under := func(
		name string, get func(path string) func(context.Context) (*farsync.Lease, error),
		call func(ctx context.Context, path string, lease *farsync.Lease) error,
	) func(context.Context) error {
		return func(ctx context.Context) error {
			path := g.path + "-" + name
			lease, err := get(path)(ctx)
			if err == nil {
				defer func() { _ = lease.Release() }()
				err = call(ctx, path, lease)
			}
			return err
		}
	}
	mutex := func(path string) func(context.Context) (*farsync.Lease, error) {
		return farsync.NewMutex(g.store, path).Lock
	}
	writer := func(path string) func(context.Context) (*farsync.Lease, error) {
		return farsync.NewRWMutex(g.store, path).Lock
	}
	reader := func(path string) func(context.Context) (*farsync.Lease, error) {
		return farsync.NewRWMutex(g.store, path).RLock
	}
	rw := func(path string) *farsync.RWMutex { return farsync.NewRWMutex(g.store, path) }
	election := func(path string) *farsync.Election { return farsync.NewElection(g.store, path) }
	return []Input{
		input("a Mutex's lease to Downgrade", why, under("a", mutex, func(ctx context.Context, path string, lease *farsync.Lease) error {
			return rw(path).Downgrade(ctx, lease)
		}), nil, "farsync: downgrade "+g.path, "not a lease of this lock"),
		input("another path's lease to Downgrade", why, under("b", writer, func(ctx context.Context, path string, lease *farsync.Lease) error {
			return rw(path+"x").Downgrade(ctx, lease)
		}), nil, "farsync: downgrade "+g.path, "not a lease of this lock"),
		input("a Mutex's lease to Proclaim", why, under("c", mutex, func(ctx context.Context, path string, lease *farsync.Lease) error {
			return election(path).Proclaim(ctx, lease, "")
		}), nil, "farsync: proclaim "+g.path, "not a candidate"),
		input("another path's lease to Proclaim", why, under("d", mutex, func(ctx context.Context, path string, lease *farsync.Lease) error {
			return election(path+"x").Proclaim(ctx, lease, "")
		}), nil, "farsync: proclaim "+g.path, "not a lease of this election"),
		input("no lease to Downgrade", why, func(ctx context.Context) error { return rw(g.path).Downgrade(ctx, nil) },
			nil, "farsync: downgrade "+g.path, "not a lease of this lock"),
		input("no lease to Proclaim", why, func(ctx context.Context) error { return election(g.path).Proclaim(ctx, nil, "") },
			nil, "farsync: proclaim "+g.path, "not a lease of this election"),
		input("a lease that was released", "the second Release of a defer", under("e", mutex, func(_ context.Context, _ string, lease *farsync.Lease) error {
			if err := lease.Release(); err != nil {
				return err
			}
			return lease.Release()
		}), farsync.ErrReleased, "farsync: release "+g.path+"-e"),
		input("a lease that was released, to Downgrade", "", under("f", writer, func(ctx context.Context, path string, lease *farsync.Lease) error {
			if err := lease.Release(); err != nil {
				return err
			}
			return rw(path).Downgrade(ctx, lease)
		}), farsync.ErrReleased, "farsync: downgrade "+g.path+"-f"),
		input("a Mutex's path to a Semaphore", "the two would not exclude each other, or would for ever", under("h", mutex,
			func(ctx context.Context, path string, _ *farsync.Lease) error {
				_, err := farsync.NewSemaphore(g.store, path, 2).Acquire(ctx, 1)
				return err
			}), farsync.ErrKind, "farsync: acquire "+g.path+"-h", "another kind of lock"),
		input("a Mutex's path to an Election", "as above", under("i", mutex, func(ctx context.Context, path string, _ *farsync.Lease) error {
			_, err := election(path).Campaign(ctx, "")
			return err
		}), farsync.ErrKind, "farsync: campaign "+g.path+"-i", "another kind of lock"),
		deadlock(input("a reader that becomes a writer", "it would wait for itself", under("g", reader, func(ctx context.Context, path string, lease *farsync.Lease) error {
			ctx, cancel := lease.Context(ctx)
			defer cancel()
			_, err := rw(path).Lock(ctx)
			return err
		}), farsync.ErrUpgrade, "farsync: lock "+g.path+"-g")),
	}
}

// deadlock returns an input whose error wraps ErrDeadlock, too.
func deadlock(in Input) Input {
	in.Is = append(in.Is, farsync.ErrDeadlock)
	return in
}
