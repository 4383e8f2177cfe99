package farsync_test

import (
	"log/slog"
	"testing"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
)

// BenchmarkFreePair is a Lock and a Release of a mutex that no other client wants.
func BenchmarkFreePair(b *testing.B) {
	locktest.BenchFreePair(b, farsync.Options{Logger: slog.New(slog.DiscardHandler)})
}
