package locktest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/nested"
	"github.com/farsync/farsync/recipe"
)

// The functions below are for the tests that a backend has of its own. No function waits for longer than Soon.

// Soon is for what has to happen at all. No test is to get near it.
const Soon = time.Minute

// Within returns a context for what a service should have done long before.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Lock locks, which must succeed.
func Lock(t testing.TB, store *farsync.Store, path string) *farsync.Lease {
	t.Helper()
	lease, err := farsync.NewMutex(store, path).Lock(Within(t, Soon))
	require.NoError(t, err)
	return lease
}

// Apart returns a context for a caller who is to stand in the queue with an entry of its own, not in the line of its Store: as if it held
// another lock.
func Apart(ctx context.Context) context.Context { return nested.Under(ctx, another{}) }

// another is a lease of no Store.
type another struct{}

func (another) Err() error { return nil }

// LockBehind locks in a goroutine, which t joins, with an entry of its own. It ends with t at the latest.
func LockBehind(t testing.TB, store *farsync.Store, path string) chan *farsync.Lease {
	return Behind(t, farsync.NewMutex(store, path).Lock)
}

// Behind is LockBehind for another way to wait.
func Behind(t testing.TB, lock func(context.Context) (*farsync.Lease, error)) chan *farsync.Lease {
	leases, done, ctx := make(chan *farsync.Lease, 1), make(chan struct{}), Apart(t.Context())
	go func() {
		defer close(done)
		lease, err := lock(ctx)
		if err == nil {
			leases <- lease
		} else if ctx.Err() == nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { <-done })
	return leases
}

// Got waits for what comes: a lease of LockBehind, say.
func Got[T any](t testing.TB, from <-chan T) (what T) {
	t.Helper()
	select {
	case what = <-from:
	case <-time.After(Soon):
		require.FailNow(t, "nothing came")
	}
	return what
}

// Ended waits until the lease has.
func Ended(t testing.TB, lease *farsync.Lease) {
	t.Helper()
	Got(t, lease.Done())
}

// GuardEntries returns what a Guard is given of a lease that is held.
func GuardEntries(t testing.TB, lease farsync.Guarded) []driver.Entry {
	t.Helper()
	entries, err := lease.GuardEntries()
	require.NoError(t, err)
	return entries
}

// AwaitQueue waits until the store sees n in a queue, and returns them. It polls.
func AwaitQueue(t testing.TB, store *farsync.Store, path string, n int) (list []driver.Entry) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		list, _, err = recipe.Queue{Store: beneath.Store(store), Path: path}.List(t.Context(), 0)
		return err == nil && len(list) == n
	}, Soon, 2*time.Millisecond)
	return list
}

// States records what a Store's OnState is told.
type States struct {
	mu   sync.Mutex
	told []farsync.State
}

// Hook is the OnState.
func (s *States) Hook(state farsync.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, state)
}

// All returns what it was told.
func (s *States) All() []farsync.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

// Await waits until it was told exactly that.
func (s *States) Await(t testing.TB, want ...farsync.State) {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.All()) >= len(want) }, Soon, time.Millisecond, "%v", s.All())
	require.Equal(t, want, s.All())
}

// NoLeaks fails the test if goroutines are left when everything it has opened is closed. Call it first, but for
// t.Parallel, and for a server that others share. Of tests that run at the same time the last to end answers for all.
func NoLeaks(t testing.TB) {
	leaks.mu.Lock()
	defer leaks.mu.Unlock()
	if leaks.tests == 0 {
		leaks.before = goleak.IgnoreCurrent()
	}
	leaks.tests++
	t.Cleanup(func() {
		leaks.mu.Lock()
		defer leaks.mu.Unlock()
		leaks.tests--
		if leaks.tests == 0 {
			begun := time.Now()
			err := goleak.Find(leaks.before)
			for err != nil && time.Since(begun) < Soon {
				err = goleak.Find(leaks.before) // which waits between its looks
			}
			require.NoError(t, err)
		}
	})
}

// leaks is about the tests that have called NoLeaks.
var leaks struct {
	mu     sync.Mutex
	tests  int
	before goleak.Option // from when there were none
}
