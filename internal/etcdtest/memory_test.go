//go:build !race

package etcdtest_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// A Lock that waits takes the goroutine that called it, with its stack, and what the Store and its session know of it.
// With the race detector frames are larger.
func TestMemoryOfAWaitingLock(t *testing.T) {
	const waiters, most = 1000, int64(16 << 10)
	server := sharedServer(t)
	path := newPath(t)
	holder := lock(t, newStore(t, server.Endpoint(), nil), path)
	var sent counter
	store := newStore(t, server.Endpoint(), ttl(time.Minute), sent.dial()...)
	used := func() (heap, stack int64, goroutines int) {
		var m runtime.MemStats
		for range 4 { // each halves a stack that is larger than it has to be
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc), int64(m.StackInuse), runtime.NumGoroutine()
	}
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	var all sync.WaitGroup
	crowd := func(n int) {
		for range n {
			all.Go(func() { _, _ = farsync.NewMutex(store, path).Lock(ctx) }) // until it is given up
		}
	}
	crowd(1) // which opens the stream
	sent.sinceWhen(t, "KV/Range", 1)
	heap, stack, goroutines := used()
	crowd(waiters)
	sent.sinceWhen(t, "KV/Range", 2*waiters-126) // of those behind 127 and more, one to find the nearest; of all, one to close the gap
	moreHeap, moreStack, more := used()
	heap, stack = (moreHeap-heap)/waiters, (moreStack-stack)/waiters
	t.Logf("a waiting Lock: %d bytes of heap, %d of stack", heap, stack)
	require.Less(t, heap+stack, most)
	require.Less(t, more-goroutines, waiters+waiters/10, "its own goroutine and no other")
	giveUp()
	all.Wait()
	require.NoError(t, holder.Release())
}
