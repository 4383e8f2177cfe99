package locktest_test

import (
	"context"
	"testing"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
)

// A called is a service with a name.
type called struct{ driver.Service }

func (called) String() string { return "Mem" }

func TestInputsOfMem(t *testing.T) {
	service := farsynctest.NewMem()
	locktest.Mistaken{Open: func(ctx context.Context, options farsync.Options) (*farsync.Store, error) {
		return farsync.Open(ctx, called{service.Service("mistaken")}, &options)
	}, Opens: "farsync: open Mem: "}.Run(t)
}
