package storetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/farsync/farsync/storetest"
)

func TestMemKeepsTheContract(t *testing.T) {
	defer goleak.VerifyNone(t)
	storetest.RunDriver(t, storetest.NewMem().Backend())
}

func TestMemKeepsTheContractInBubbles(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			m := storetest.NewMem()
			m.SetLatency(latency)
			b := m.Backend()
			b.Case = synctest.Test
			storetest.RunDriver(t, b)
		})
	}
}
