package etcdtest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

type unitsGrant struct {
	to    *farsync.Semaphore
	lease *farsync.Lease
	err   error
}

// TestTrafficOfAnAcquisitionOfAUnit counts it for 64 contenders for 8 units, with a session each. The oldest holder, the
// second, and so on to the youngest releases in turn, and stands in line again when another has acquired.
//
// A release of the k-th oldest holder is sent to the k waiters that it may let in. Each of them looks, and k−1 of them
// watch again, with a read that closes the gap. With the transaction that joins, the read of the first watch, and the
// delete, that is 2k+2 requests. A watch reads once more where the answer to the read is older than the answer to the
// watch: k more at most. On average k is 4.5.
func TestTrafficOfAnAcquisitionOfAUnit(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts requests while waiters may look by themselves")
	const size, contenders, rounds = 8, 64, 6
	server := sharedServer(t)
	admin := newClient(t, server.Endpoint())
	var (
		sent     counter
		path     = newPath(t)
		sems     []*farsync.Semaphore
		standing []*locktest.Standing
		grants   = make(chan unitsGrant, contenders)
		all      sync.WaitGroup
	)
	defer all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := newClient(t, server.Endpoint(), sent.dial()...)
	for range contenders {
		store, s := standingOn(t, client, 40*turnsAreAwaited)
		sems, standing = append(sems, farsync.NewSemaphore(store, path, size)), append(standing, s)
	}
	join := func(sem *farsync.Semaphore) {
		all.Go(func() {
			lease, err := sem.Acquire(ctx, 1)
			if ctx.Err() == nil {
				grants <- unitsGrant{sem, lease, err}
			}
		})
	}
	resets := func() (n int64) {
		for _, s := range standing {
			n += s.Resets()
		}
		return n
	}
	// stand waits until all wait that do not hold, and so many watches on entries ahead have ended: that of the waiter that
	// was let in must not be sent the next release.
	stand := func(ended int64) {
		require.Eventually(t, func() bool {
			resp, err := admin.Get(t.Context(), path+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			stands := int64(0)
			for _, s := range standing {
				stands += s.Now()
			}
			return err == nil && resp.Count == contenders && stands >= contenders-size && (sent.wideEnded.Load() >= ended || resets() > 0)
		}, soon, time.Millisecond)
	}
	began := time.Now()
	var held []unitsGrant // oldest first
	for i, sem := range sems {
		join(sem)
		awaitKeys(t, admin, path, i+1)
		if i < size {
			held = append(held, <-grants)
			require.NoError(t, held[i].err)
		}
	}
	stand(0)
	sent.since()
	told, ended := sent.wide.Load(), sent.wideEnded.Load()
	for range rounds {
		for k := range size {
			left := held[k].to
			require.NoError(t, held[k].lease.Release())
			held = append(append(held[:k:k], held[k+1:]...), <-grants) // whoever is let in stands behind all who hold
			require.NoError(t, held[size-1].err)
			join(left)
			ended += int64(k + 1)
			stand(ended)
		}
	}
	calls, asked := 0, sent.since()
	for method, n := range asked {
		if strings.HasPrefix(method, "KV/") { // others are for the sessions
			calls += n
		}
	}
	// Events of other watches, of an entry that has been held for seconds, do not count.
	events, each := sent.wide.Load()-told, float64(rounds*size)
	overdue := resets() > 0 || time.Since(began) > locktest.LooksAgain // some have asked again, or looked by themselves
	t.Logf("%.2f events and %.2f calls an acquisition, %s, overdue: %t: %v",
		float64(events)/each, float64(calls)/each, time.Since(began).Round(time.Millisecond), overdue, asked)
	if !overdue {
		require.InDelta(t, 4.5*each, float64(events), 0)
		require.LessOrEqual(t, float64(calls), (2*4.5+2+4.5)*each)
	}
}
