package etcdtest_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/pause"
)

// guarded puts a value if the guard allows it, and reports whether it did.
func guarded(t testing.TB, client *clientv3.Client, guard []clientv3.Cmp, value string) bool {
	resp, err := client.Txn(within(t, soon)).If(guard...).Then(clientv3.OpPut("/resource", value)).Commit()
	require.NoError(t, err)
	return resp.Succeeded
}

// TestGuardCommitsOnlyWhileHeld: the write of a holder that was stopped past its TTL is refused.
func TestGuardCommitsOnlyWhileHeld(t *testing.T) {
	noLeaks(t)
	server := embedtest.Etcd(t)
	client := newClient(t, server.Endpoint())
	mu := farsync.NewMutex(storeOn(t, client, nil), "/guard")
	lease, err := mu.Lock(t.Context())
	require.NoError(t, err)
	guard := etcd.Guard(lease)
	require.True(t, guarded(t, client, guard, "a"))
	require.True(t, guarded(t, client, guard, "b"), "as often as one likes")
	other := newClient(t, server.Endpoint())
	require.True(t, guarded(t, other, etcd.Guard(lease), "c"), "through any client of that etcd")

	require.NoError(t, lease.Release())
	require.False(t, guarded(t, client, guard, "d"), "made while it was held")
	require.False(t, guarded(t, client, etcd.Guard(lease), "e"), "made after")

	next, err := mu.Lock(t.Context())
	require.NoError(t, err)
	require.False(t, guarded(t, client, guard, "f"), "the lease of before, while the same Mutex is held again")
	require.True(t, guarded(t, client, etcd.Guard(next), "g"))
	require.NoError(t, next.Release())
	require.Equal(t, "g", string(getKey(t, client, "/resource")))
}

// TestGuardEndsWithItsTurn has goroutines that share a Mutex wait for each other, so that the lock is handed off where it may.
func TestGuardEndsWithItsTurn(t *testing.T) {
	noLeaks(t)
	server := embedtest.Etcd(t)
	client := newClient(t, server.Endpoint())
	mu := farsync.NewMutex(storeOn(t, client, nil), "/guard")
	for range 10 {
		first, err := mu.Lock(within(t, soon))
		require.NoError(t, err)
		guard := etcd.Guard(first)
		require.True(t, guarded(t, client, guard, "first"))
		next := make(chan *farsync.Lease, 1)
		go func() {
			lease, _ := mu.Lock(t.Context())
			next <- lease
		}()
		require.NoError(t, pause.For(t.Context(), time.Millisecond))
		require.NoError(t, first.Release())
		second := <-next
		require.NotNil(t, second)
		require.False(t, guarded(t, client, guard, "late"))
		require.True(t, guarded(t, client, etcd.Guard(second), "second"))
		require.NoError(t, second.Release())
	}
}

// TestGuardRefusesALostLease, with a holder that does not know yet.
func TestGuardRefusesALostLease(t *testing.T) {
	noLeaks(t)
	server := embedtest.Etcd(t)
	client := newClient(t, server.Endpoint())
	lease := lock(t, storeOn(t, client, nil), "/guard")
	revokeLeaseOf(t, client, keysOf(t, client, "/guard")[0])
	require.NoError(t, lease.Err(), "it has not heard yet")
	require.False(t, guarded(t, client, etcd.Guard(lease), "a"))
	require.ErrorIs(t, lease.Release(), farsync.ErrLost, "nor has it by then")

	store := storeOn(t, client, nil)
	lease = lock(t, store, "/guard")
	guard := etcd.Guard(lease)
	require.NoError(t, store.Close())
	require.False(t, guarded(t, client, guard, "b"))
	require.False(t, guarded(t, client, etcd.Guard(lease), "c"))
}

// TestGuardRefusesALeaseFromElsewhere: a guard says nothing of another lock, of another etcd, or of what was never
// held, although some of that may have the same key or the same revision.
func TestGuardRefusesALeaseFromElsewhere(t *testing.T) {
	noLeaks(t)
	here, there := embedtest.Etcd(t), embedtest.Etcd(t)
	client := newClient(t, here.Endpoint())
	mine := lock(t, storeOn(t, client, nil), "/guard")
	foreign := lock(t, newStore(t, there.Endpoint(), nil), "/guard")
	require.Equal(t, mine.Token(), foreign.Token(), "two young servers are at the same revision")
	require.False(t, guarded(t, client, etcd.Guard(foreign), "a"))
	require.True(t, guarded(t, client, etcd.Guard(mine), "b"))
	for name, h := range map[string]held{
		"nothing":          nil,
		"another's key":    {{Queue: "/guard", ID: "/guard/m-another", Revision: mine.Token().Revision()}},
		"another revision": {{Queue: "/guard", ID: mine.Entries()[0].ID, Revision: mine.Token().Revision() + 1}},
		"one of two":       {mine.Entries()[0], {Queue: "/guard", ID: "/guard/m-another", Revision: 2}},
	} {
		require.False(t, guarded(t, client, etcd.Guard(h), name), name)
	}
	require.Equal(t, "b", string(getKey(t, client, "/resource")))
}

// held is an owner of entries of anybody's making.
type held []driver.Entry

func (h held) Entries() []driver.Entry { return h }

// TestGuardRefusesAStaleHolder shows a holder that was stopped at the worst moment: it has made its guard, and then
// nothing of it ran until somebody else had the lock. What it sends now is refused.
func TestGuardRefusesAStaleHolder(t *testing.T) {
	server, _ := begin(t)
	direct := newClient(t, server.Endpoint())
	for name, cut := range map[string]func(*embedtest.Proxy){
		"cut off":                (*embedtest.Proxy).Cut,
		"heard, but not to hear": (*embedtest.Proxy).CutReplies,
		"unheard, but to hear":   (*embedtest.Proxy).CutRequests,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "/stale/" + rand.Text()
			proxy := embedtest.NewProxy(t, server.Endpoint())
			stale := lock(t, newStore(t, "http://"+proxy.Addr(), short), path)
			guard := etcd.Guard(stale)
			cut(proxy)
			next := lock(t, newStore(t, server.Endpoint(), nil), path)
			require.True(t, guarded(t, direct, etcd.Guard(next), "next"))
			require.False(t, guarded(t, direct, guard, "stale"))
			require.False(t, guarded(t, direct, etcd.Guard(stale), "stale"))
			require.Less(t, stale.Token(), next.Token(), "for resources that check tokens themselves")
			require.NoError(t, next.Release())
		})
	}
}

func getKey(t testing.TB, client *clientv3.Client, key string) []byte {
	resp, err := client.Get(within(t, soon), key)
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	return resp.Kvs[0].Value
}
