package storetest_test

import (
	"testing"

	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/storetest"
)

func TestStore(t *testing.T) {
	sample := 20_000
	if suite.More(t, suite.Model) {
		sample = 2000
	}
	storetest.RunStore(t, sample)
}
