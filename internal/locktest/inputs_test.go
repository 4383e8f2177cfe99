package locktest_test

import (
	"context"
	"testing"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/storetest"
)

func TestInputsOfMem(t *testing.T) {
	service := storetest.NewMem()
	locktest.Mistaken{Open: func(ctx context.Context, options farsync.Options) (*farsync.Store, error) {
		return farsync.Open(ctx, service.Service("mistaken"), &options)
	}, Opens: "farsync: open: "}.Run(t)
}
