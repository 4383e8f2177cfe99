package farsync_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// A goroutine that waits in the line of a path takes its place in the line, and its stack.
func TestMemoryOfAWaitingLock(t *testing.T) {
	const waiters, most = 5000, int64(6 << 10)
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		lease := lock(t, farsync.NewMutex(one, "/a"))
		mu := farsync.NewMutex(two, "/a")
		used := func() int64 {
			synctest.Wait()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc + m.StackInuse)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		before := used()
		for range waiters {
			all.Go(func() { _, _ = mu.Lock(ctx) })
		}
		each := (used() - before) / waiters
		require.Less(t, each, most)
		t.Logf("%d bytes each", each)
		require.Len(t, service.Entries("/a"), 2)
		cancel()
		all.Wait()
		require.NoError(t, lease.Release())
	})
}
