package drivertest_test

import (
	"testing"

	"github.com/farsync/farsync/driver/drivertest"
	"github.com/farsync/farsync/internal/suite"
)

// TestStore tries every placement of one fault. Under the race detector, which makes it five times as dear, it tries a tenth of them: the
// code that a fault takes is the same in many placements. make test runs it in both ways.
func TestStore(t *testing.T) {
	single, double := 1, 20_000
	switch {
	case suite.More(t, suite.Model):
		double = 2000
	case suite.RaceDetector:
		single = 10
	}
	drivertest.RunStore(t, single, double)
}
