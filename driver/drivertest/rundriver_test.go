package drivertest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/farsync/farsync/driver/drivertest"
	"github.com/farsync/farsync/farsynctest"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

func TestMemKeepsTheContract(t *testing.T) {
	defer goleak.VerifyNone(t)
	drivertest.RunDriver(t, backendOf(farsynctest.NewMem()))
}

func TestMemKeepsTheContractInBubbles(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			m := farsynctest.NewMem()
			m.SetLatency(latency)
			b := backendOf(m)
			b.Case = synctest.Test
			drivertest.RunDriver(t, b)
		})
	}
}
