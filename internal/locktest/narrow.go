package locktest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
)

// A Narrow is a service whose server has room for few connections.
type Narrow struct {
	Open func(ctx context.Context, options farsync.Options) (*farsync.Store, error)
	// Stores are as many as there is room for at two connections each, beside one more Store.
	Stores int
	// Says is what the log is to say of the bound of the server.
	Says string
}

// RunNarrow has the callers of several Stores want more connections than the server has room for. All of them are
// served, the log says how many the server has room for, and no Store loses its session, nor a lease that it has on
// another path. A Store that comes late finds room.
func RunNarrow(t *testing.T, n Narrow) {
	var log Log
	var lost atomic.Int64
	options := farsync.Options{ // a Release waits for an answer for a third of the TTL, which is longer than the test
		TTL: 10 * time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		OnState: func(is farsync.State) {
			if is == farsync.StateLost {
				lost.Add(1)
			}
		},
	}
	open := func(t testing.TB) *farsync.Store {
		store, err := n.Open(Within(t, Soon), options)
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	stores, others := make([]*farsync.Store, n.Stores), make([]*farsync.Lease, n.Stores)
	for i := range stores {
		stores[i] = open(t)
	}
	for i, store := range stores {
		others[i] = Lock(t, store, fmt.Sprint("/narrow/other/", i))
	}
	const paths, callers, times = 3, 2, 10
	var all sync.WaitGroup
	var served atomic.Int64
	ctx := Within(t, 2*Soon)
	for _, store := range stores {
		for i := range paths * callers {
			all.Go(func() {
				for range times {
					lease, err := farsync.NewMutex(store, fmt.Sprint("/narrow/", i%paths)).Lock(ctx)
					if !assert.NoError(t, err) { //nolint:testifylint // not in the test's goroutine
						return
					}
					served.Add(1)
					_ = pause.For(ctx, time.Millisecond)
					if !assert.NoError(t, lease.Release()) {
						return
					}
				}
			})
		}
	}
	require.NoError(t, Lock(t, open(t), "/narrow/late").Release())
	all.Wait()
	t.Logf("%d of %d served", served.Load(), n.Stores*paths*callers*times)
	log.Await(t, "has no room for another connection")
	log.Await(t, n.Says)
	for _, lease := range others {
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release())
	}
	require.Zero(t, lost.Load(), "sessions were lost")
}

// RunFew has callers of a Store with few connections wait for one another, and for callers of another Store, on several
// paths and by several primitives, while it holds a lease.
func RunFew(t *testing.T, few, other *farsync.Store) {
	held := Lock(t, few, "/few/held")
	ctx := Within(t, 2*Soon)
	var all sync.WaitGroup
	for i, store := range []*farsync.Store{few, few, few, few, other, other} {
		path := fmt.Sprint("/few/", i%2)
		for _, take := range []func() (*farsync.Lease, error){
			func() (*farsync.Lease, error) { return farsync.NewMutex(store, path+"/mutex").Lock(ctx) },
			func() (*farsync.Lease, error) { return farsync.NewRWMutex(store, path+"/rw").Lock(ctx) },
			func() (*farsync.Lease, error) { return farsync.NewRWMutex(store, path+"/rw").RLock(ctx) },
			func() (*farsync.Lease, error) { return farsync.NewSemaphore(store, path+"/permits", 2).Acquire(ctx, 1) },
		} {
			all.Go(func() {
				for range 5 {
					lease, err := take()
					if !assert.NoError(t, err) { //nolint:testifylint // not in the test's goroutine
						return
					}
					_ = pause.For(ctx, time.Millisecond)
					if !assert.NoError(t, lease.Release()) {
						return
					}
				}
			})
		}
	}
	all.Wait()
	require.NoError(t, held.Release())
}
