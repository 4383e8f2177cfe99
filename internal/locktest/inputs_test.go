package locktest_test

import (
	"context"
	"testing"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

func TestInputsOfMem(t *testing.T) {
	service := storetest.NewMem()
	locktest.Mistaken{Open: func(ctx context.Context, options farsync.Options) (*farsync.Store, error) {
		store, err := recipe.Open(ctx, service.Service("mistaken"), options)
		if err != nil {
			return nil, &farsync.Error{Op: "open", Path: "Mem", Err: err}
		}
		return store, nil
	}, Opens: "farsync: open Mem: "}.Run(t)
}
