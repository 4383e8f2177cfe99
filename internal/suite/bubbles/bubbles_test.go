package bubbles

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTimersOfOneInstant has goroutines look into the channels of timers whose time has come while the bubble runs others of that
// instant. With the race detector and Go 1.26 the process dies within a second if two threads do so.
func TestTimersOfOneInstant(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(*testing.T) {
			var looked sync.WaitGroup
			for range 200 {
				looked.Add(1)
				due := time.NewTimer(time.Second)
				time.AfterFunc(time.Second, func() {
					defer looked.Done()
					select {
					case <-due.C:
					default:
					}
				})
			}
			looked.Wait()
		})
	}
}
