package redistest_test

import (
	"flag"
	"testing"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

var cuts = flag.Int("cuts", 12, "holders that are cut off from the server")

// TestLeaseEndsBeforeTheNextHolderIsGranted: a holder that is cut off from the server has lost its lease, and has been told,
// before another gets the lock. Half of the holders are cut off from the server's replies only: it goes on hearing from
// them, for a while.
func TestLeaseEndsBeforeTheNextHolderIsGranted(t *testing.T) {
	suite.Long(t, suite.Redis, "cuts holders with a TTL of 3 s off from the server")
	t.Parallel()
	const ttl = 3 * time.Second
	server := embedtest.Redis(t)
	locktest.RunLosses(t, locktest.Losses{
		TTL: ttl, Holders: *cuts, Next: newStore(t, server.Endpoint(), fresh(ttl)),
		Open: func(t *testing.T, i int) (*farsync.Store, func()) {
			proxy := embedtest.NewProxy(t, server.Endpoint())
			store := newStore(t, proxy.Addr(), fresh(ttl))
			t.Cleanup(proxy.Heal) // so that the Store is closed without waiting for an answer
			if i%2 == 0 {
				return store, proxy.Cut
			}
			return store, proxy.CutReplies
		},
	})
}
