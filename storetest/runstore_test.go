package storetest_test

import (
	"flag"
	"testing"

	"github.com/farsync/farsync/storetest"
)

var sample = flag.Int("sample", 2000, "place two faults in one of so many ways; 0: in none")

func TestStore(t *testing.T) { storetest.RunStore(t, *sample) }
