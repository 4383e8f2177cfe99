package locktest_test

import (
	"testing"
	"testing/synctest"

	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

func TestMem(t *testing.T) {
	var service *storetest.Mem
	locktest.Run(t, storetest.Backend{
		Open:   func(*testing.T) storetest.Client { return service.Open(nil) },
		Expire: func(_ *testing.T, c storetest.Client) { service.Expire(c.(*storetest.MemStore)) },
		Delete: func(t *testing.T, e recipe.Entry) {
			if !service.Delete(e.ID) {
				t.Error("nothing to delete")
			}
		},
		Foreign: func(_ *testing.T, queue string) recipe.Entry {
			return recipe.Entry{Queue: queue, ID: service.AddForeign(queue, "stranger")}
		},
		Stray: func(_ *testing.T, queue string) recipe.Entry {
			return recipe.Entry{Queue: queue, ID: service.AddStray(queue, "stray")}
		},
		Case: func(t *testing.T, run func(*testing.T)) {
			synctest.Test(t, func(t *testing.T) {
				service = storetest.NewMem()
				run(t)
			})
		},
	})
}
