package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// frozenFor is how long a call lasts whose context ends while the service is frozen.
const frozenFor = time.Second

// A Frozen is a service that a test can stop: it takes connections and requests, and answers none. All fields are
// required but Late.
type Frozen struct {
	// Open returns another client with that TTL. RunFrozen closes it, while the service answers.
	Open func(t *testing.T, ttl time.Duration) *farsync.Store
	// Long is a TTL that outlasts the freeze. The longest that the service grants is best: a call that waits for a
	// request's own timeout instead of for its ctx is late by a part of it.
	Long time.Duration
	// Short is the TTL for calls that no ctx governs, which return after a third of it.
	Short time.Duration
	// Freeze stops the service, and Resume has it go on.
	Freeze, Resume func()
	// Late is how long after its time a call may return: no longer at all in a bubble of testing/synctest, where it is
	// zero, and what counts as a hang otherwise.
	Late time.Duration
}

// A frozenRow is a call that must return although no server answers.
type frozenRow struct {
	// name is type and method, and behind a comma the case.
	name string
	// prepare does what takes an answer, and returns the call.
	prepare func(s *frozenScene) func(ctx context.Context) error
	// want is what the error of the call must be, any error if it is nil.
	want error
	// times is how many calls there are at once, one if it is zero.
	times int
	// bound is how long the call may take if it is not frozenFor.
	bound func(service Frozen) time.Duration
}

// ofRelease is the bound of a call that releases, which no ctx governs.
func ofRelease(service Frozen) time.Duration { return service.Short / 3 }

// withRelease is the bound of a call that releases when its ctx has ended.
func withRelease(service Frozen) time.Duration { return frozenFor + service.Short/3 }

// ofTTL is the bound of a call that ends at the latest with its lease.
func ofTTL(service Frozen) time.Duration { return service.Short }

// A frozenScene is what the calls of a row have in common.
type frozenScene struct {
	*scene
	service Frozen
	// callers make the calls that a ctx governs, holders hold what they wait for. Their sessions outlast the freeze.
	callers, holders *farsync.Store
}

