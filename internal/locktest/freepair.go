package locktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// BenchFreePair measures a Lock and a Release of a mutex that no other client wants, by a Store in memory with the
// options.
func BenchFreePair(b *testing.B, o farsync.Options) {
	b.Helper()
	store := farsynctest.NewMem().Open(&farsynctest.MemOptions{Options: o})
	defer func() { require.NoError(b, store.Close()) }()
	mu := farsync.NewMutex(store, "/a")
	b.ReportAllocs()
	for b.Loop() {
		lease, err := mu.Lock(b.Context())
		if err == nil {
			err = lease.Release()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
