package locktest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/recipe"
)

// A Silenced is a service that grants nothing for a while, after a restart for instance.
type Silenced struct {
	// Open opens a Store, which t closes.
	Open func(t testing.TB, options farsync.Options) *farsync.Store
	// Restart ends all sessions, and has the service grant nothing until End is called.
	Restart, End func(t testing.TB)
}

// A try is a call that waits for nobody.
type try struct {
	name string
	call func(ctx context.Context) (*farsync.Lease, error)
}

// triesOn returns every Try that there is on a path of the store.
func triesOn(store *farsync.Store, path string) []try {
	return []try{
		{"Mutex.TryLock", farsync.NewMutex(store, path+"/mutex").TryLock},
		{"Mutex.TryDo", func(ctx context.Context) (*farsync.Lease, error) {
			ran, err := farsync.NewMutex(store, path+"/mutex").TryDo(ctx, 0, func(context.Context, *farsync.Lease) error { return nil })
			if err != nil || ran {
				return nil, err
			}
			return nil, farsync.ErrLocked // it says so by no more than false
		}},
		{"ReentrantMutex.TryLock", farsync.NewReentrantMutex(store, path+"/mutex").TryLock},
		{"RWMutex.TryLock", farsync.NewRWMutex(store, path+"/rw").TryLock},
		{"RWMutex.TryRLock", farsync.NewRWMutex(store, path+"/rw").TryRLock},
		{"Semaphore.TryAcquire", func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewSemaphore(store, path+"/permits", 5).TryAcquire(ctx, 2)
		}},
		{"Pool.TryGo", func(ctx context.Context) (*farsync.Lease, error) {
			pool := farsync.NewPool(ctx, farsync.NewSemaphore(store, path+"/permits", 5))
			started := pool.TryGo(func(context.Context) error { return nil })
			if err := pool.Wait(); err != nil || started {
				return nil, err
			}
			return nil, farsync.ErrLocked // it says so by no more than false
		}},
		{"QuorumMutex.TryLock", func(ctx context.Context) (*farsync.Lease, error) {
			lease, err := farsync.NewQuorumMutex(farsync.NewMutex(store, path+"/mutex")).TryLock(ctx)
			if err == nil {
				err = lease.Release()
			}
			return nil, err
		}},
	}
}

// waitsOn returns every call that waits, on a path of the store.
func waitsOn(store *farsync.Store, path string) []try {
	multi := func(ctx context.Context) (*farsync.Lease, error) {
		_, err := farsync.NewMultiMutex(farsync.NewMutex(store, path+"/mutex")).Lock(ctx)
		return nil, err
	}
	return []try{
		{"Mutex.Lock", farsync.NewMutex(store, path+"/mutex").Lock},
		{"ReentrantMutex.Lock", farsync.NewReentrantMutex(store, path+"/mutex").Lock},
		{"MultiMutex.Lock", multi},
		{"RWMutex.Lock", farsync.NewRWMutex(store, path+"/rw").Lock},
		{"RWMutex.RLock", farsync.NewRWMutex(store, path+"/rw").RLock},
		{"Semaphore.Acquire", func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewSemaphore(store, path+"/permits", 5).Acquire(ctx, 2)
		}},
		{"Election.Campaign", func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewElection(store, path+"/election").Campaign(ctx, "")
		}},
	}
}