// short returns a client for a call that no ctx governs.
func (s *frozenScene) short() *farsync.Store {
	s.Helper()
	c := s.service.Open(s.T, s.service.Short)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// RunFrozen calls every method that may block, with a service that has stopped. Each call must return when its ctx ends,
// or by its own bound. When the service goes on, nothing must be left of any of them.
func RunFrozen(t *testing.T, service Frozen) {
	open := func(t *testing.T) *farsync.Store {
		c := service.Open(t, service.Long)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	callers, holders := open(t), open(t)
	type prepared struct {
		frozenRow
		call func(context.Context) error
		done chan struct{}
	}
	var calls []*prepared
	var paths []string
	for _, row := range slices.Concat(frozenRows, frozenMultiRows, frozenStoreRows) {
		s := &frozenScene{
			&scene{T: t, Backend: Backend{Open: open}, path: "/frozen/" + rand.Text()}, service, callers, holders,
		}
		paths = append(paths, s.path)
		call := row.prepare(s)
		for range max(1, row.times) {
			calls = append(calls, &prepared{row, call, make(chan struct{})})
		}
	}

	service.Freeze()
	for _, c := range calls {
		go func() { // joined below
			defer close(c.done)
			bound := frozenFor
			if c.bound != nil {
				bound = c.bound(service)
			}
			ctx, cancel := context.WithTimeout(context.Background(), frozenFor)
			defer cancel()
			begun := time.Now()
			err := c.call(ctx)
			late := time.Since(begun) - bound
			t.Logf("%s: %v after its time: %v", c.name, late.Round(time.Millisecond), err)
			switch {
			case late > service.Late:
				t.Errorf("%s: returned %v late", c.name, late)
			case err == nil && c.bound == nil: // a Release succeeds without an answer when the session ends first
				t.Errorf("%s: succeeded, and no server has answered", c.name)
			case c.want != nil && !errors.Is(err, c.want):
				t.Errorf("%s: error is %v, and not %v", c.name, err, c.want)
			}
		}()
	}
	overdue := time.NewTimer(frozenFor + service.Short + service.Late)
	defer overdue.Stop()
	for _, c := range calls {
		select {
		case <-c.done:
		case <-overdue.C:
			overdue.Reset(0)
			t.Errorf("%s: has not returned", c.name)
		}
	}
	service.Resume()
	for _, c := range calls {
		<-c.done
	}

	// The calls of a session leave entries behind, which go while the session lives.
	require.NoError(t, holders.Close())
	s := &scene{T: t, Backend: Backend{Open: open}}
	looker := s.client()
	for _, path := range paths {
		s.untilAt(looker, path, 0)
		for _, name := range frozenMembers {
			s.untilAt(looker, path+"/"+name, 0)
		}
	}
}

// A lockFunc is a way to get a lease.
type lockFunc func(context.Context) (*farsync.Lease, error)

// free is a call that finds a free queue, which has been used before.
func free(get func(s *frozenScene, store *farsync.Store) lockFunc) func(*frozenScene) func(context.Context) error {
	return func(s *frozenScene) func(context.Context) error {
		s.release(s.take(get(s, s.holders)))
		return errorOf(get(s, s.callers))
	}
}

// taken is a call that finds others in the queue.
func taken(get func(s *frozenScene, store *farsync.Store) lockFunc) func(*frozenScene) func(context.Context) error {
	return func(s *frozenScene) func(context.Context) error {
		s.take(get(s, s.holders))
		return errorOf(get(s, s.callers))
	}
}

// waiting is a call that waits in the queue when the service stops, and whose context ends then.
func waiting(get func(s *frozenScene, store *farsync.Store) lockFunc) func(*frozenScene) func(context.Context) error {
	return func(s *frozenScene) func(context.Context) error {
		s.take(get(s, s.holders))
		lock := get(s, s.callers)
		call := s.underWay(func(ctx context.Context) error { return errorOf(lock)(ctx) })
		s.until(s.holders, 2)
		return call
	}
}

// held is a call on what the client holds.
func held[T any](
	take func(s *frozenScene) T, call func(ctx context.Context, s *frozenScene, what T) error,
) func(*frozenScene) func(context.Context) error {
	return func(s *frozenScene) func(context.Context) error {
		what := take(s)
		return func(ctx context.Context) error { return call(ctx, s, what) }
	}
}

// running is a call that runs a function when the service stops. The function returns when its context ends.
func running(
	run func(ctx context.Context, s *frozenScene, store *farsync.Store, fn func(context.Context) error) error,
) func(*frozenScene) func(context.Context) error {
	return func(s *frozenScene) func(context.Context) error {
		store, begun := s.short(), make(chan struct{})
		call := s.underWay(func(ctx context.Context) error {
			return run(ctx, s, store, func(ctx context.Context) error {
				close(begun)
				<-ctx.Done()
				return ctx.Err()
			})
		})
		s.happens(begun)
		return call
	}
}

// underWay begins a call now. It returns a call that ends the context of the first, and waits for it.
func (s *frozenScene) underWay(call func(context.Context) error) func(context.Context) error {
	early, giveUp := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- call(early) }() // ends with early
	s.Cleanup(giveUp)
	return func(ctx context.Context) error {
		<-ctx.Done()
		giveUp()
		return <-done
	}
}

// happens waits for what a call under way does before the service stops.
func (s *frozenScene) happens(what <-chan struct{}) {
	s.Helper()
	select {
	case <-what:
	case <-s.ctx().Done():
		require.FailNow(s, "the call has not begun")
	}
}

// errorOf returns the error of a lock. A lease that it gets all the same is given back.
func errorOf(lock lockFunc) func(context.Context) error {
	return func(ctx context.Context) error {
		lease, err := lock(ctx)
		if err == nil {
			_ = lease.Release()
		}
		return err
	}
}

// lockOf returns Lock of a sync.Locker as a call that fails: its panic is the error.
func lockOf(locker func(ctx context.Context) sync.Locker) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		defer func() { err, _ = recover().(error) }()
		l := locker(ctx)
		l.Lock()
		defer l.Unlock()
		return nil
	}
}
