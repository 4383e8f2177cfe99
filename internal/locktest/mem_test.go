package locktest_test

import (
	"testing"
	"testing/synctest"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/driver/drivertest"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
)

func TestMem(t *testing.T) {
	var service *farsynctest.Mem
	locktest.Run(t, locktest.Backend{
		Open: func(t *testing.T) *farsync.Store {
			return service.Open(&farsynctest.MemOptions{Options: farsync.Options{Trace: drivertest.CheckTrace(t)}})
		},
		Expire: func(_ *testing.T, store *farsync.Store) { service.Expire(store) },
		Delete: func(t *testing.T, e driver.Entry) {
			if !service.Delete(e.ID) {
				t.Error("nothing to delete")
			}
		},
		Foreign: func(_ *testing.T, queue string) driver.Entry {
			return driver.Entry{Queue: queue, ID: service.AddForeign(queue, "stranger")}
		},
		Stray: func(_ *testing.T, queue string) driver.Entry {
			return driver.Entry{Queue: queue, ID: service.AddStray(queue, "stray")}
		},
		Beside: func(*testing.T, string) []string { return make([]string, service.Words()) },
		Bubble: true,
		Case: func(t *testing.T, run func(*testing.T)) {
			synctest.Test(t, func(t *testing.T) {
				service = farsynctest.NewMem()
				run(t)
			})
		},
	})
}
