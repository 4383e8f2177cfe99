package farsync_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// dropped is a slog.Handler that hands on the path of each lease that was dropped.
type dropped chan string

func (dropped) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (d dropped) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "path" && strings.HasPrefix(r.Message, "lease dropped without Release") {
			d <- a.Value.String()
		}
		return true
	})
	return nil
}

func (d dropped) WithAttrs([]slog.Attr) slog.Handler { return d }

func (d dropped) WithGroup(string) slog.Handler { return d }

// TestDroppedLeaseIsLogged: of a lease that nobody can release any more the Store says so, and keeps it. In a bubble, in
// which no cleanup of the runtime runs.
func TestDroppedLeaseIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, _, _ *farsync.Store) {
		store, paths := listening(service)
		defer store.Close()
		kept := lock(t, farsync.NewMutex(store, "/kept"))
		away(func() { lock(t, farsync.NewMutex(store, "/dropped")) })
		require.Equal(t, "/dropped", <-paths)
		away(func() { lock(t, farsync.NewMutex(store, "/again")) })
		require.Equal(t, "/again", <-paths, "the other was told once")
		require.NoError(t, kept.Release())
		list, err := store.Participants(t.Context(), "/dropped")
		require.NoError(t, err)
		require.Len(t, list, 1, "it is kept: work may go on under it")
		require.NoError(t, store.Close())
		require.Empty(t, paths)
	})
}

// listening opens a Store that has the garbage collector run with each renewal, and the paths of leases that it says were dropped.
func listening(service *farsynctest.Mem) (*farsync.Store, dropped) {
	paths := make(dropped, 100)
	return service.Open(&farsynctest.MemOptions{Options: farsync.Options{
		TTL: time.Second, Logger: slog.New(paths), Trace: &farsync.Trace{Session: func(farsync.TraceSession) { runtime.GC() }},
	}}), paths
}

// away runs f on a stack that has gone when it returns, so that nothing there keeps a lease.
func away(f func()) {
	var gone sync.WaitGroup
	gone.Go(f)
	gone.Wait()
}

// TestWhatKeepsALease: nothing is said while anybody can release a lease, or a context of it is alive; what else a program may
// keep of a lease releases nothing.
func TestWhatKeepsALease(t *testing.T) {
	synctest.Test(t, testWhatKeepsALease)
}

func testWhatKeepsALease(t *testing.T) {
	store, paths := listening(farsynctest.NewMem())
	defer store.Close()
	ctx := context.Background()
	taken := func(path string) *farsync.Lease { return lock(t, farsync.NewMutex(store, path)) }
	drops := func(path string, f func()) {
		t.Helper()
		away(f)
		require.Equal(t, path, <-paths)
	}

	kept := taken("/kept")
	var bound context.Context
	var unbind context.CancelFunc
	var locker *farsync.Locker
	away(func() {
		require.NoError(t, taken("/released").Release())
		taken("/later").ReleaseAfter(time.Hour)
		_, _ = taken("/forgotten").Context(ctx)      // as a program does that forgets cancel
		bound, unbind = taken("/bound").Context(ctx) //nolint:fatcontext // it is kept on purpose
		locker = farsync.NewMutex(store, "/locker").Locker(ctx, func(error) {})
		locker.Lock()
	})

	drops("/asked", func() { taken("/asked").Asked() })
	var done <-chan struct{}
	drops("/done", func() { done = taken("/done").Done() })
	drops("/token", func() { taken("/token").Token() })
	drops("/reentrant", func() {
		mu := farsync.NewReentrantMutex(store, "/reentrant")
		outer, err := mu.Lock(ctx)
		require.NoError(t, err)
		_, err = mu.Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, outer.Release())
	})
	drops("/ended", func() {
		under, cancel := context.WithCancel(ctx)
		_, _ = taken("/ended").Context(under) // its parent ends
		cancel()
	})
	drops("/other", func() {
		farsync.NewMutex(store, "/other").Locker(ctx, func(error) {}).Lock()
	})
	both := func() *farsync.MultiLease {
		lease, err := farsync.NewMultiMutex(farsync.NewMutex(store, "/one"), farsync.NewMutex(store, "/two")).Lock(ctx)
		require.NoError(t, err)
		return lease
	}
	var multi <-chan struct{}
	away(func() {
		lease := both()
		lease.Asked()
		multi = lease.Done()
	})
	require.ElementsMatch(t, []string{"/one", "/two"}, []string{<-paths, <-paths})
	select {
	case <-multi:
		require.Fail(t, "it is held")
	default:
	}
	require.NoError(t, bound.Err())
	unbind()
	bound, unbind = nil, nil
	drops("/bound", func() {})

	require.Empty(t, paths, "each is told once, and no other")
	require.NoError(t, kept.Release())
	locker.Unlock()
	require.NoError(t, store.Close())
	<-done // both are closed all the same
	<-multi
}

// TestDroppedLeaseOfAQuorumIsLogged: what takes the members that a QuorumMutex has lost goes on without the lease's user, and is no
// reference to the lease. The members that are held are named, once each, and stay held. A lease that was released, lost, or has a
// context that is alive is not named.
func TestDroppedLeaseOfAQuorumIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paths := make(dropped, 100)
		var services []*farsynctest.Mem
		var stores []*farsync.Store
		for _, name := range []string{"a", "b", "c"} {
			service := farsynctest.NewMem()
			store := service.Open(&farsynctest.MemOptions{Options: farsync.Options{
				Name: name, TTL: time.Second, Logger: slog.New(paths), Trace: &farsync.Trace{Session: func(farsync.TraceSession) { runtime.GC() }},
			}})
			defer store.Close()
			services, stores = append(services, service), append(stores, store)
		}
		taken := func(path string) *farsync.MultiLease {
			var members []*farsync.Mutex
			for _, store := range stores {
				members = append(members, farsync.NewMutex(store, path))
			}
			lease, err := farsync.NewQuorumMutex(members...).Lock(t.Context())
			require.NoError(t, err)
			return lease
		}
		kept := taken("/kept")
		var bound context.Context
		var unbind context.CancelFunc
		var done, lost <-chan struct{}
		away(func() {
			require.NoError(t, taken("/released").Release())
			bound, unbind = taken("/bound").Context(t.Context()) //nolint:fatcontext // it is kept on purpose
			lease := taken("/dropped")
			lease.Asked()
			done = lease.Done()
		})
		var told []string
		time.Sleep(5 * time.Second) //nolint:forbidigo // in a bubble
		require.Contains(t, []int{2, 3}, len(paths), "the collector has run before the keeper has the third member, or after")
		for len(paths) > 0 {
			told = append(told, <-paths)
		}
		for _, path := range told {
			require.Equal(t, "/dropped", path, "told of no other")
		}
		for i, service := range services {
			require.Len(t, service.Entries("/dropped"), 1, "on %d it is kept, and taken where it was not", i)
		}
		require.NoError(t, bound.Err())

		away(func() {
			lease := taken("/lost")
			lost = lease.Done()
			for i, service := range services[:2] {
				service.Expire(stores[i])
			}
			<-lost
			runtime.KeepAlive(lease)
		})
		<-done                      // with it
		time.Sleep(5 * time.Second) //nolint:forbidigo // in a bubble
		require.Empty(t, paths)
		require.Error(t, bound.Err())
		unbind()
		require.Error(t, kept.Release())
	})
}
