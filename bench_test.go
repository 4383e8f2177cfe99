package farsync_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// BenchmarkFreePair is a Lock and a Release of a mutex that no other client wants.
func BenchmarkFreePair(b *testing.B) {
	store := farsynctest.NewMem().Open(&farsynctest.MemOptions{Options: farsync.Options{Logger: slog.New(slog.DiscardHandler)}})
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
