package etcdtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/suite"
)

// TestGuardRefusesAStaleHolder shows a holder that was stopped at the worst moment: it has made its guard, and then
// nothing of it ran until another client had the lock. What it sends now is refused.
func TestGuardRefusesAStaleHolder(t *testing.T) {
	server, client := begin(t)
	admin := administrator{client}
	for _, row := range []struct {
		name string
		cut  func(*embedtest.Proxy)
		long string
	}{
		{"cut off", (*embedtest.Proxy).Cut, ""},
		{"heard, but not to hear", (*embedtest.Proxy).CutReplies, "waits for a TTL of 10 s to end"},
		{"unheard, but to hear", (*embedtest.Proxy).CutRequests, "waits for a TTL of 10 s to end"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.long != "" {
				suite.Long(t, suite.Etcd, row.long)
			}
			t.Parallel()
			path := newPath(t)
			proxy := embedtest.NewProxy(t, server.Endpoint())
			stale := lock(t, newStore(t, "http://"+proxy.Addr(), ttl(10*time.Second)), path)
			write := admin.guard(t, stale)
			row.cut(proxy)
			next := lock(t, newStore(t, server.Endpoint(), ttl(time.Minute)), path)
			require.True(t, admin.guard(t, next)())
			require.False(t, write())
			require.False(t, admin.guard(t, stale)())
			require.Less(t, stale.Token(), next.Token(), "for resources that check tokens themselves")
			require.NoError(t, next.Release())
		})
	}
}

// TestGuardIsOfOneRevision: a key that was made again under the same name is another's.
func TestGuardIsOfOneRevision(t *testing.T) {
	guard := etcd.Guard(made{{Queue: "/a", ID: "/a/m-b", Revision: 7}})
	require.Equal(t, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision("/a/m-b"), "=", int64(7))}, guard)
}

// made are the entries of an owner that holds nothing.
type made []driver.Entry

func (m made) GuardEntries() ([]driver.Entry, error) { return m, nil }
