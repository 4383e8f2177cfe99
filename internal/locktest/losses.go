package locktest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/farsync/farsync"
)

// Losses are holders that are cut off from their service, one after the other, and a client that waits for each.
type Losses struct {
	// TTL is the holders' TTL, and Holders how many there are.
	TTL     time.Duration
	Holders int
	// Open returns a Store of its own for a holder, and what cuts it off: from both directions, or from the service's answers
	// alone where i is odd, while the service still hears of it.
	Open func(t *testing.T, i int) (store *farsync.Store, cut func())
	// Next is the client that waits.
	Next *farsync.Store
}

// atOnce is how many holders are there at the same time.
const atOnce = 50

// RunLosses makes sure that each holder has lost its lease, and been told, before another client is granted the lock. It
// looks as soon as that one is, and with both at once in a Section.
func RunLosses(t *testing.T, l Losses) {
	margins := make([]time.Duration, l.Holders)
	for from := 0; from < l.Holders; from += atOnce {
		t.Run(fmt.Sprint("from ", from), func(t *testing.T) { l.run(t, margins, from, min(from+atOnce, l.Holders)) })
	}
	least := [2]time.Duration{time.Hour, time.Hour}
	for i, margin := range margins {
		least[i%2] = min(least[i%2], margin)
	}
	t.Logf("%d cuts: a lease ended at least %v before the next was granted; %v where requests went on to arrive",
		l.Holders, least[0].Round(time.Millisecond), least[1].Round(time.Millisecond))
}

// run has some holders lose their leases. Their Stores end with t.
func (l Losses) run(t *testing.T, margins []time.Duration, from, to int) {
	var all sync.WaitGroup
	for i := from; i < to; i++ {
		store, cut := l.Open(t, i)
		path := fmt.Sprint("/cut/", i)
		section := NewSection(t, 1)
		lease := Lock(t, store, path)
		leave := section.Enter(lease, 1)
		over := make(chan time.Time, 1)
		all.Go(func() {
			<-lease.Done()
			over <- time.Now()
		})
		granted := LockBehind(t, l.Next, path)
		AwaitQueue(t, l.Next, path, 2)
		all.Go(func() {
			after := <-granted
			now, lost := time.Now(), lease.Err() // exactly here the two would be in each other's way
			select {
			case <-lease.Done():
			default:
				t.Errorf("cut %d: the next holder is granted, and Done is not closed", i)
			}
			if lost == nil {
				t.Errorf("cut %d: the next holder is granted, and the lease is held", i)
			}
			section.Visit(t.Context(), after, 1)
			leave()
			if after.Token() <= lease.Token() {
				t.Errorf("cut %d: token %d after %d", i, after.Token(), lease.Token())
			}
			if kept := now.Sub(lease.Deadline()); kept < l.TTL/20 { // by the clock, however late this goroutine is
				t.Errorf("cut %d: the next holder is granted %v after the deadline", i, kept)
			}
			margins[i] = now.Sub(<-over)
			if err := giveBack(after); err != nil {
				t.Errorf("cut %d: %v", i, err)
			}
		})
		all.Go(func() { // each at another moment between two renewals
			<-time.After(time.Duration(i-from) * time.Second / time.Duration(to-from))
			cut()
		})
	}
	all.Wait()
}
