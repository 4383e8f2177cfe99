package locktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

func TestHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := farsynctest.NewMem()
		RunHung(t, Hung{
			Open: func(t *testing.T, o farsync.Options) *farsync.Store {
				store := m.Open(&farsynctest.MemOptions{Options: o})
				t.Cleanup(func() { _ = store.Close() })
				return store
			},
			TTL: 10 * time.Second, Long: time.Hour,
			Freeze: m.Freeze, Resume: m.Resume, Most: 5 * time.Second,
		})
	})
}