// RunSilence restarts a service that grants nothing afterwards, while it is held, waited for, and tried. Nothing holds
// then, so no call may say that something does. Neither may the Store, or a list of who waits.
func RunSilence(t *testing.T, s Silenced) {
	const ttl = time.Minute
	var states States
	store := s.Open(t, farsync.Options{TTL: ttl, OnState: states.Hook})
	other, third := s.Open(t, farsync.Options{TTL: ttl}), s.Open(t, farsync.Options{TTL: ttl})
	lost := Lock(t, other, "/held/mutex")
	states.Await(t, farsync.StateConnected)
	s.Restart(t)
	Ended(t, lost)
	states.Await(t, farsync.StateConnected, farsync.StateLost, farsync.StateRecovering)
	require.Equal(t, farsync.StateRecovering, store.State())

	silent := func(err error, what string) {
		t.Helper()
		require.ErrorIs(t, err, farsync.ErrUnavailable, what)
		require.NotErrorIs(t, err, farsync.ErrLocked, what)
		require.NotErrorIs(t, err, farsync.ErrNoLeader, what)
		require.ErrorContains(t, err, "nothing is granted for ", what)
		require.NotContains(t, err.Error(), "does not answer", what)
		require.NotContains(t, err.Error(), "waiting behind", what)
	}
	tried := func(path string) {
		t.Helper()
		for _, try := range triesOn(store, path) {
			_, err := try.call(Within(t, Soon))
			silent(err, try.name+" on "+path)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "it does not wait")
		}
	}
	tried("/held")
	tried("/free")
	election := farsync.NewElection(store, "/held/election")
	_, err := election.Leader(Within(t, Soon))
	silent(err, "Leader of an election without candidates")

	// Others wait, and goroutines that share a line with those who try.
	waiting, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	wait := func(lock func(context.Context) (*farsync.Lease, error)) {
		all.Go(func() {
			_, err := lock(waiting)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a lock was granted, or %v", err)
			}
			silent(err, "a wait that was given up")
		})
	}
	for _, w := range waitsOn(other, "/held") {
		wait(w.call)
	}
	shared, reentrant := farsync.NewMutex(store, "/held/mutex"), farsync.NewReentrantMutex(third, "/held/mutex")
	wait(shared.Lock)
	AwaitQueue(t, store, "/held/mutex", 2)
	wait(reentrant.Lock)
	AwaitQueue(t, store, "/held/mutex", 3)
	AwaitQueue(t, store, "/held/rw", 2)
	AwaitQueue(t, store, "/held/permits", 1)
	AwaitQueue(t, store, "/held/election", 1)
	tried("/held")
	for name, try := range map[string]func(context.Context) (*farsync.Lease, error){
		"TryLock beside a goroutine that waits":                     shared.TryLock,
		"TryLock of a ReentrantMutex beside a goroutine that waits": reentrant.TryLock,
	} {
		_, err := try(Within(t, Soon))
		silent(err, name)
	}
	for _, w := range append(waitsOn(store, "/held"), try{"Lock in a line", shared.Lock}) {
		_, err := w.call(Within(t, 100*time.Millisecond))
		silent(err, w.name)
		require.ErrorIs(t, err, context.DeadlineExceeded, w.name)
	}
	_, err = election.Leader(Within(t, Soon))
	silent(err, "Leader")
	for leader, err := range election.Observe(Within(t, 100*time.Millisecond)) {
		require.Zero(t, leader, "nobody knows who leads")
		silent(err, "Observe")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}

	// Every look shows that nobody holds, and until when.
	shown := func(list []farsync.Participant, err error) {
		t.Helper()
		require.NoError(t, err)
		require.NotEmpty(t, list)
		for _, p := range list {
			require.False(t, p.Held, p)
			left := time.Until(p.NotBefore)
			require.True(t, left > 0 && left <= ttl, "%v is left: %v", left, p)
			require.Contains(t, p.String(), "nothing is granted before ")
		}
	}
	shown(store.Participants(Within(t, Soon), "/held/mutex"))
	shown(store.Participants(Within(t, Soon), "/held/election"))
	for lock, err := range store.Survey(Within(t, Soon), "/held") {
		shown(lock.Participants, err)
	}
	require.NotNil(t, recipe.SilenceOf(beneath.Store(store)))
	end()
	all.Wait()

	s.End(t)
	states.Await(t, farsync.StateConnected, farsync.StateLost, farsync.StateRecovering, farsync.StateConnected)
	require.Nil(t, recipe.SilenceOf(beneath.Store(store)))
	for _, try := range triesOn(store, "/free") {
		lease, err := try.call(Within(t, Soon))
		require.NoError(t, err, try.name)
		if lease != nil {
			require.NoError(t, lease.Release())
		}
	}
	held := Lock(t, other, "/held/mutex")
	_, err = shared.TryLock(Within(t, Soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.NotErrorIs(t, err, farsync.ErrUnavailable)
	list, err := store.Participants(Within(t, Soon), "/held/mutex")
	require.NoError(t, err)
	require.True(t, list[0].Held && list[0].NotBefore.IsZero(), list)
	require.NoError(t, held.Release())
}
