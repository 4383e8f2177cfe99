package etcdtest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
)

// TestLeaseEndsBeforeTheNextHolderIsGranted: a holder that is cut off from the server has lost its lease,
// and has been told, before anybody else gets the lock. With etcd's own concurrency.Mutex the next holder is first in
// two of three cuts.
//
// Half of the holders are cut off from the server's replies only: it goes on hearing from them, for a while.
func TestLeaseEndsBeforeTheNextHolderIsGranted(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	const ttl, holders = 3 * time.Second, 50
	server := embedtest.Etcd(t)
	next := newStore(t, server.Endpoint(), nil)
	margins := make([]time.Duration, holders)
	var all sync.WaitGroup
	for i := range holders {
		proxy := embedtest.NewProxy(t, server.Endpoint())
		store := newStore(t, "http://"+proxy.Addr(), &etcd.Options{Options: farsync.Options{TTL: ttl}})
		path := fmt.Sprint("/cut/", i)
		lease := lock(t, store, path)
		over := make(chan time.Time, 1)
		all.Go(func() {
			<-lease.Done()
			over <- time.Now()
		})
		granted := lockBehind(t, farsync.NewMutex(next, path))
		all.Go(func() {
			after := <-granted
			// Exactly here the two would be in each other's way.
			now, lost := time.Now(), lease.Err()
			select {
			case <-lease.Done():
			default:
				t.Errorf("cut %d: the next holder is granted, and Done is not closed", i)
			}
			if lost == nil {
				t.Errorf("cut %d: the next holder is granted, and the lease is held", i)
			}
			if after.Token() <= lease.Token() {
				t.Errorf("cut %d: token %d after %d", i, after.Token(), lease.Token())
			}
			// By the clock, however late this goroutine is.
			if kept := now.Sub(lease.Deadline()); kept < ttl/20 {
				t.Errorf("cut %d: the next holder is granted %v after the deadline", i, kept)
			}
			margins[i] = now.Sub(<-over)
			if err := after.Release(); err != nil {
				t.Errorf("cut %d: %v", i, err)
			}
		})
		awaitQueue(t, next, path, 2)
		// Each at another moment between two renewals.
		all.Go(func() {
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
