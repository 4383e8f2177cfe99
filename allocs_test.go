package farsync_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/suite"
)

// TestAllocationsOfAFreePair counts what a Lock and a Release of a free mutex allocate, beside what the service in memory
// allocates for the two requests that they make: BenchmarkFreePair shows the sum. Two of them are of runtime.AddCleanup, which
// has a dropped lease told.
func TestAllocationsOfAFreePair(t *testing.T) {
	if suite.RaceDetector {
		t.Skip("the race detector has allocations of its own")
	}
	const most, pairs = 31, 1000
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		ctx, mu := t.Context(), farsync.NewMutex(one, "/a")
		pair := testing.AllocsPerRun(pairs, func() {
			lease, err := mu.Lock(ctx)
			if err == nil {
				err = lease.Release()
			}
			if err != nil {
				t.Error(err)
			}
		})
		in, err := service.Service("bare").Open(ctx, time.Hour)
		require.NoError(t, err)
		value := []byte("bare")
		requests := testing.AllocsPerRun(pairs, func() {
			e := driver.Entry{Queue: "/b", ID: in.NewID("/b", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1, Value: value}
			v, err := in.Create(ctx, e, 0)
			if err == nil {
				_, _, err = in.Delete(ctx, v.Self)
			}
			if err != nil {
				t.Error(err)
			}
		})
		require.NoError(t, in.Close(ctx))
		assert.LessOrEqual(t, pair-requests, float64(most), "%v in all, %v of them of the service", pair, requests)
	})
}
