package farsync_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// TestBadPathIsAnErrorOfEveryCall: a path comes from data, and may be a setting that is missing. The call says so before it asks the
// service, and before it waits for anything.
func TestBadPathIsAnErrorOfEveryCall(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		held := lock(t, farsync.NewMutex(two, "/held"))
		service.ResetCount()
		none := func(context.Context, *farsync.Lease) error { t.Error("it runs without a lock"); return nil }
		for _, path := range []string{"", "no slash", "/a/", "/zookeeper"} {
			mu, rw, sem := farsync.NewMutex(one, path), farsync.NewRWMutex(one, path), farsync.NewSemaphore(one, path, 1)
			again, e := farsync.NewReentrantMutex(one, path), farsync.NewElection(one, path)
			// The members are locked in the order of their paths, so some of these are behind the one that is held.
			multi, quorum := farsync.NewMultiMutex(farsync.NewMutex(one, "/held"), mu), farsync.NewQuorumMutex(mu)
			of := func(_ any, err error) error { return err }
			for name, call := range map[string]func(ctx context.Context) error{
				"Mutex.Lock":             func(ctx context.Context) error { return of(mu.Lock(ctx)) },
				"Mutex.TryLock":          func(ctx context.Context) error { return of(mu.TryLock(ctx)) },
				"Mutex.Do":               func(ctx context.Context) error { return mu.Do(ctx, none) },
				"Mutex.TryDo":            func(ctx context.Context) error { return of(mu.TryDo(ctx, 1, none)) },
				"ReentrantMutex.Lock":    func(ctx context.Context) error { return of(again.Lock(ctx)) },
				"ReentrantMutex.TryLock": func(ctx context.Context) error { return of(again.TryLock(ctx)) },
				"RWMutex.Lock":           func(ctx context.Context) error { return of(rw.Lock(ctx)) },
				"RWMutex.TryLock":        func(ctx context.Context) error { return of(rw.TryLock(ctx)) },
				"RWMutex.RLock":          func(ctx context.Context) error { return of(rw.RLock(ctx)) },
				"RWMutex.TryRLock":       func(ctx context.Context) error { return of(rw.TryRLock(ctx)) },
				"Semaphore.Acquire":      func(ctx context.Context) error { return of(sem.Acquire(ctx, 1)) },
				"Semaphore.TryAcquire":   func(ctx context.Context) error { return of(sem.TryAcquire(ctx, 1)) },
				"Semaphore.Resize":       func(ctx context.Context) error { return sem.Resize(ctx, 2) },
				"MultiMutex.Lock":        func(ctx context.Context) error { return of(multi.Lock(ctx)) },
				"QuorumMutex.Lock":       func(ctx context.Context) error { return of(quorum.Lock(ctx)) },
				"QuorumMutex.TryLock":    func(ctx context.Context) error { return of(quorum.TryLock(ctx)) },
				"Election.Campaign":      func(ctx context.Context) error { return of(e.Campaign(ctx, "")) },
				"Election.Lead":          func(ctx context.Context) error { return e.Lead(ctx, "", none) },
				"Election.Leader":        func(ctx context.Context) error { return of(e.Leader(ctx)) },
				"Election.Observe": func(ctx context.Context) (last error) {
					for _, last = range e.Observe(ctx) {
					}
					return last
				},
				"Pool.Go": func(ctx context.Context) error {
					pool := farsync.NewPool(ctx, sem)
					pool.Go(func(context.Context) error { return none(ctx, nil) })
					return pool.Wait()
				},
				"Store.Participants": func(ctx context.Context) error { return of(one.Participants(ctx, path)) },
				"Store.Ask":          func(ctx context.Context) error { return one.Ask(ctx, path) },
				"Store.Break":        func(ctx context.Context) error { return one.Break(ctx, path, 256, nil) },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				err := call(ctx)
				cancel()
				require.ErrorIs(t, err, farsync.ErrPath, "%s of %q", name, path)
				of, ok := errors.AsType[*farsync.Error](err)
				require.True(t, ok, "%s of %q", name, path)
				require.Equal(t, path, of.Path, name)
			}
		}
		require.Zero(t, service.Count(), "nothing is asked of the service")
		require.NoError(t, held.Release())
	})
}

// TestZeroValuesSayWhatToUse, in place of a nil pointer somewhere below.
func TestZeroValuesSayWhatToUse(t *testing.T) {
	ctx := t.Context()
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	mu, rw, again, e := new(farsync.Mutex), new(farsync.RWMutex), new(farsync.ReentrantMutex), new(farsync.Election)
	sem, multi, quorum, pool := new(farsync.Semaphore), new(farsync.MultiMutex), new(farsync.QuorumMutex), new(farsync.Pool)
	lease := lock(t, farsync.NewMutex(store, "/a"))
	defer func() { require.NoError(t, lease.Release()) }()
	for constructor, calls := range map[string][]func(){
		"NewMutex": {
			func() { _, _ = mu.Lock(ctx) }, func() { _, _ = mu.TryLock(ctx) }, func() { _ = mu.Do(ctx, nil) },
			func() { _, _ = mu.TryDo(ctx, 1, nil) }, func() { mu.Locker(ctx, nil).Lock() },
			func() { farsync.NewMultiMutex(mu) }, func() { farsync.NewQuorumMutex(mu) },
		},
		"Mutex.Locker": {func() { new(farsync.Locker).Lock() }},
		"NewReentrantMutex": {
			func() { _, _ = again.Lock(ctx) }, func() { _, _ = again.TryLock(ctx) },
		},
		"NewRWMutex": {
			func() { _, _ = rw.Lock(ctx) }, func() { _, _ = rw.TryLock(ctx) }, func() { _, _ = rw.RLock(ctx) }, func() { _, _ = rw.TryRLock(ctx) },
			func() { _ = rw.Downgrade(ctx, lease) }, func() { rw.Locker(ctx, nil).Lock() }, func() { rw.RLocker(ctx, nil).Lock() },
		},
		"NewSemaphore": {
			func() { _, _ = sem.Acquire(ctx, 1) }, func() { _, _ = sem.TryAcquire(ctx, 1) }, func() { _ = sem.Resize(ctx, 1) },
		},
		"NewMultiMutex":  {func() { _, _ = multi.Lock(ctx) }},
		"NewQuorumMutex": {func() { _, _ = quorum.Lock(ctx) }, func() { _, _ = quorum.TryLock(ctx) }},
		"NewElection": {
			func() { _, _ = e.Campaign(ctx, "") }, func() { _ = e.Lead(ctx, "", nil) }, func() { _ = e.Proclaim(ctx, lease, "") },
			func() { _, _ = e.Leader(ctx) },
			func() {
				for _, err := range e.Observe(ctx) {
					t.Error(err)
				}
			},
		},
		"NewPool": {
			func() { pool.Go(nil) }, func() { pool.TryGo(nil) }, func() { _ = pool.Wait() },
		},
	} {
		for i, call := range calls {
			require.PanicsWithValue(t, "farsync: use "+constructor, call, "%s, call %d", constructor, i)
		}
	}
}
