package locktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
)

func TestSilenceOfMem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const silence = time.Minute
		service := farsynctest.NewMem()
		locktest.RunSilence(t, locktest.Silenced{
			Open: func(t testing.TB, options farsync.Options) *farsync.Store {
				store := service.Open(&farsynctest.MemOptions{Options: options})
				t.Cleanup(func() { _ = store.Close() })
				return store
			},
			Restart: func(testing.TB) { service.Restart(silence) },
			End:     func(testing.TB) { time.Sleep(silence) }, //nolint:forbidigo // in a bubble
		})
	})
}
