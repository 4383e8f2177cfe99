// Package locktest says what farsync's primitives do, the same on every service. A backend's tests run it with a Backend.
package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/recipe"
)

// soon is for what has to happen at all, a session running out included. No row is to get near it.
const soon = time.Minute

// A row is one thing that a primitive does.
type row struct {
	name string
	// why it matters, for the reader of a failure
	why string
	run func(*scene)
}

// Run runs every row on the backend.
func Run(t *testing.T, b Backend) {
	if b.Case == nil {
		b.Case = func(t *testing.T, run func(t *testing.T)) { run(t) }
	}
	rows := slices.Concat(mutexRows, reentrantRows, rwRows, semaphoreRows, multiRows, lockedRows, askRows, breakRows, surveyRows, electionRows, storeRows, sizeRows, changeRows, mixRows, kindRows, guardRows, oneselfRows, underRows)
	if b.Guard != nil {
		rows = append(rows, guardedRows...)
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			b.Case(t, func(t *testing.T) {
				t.Cleanup(func() {
					if t.Failed() {
						t.Log("why it matters: " + r.why)
					}
				})
				r.run(&scene{T: t, Backend: b, path: "/locktest/" + rand.Text()})
			})
		})
	}
}

// A scene is what a row plays in.
type scene struct {
	*testing.T
	Backend
	path string
}

// client returns another client, closed with the scene.
func (s *scene) client() *farsync.Store {
	s.Helper()
	c := s.Open(s.T)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// ctx returns a context that ends if what has to happen does not.
func (s *scene) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	s.Cleanup(cancel)
	return ctx
}

// mutex returns a mutex on the scene's path.
func (s *scene) mutex(store *farsync.Store) *farsync.Mutex { return farsync.NewMutex(store, s.path) }

// lock locks, which must succeed.
func (s *scene) lock(mu *farsync.Mutex) *farsync.Lease {
	s.Helper()
	lease, err := mu.Lock(s.ctx())
	require.NoError(s, err)
	return lease
}

func (s *scene) release(lease *farsync.Lease) {
	s.Helper()
	require.NoError(s, giveBack(lease))
}

// giveBack releases a lease where whether the service confirms it is not the point. On a busy machine a third of a short TTL may pass without
// an answer. Then removal continues in the background, and the lock is free once it has ended.
func giveBack(lease interface{ Release() error }) error {
	if err := lease.Release(); !errors.Is(err, farsync.ErrUnavailable) || errors.Is(err, farsync.ErrLost) {
		return err
	}
	return nil
}

// A locking is a Lock that is under way.
type locking struct {
	*scene
	cancel context.CancelFunc
	done   chan struct{}
	lease  *farsync.Lease
	err    error
}

// locking locks in a goroutine, which the scene joins.
func (s *scene) locking(lock func(context.Context) (*farsync.Lease, error)) *locking {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	l := &locking{scene: s, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.lease, l.err = lock(ctx)
	}()
	s.Cleanup(func() {
		cancel()
		<-l.done
	})
	return l
}

// apart returns a lock whose caller stands in the queue by itself.
func apart(lock func(context.Context) (*farsync.Lease, error)) func(context.Context) (*farsync.Lease, error) {
	return func(ctx context.Context) (*farsync.Lease, error) { return lock(Apart(ctx)) }
}

// got waits for the lease.
func (l *locking) got() *farsync.Lease {
	l.Helper()
	<-l.done
	require.NoError(l, l.err)
	return l.lease
}

// waits makes sure that the lock has not been given yet.
func (l *locking) waits() {
	l.Helper()
	select {
	case <-l.done:
		require.FailNow(l, "did not wait", "lease %v, error %v", l.lease, l.err)
	default:
	}
}

// until polls until there are n in the queue, as any client sees it.
func (s *scene) until(store *farsync.Store, n int) []driver.Entry {
	s.Helper()
	return s.untilAt(store, s.path, n)
}

// untilAt is until for another queue than the scene's.
func (s *scene) untilAt(store *farsync.Store, path string, n int) []driver.Entry {
	s.Helper()
	ctx := s.ctx()
	for {
		list, _, err := recipe.Queue{Store: beneath.Store(store), Path: path}.List(ctx, 0)
		require.NoError(s, err)
		if len(list) == n {
			return list
		}
		require.NoError(s, pause.For(ctx, 5*time.Millisecond), "%d in the queue instead of %d", len(list), n)
	}
}
