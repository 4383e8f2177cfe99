package redistest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
)

// TestLeaseEndsBeforeTheNextHolderIsGranted: a holder that is cut off from the server has lost its lease, and has been told,
// before another gets the lock. Half of the holders are cut off from the server's replies only: it goes on hearing from
// them, for a while.
func TestLeaseEndsBeforeTheNextHolderIsGranted(t *testing.T) {
	noLeaks(t)
	const ttl, holders = 3 * time.Second, 50
	server := embedtest.Redis(t)
	next := newStore(t, server.Endpoint(), fresh(ttl))
	admin := newClient(t, server.Endpoint())
	margins := make([]time.Duration, holders)
	var all sync.WaitGroup
	for i := range holders {
		proxy := embedtest.NewProxy(t, server.Endpoint())
		store := newStore(t, proxy.Addr(), fresh(ttl))
		path := fmt.Sprint("/cut/", i)
		section := locktest.NewSection(t, 1)
		lease := lock(t, store, path)
		leave := section.Enter(lease, 1)
		over := make(chan time.Time, 1)
		all.Go(func() {
			<-lease.Done()
			over <- time.Now()
		})
		all.Go(func() {
			after, err := farsync.NewMutex(next, path).Lock(within(t, soon))
			if err != nil {
				t.Error(err)
				return
			}
			now := time.Now()
			section.Visit(t.Context(), after, 1)
			leave()
			if after.Token() <= lease.Token() {
				t.Errorf("cut %d: token %d after %d", i, after.Token(), lease.Token())
			}
			// By the clock, however late this goroutine is.
			if kept := now.Sub(lease.Deadline()); kept < ttl/20 {
				t.Errorf("cut %d: the next holder is granted %v after the deadline", i, kept)
			}
			margins[i] = now.Sub(<-over)
			if err := after.Release(); err != nil {
				t.Error(err)
			}
		})
		for n := int64(0); n < 2; {
			var err error
			if n, err = admin.ZCard(within(t, soon), prefix+"q:"+path).Result(); err != nil {
				t.Fatal(err)
			}
		}
		all.Go(func() { // each at another moment between two renewals
			<-time.After(time.Duration(i) * time.Second / holders)
			if i%2 == 0 {
				proxy.Cut()
			} else {
				proxy.CutReplies()
			}
		})
	}
	all.Wait()
	least := [2]time.Duration{time.Hour, time.Hour}
	for i, margin := range margins {
		least[i%2] = min(least[i%2], margin)
	}
	t.Logf("%d cuts: a lease ended at least %v before the next was granted; %v where requests went on to arrive",
		holders, least[0].Round(time.Millisecond), least[1].Round(time.Millisecond))
}
