package etcdtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// TestWaiterOutlivesACompaction: the connection of a watch that was idle for long breaks, and the server has forgotten what the
// watch may have missed. The waiter looks.
func TestWaiterOutlivesACompaction(t *testing.T) {
	suite.Long(t, suite.Etcd, "cuts off a waiter")
	server, admin := beginAlone(t)
	forget := func() {
		for range 10 {
			_, err := admin.Put(within(t, soon), "/elsewhere", "")
			require.NoError(t, err)
		}
		now, err := admin.Get(within(t, soon), "/elsewhere")
		require.NoError(t, err)
		_, err = admin.Compact(within(t, soon), now.Header.Revision, clientv3.WithCompactPhysical())
		require.NoError(t, err)
	}
	for _, meanwhile := range []bool{false, true} {
		t.Run(fmt.Sprint("released meanwhile: ", meanwhile), func(t *testing.T) {
			proxy := embedtest.NewProxy(t, server.Endpoint())
			holder := lock(t, newStore(t, server.Endpoint(), nil), "/compact")
			var sent counter
			store, standing := newStanding(t, "http://"+proxy.Addr(), sent.dial()...)
			waiter := lockBehind(t, store, "/compact")
			standing.Await(t, 1)
			sent.since()
			proxy.Cut()
			if meanwhile {
				require.NoError(t, holder.Release())
			}
			forget()
			proxy.Reset()
			proxy.Heal()
			if !meanwhile {
				sent.sinceWhen(t, "KV/Range", 1)
				standing.Await(t, 1)
				require.Empty(t, waiter)
				require.NoError(t, holder.Release())
			}
			lease := got(t, waiter)
			require.Greater(t, lease.Token(), holder.Token())
			require.NoError(t, lease.Release())
			require.Zero(t, sent.compactions.Load(), "no watch begins in the past")
		})
	}
}

// TestWaiterOutlivesItsConnection has no compaction: the event comes late, or the look does.
func TestWaiterOutlivesItsConnection(t *testing.T) {
	server, _ := begin(t)
	proxy := embedtest.NewProxy(t, server.Endpoint())
	holders := newStore(t, server.Endpoint(), ttl(time.Minute))
	waiters := newStore(t, "http://"+proxy.Addr(), ttl(time.Minute))
	for range 10 {
		holder := lock(t, holders, "/reset")
		waiter := lockBehind(t, waiters, "/reset")
		awaitQueue(t, holders, "/reset", 2)
		proxy.Reset()
		require.NoError(t, holder.Release())
		require.NoError(t, got(t, waiter).Release())
	}
}

// TestWaiterForAPermitIsQuiet: it waits for one entry and for the size, and asks for neither again and again.
func TestWaiterForAPermitIsQuiet(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts requests, and one is made again where an answer takes a second")
	server, admin := begin(t)
	holder, err := farsync.NewSemaphore(newStore(t, server.Endpoint(), nil), "/quiet", 1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	var sent counter
	store, standing := newStanding(t, server.Endpoint(), sent.dial()...)
	sent.since()
	granted := make(chan *farsync.Lease, 1)
	ctx := within(t, soon)
	go func() {
		lease, err := farsync.NewSemaphore(store, "/quiet", 1).Acquire(ctx, 1)
		if err != nil {
			t.Error(err)
		}
		granted <- lease
	}()
	standing.Await(t, 1)
	// It joins, and reads what it waits for; once more if others have written between that and its watch.
	require.Contains(t, []calls{{"KV/Txn": 2}, {"KV/Txn": 3}}, sent.since())
	for range 50 {
		keysOf(t, admin, "/quiet")
	}
	require.Empty(t, sent.since())
	require.NoError(t, holder.Release())
	require.NoError(t, got(t, granted).Release())
}
