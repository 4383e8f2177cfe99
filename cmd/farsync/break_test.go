package main

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/farsynctest"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// TestBreakAsksTheHolderOfItsTokenAlone: a client that comes to hold the lock while break looks at it is not asked in place of the one
// that was shown, nor is another that holds beside it.
func TestBreakAsksTheHolderOfItsTokenAlone(t *testing.T) {
	t.Parallel()
	const path = "/x"
	for _, row := range []struct {
		name     string
		size     int64
		released bool // the holder gives the lock back when break has looked once
		outcome  string
	}{
		{"its holder goes", 1, true, "released"},
		{"another holds, too", 2, false, "broken"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // the holder is asked before the time of --ask has passed
				service := farsynctest.NewMem()
				ttl := farsync.Options{TTL: time.Second}
				holders := service.Open(&farsynctest.MemOptions{Options: ttl})
				lease := func() *farsync.Lease {
					l, err := farsync.NewSemaphore(holders, path, row.size).Acquire(t.Context(), 1)
					require.NoError(t, err)
					return l
				}
				first := lease()
				entry := first.ID()
				var later *farsync.Lease
				change := sync.OnceFunc(func() {
					if row.released {
						require.NoError(t, first.Release())
					}
					later = lease()
				})
				var mu sync.Mutex // the Store takes back what it has told from a goroutine of its own
				lists, told := 0, map[string]bool{}
				breaker, err := farsync.Open(t.Context(), farsynctest.Inject(service.Service("breaker"),
					farsynctest.InjectorFunc(func(_ context.Context, op farsynctest.Op) farsynctest.Fault {
						mu.Lock()
						if op.Kind == farsynctest.Tell {
							told[op.Entry] = true
						}
						if op.Kind == farsynctest.List {
							lists++
						}
						now := op.Kind == farsynctest.List && (lists == 2 || !row.released)
						mu.Unlock()
						if now {
							change()
						}
						return farsynctest.None
					})), &ttl)
				require.NoError(t, err)
				var out bytes.Buffer
				b := &breaking{
					app: &app{json: true, stdout: &out}, path: path, token: first.Token(), yes: true,
					ask: patience{Duration: 100 * time.Millisecond}, wait: patience{Duration: time.Minute},
				}
				err = b.do(t.Context(), breaker, &location.Location{}, nil)
				require.NoError(t, err)
				require.Contains(t, out.String(), row.outcome)
				require.NoError(t, later.Err())
				require.NoError(t, later.Release())
				require.NoError(t, breaker.Close()) // no request is under way any more
				require.Equal(t, map[string]bool{entry: true}, told)
				require.NoError(t, holders.Close())
			})
		})
	}
}
