package main

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/nested"
	"github.com/farsync/farsync/internal/suite"
)

// A Lock that waits takes the goroutine that called it, with its stack, and what the Store and its session know of it, however
// many are ahead.
func TestMemoryOfALockThatWaits(t *testing.T) {
	suite.Long(t, suite.Etcd, "1,000 waiters, and how much memory each takes")
	suite.Long(t, suite.ZooKeeper, "1,000 waiters, and how much memory each takes")
	for on, most := range map[string]int64{onEtcd: 16 << 10, onZooKeeper: 16 << 10} {
		t.Run(on, func(t *testing.T) { testMemoryOfALockThatWaits(t, on, most) })
	}
}

func testMemoryOfALockThatWaits(t *testing.T, on string, most int64) {
	const waiters = 1000
	used := func() (heap, stack int64, goroutines int) {
		var m runtime.MemStats
		for range 4 { // each halves a stack that is larger than it has to be
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc), int64(m.StackInuse), runtime.NumGoroutine()
	}
	stage, err := newStage(siteFor(t, siteSpec{store: on}), 0, nil)
	require.NoError(t, err)
	t.Cleanup(stage.close)
	open := func() *farsync.Store {
		store, err := storeOf(on).opened(t.Context(), stage)
		require.NoError(t, err)
		return store
	}
	first := open()
	holder, err := farsync.NewMutex(first, stage.path).Lock(t.Context())
	require.NoError(t, err)
	store := open()
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	apart := nested.Under(ctx, nested.Elsewhere{}) // each has an entry of its own
	var all sync.WaitGroup
	crowd := func(n, stand int) {
		for range n {
			all.Go(func() { _, _ = farsync.NewMutex(store, stage.path).Lock(apart) }) // until it is given up
		}
		require.Eventually(t, func() bool {
			list, err := first.Participants(t.Context(), stage.path)
			return err == nil && len(list) == stand
		}, time.Minute, 50*time.Millisecond)
	}
	crowd(1, 2) // which opens what all share
	heap, stack, goroutines := used()
	crowd(waiters, waiters+2)
	require.Eventually(t, func() bool { // once all have their watches
		moreHeap, moreStack, more := used()
		each, own := (moreHeap-heap)/waiters, (moreStack-stack)/waiters
		t.Logf("a waiting Lock: %d bytes of heap, %d of stack", each, own)
		return each+own < most && more-goroutines < waiters+waiters/10 // its own goroutine and no other
	}, time.Minute, 50*time.Millisecond)
	giveUp()
	all.Wait()
	require.NoError(t, holder.Release())
}
