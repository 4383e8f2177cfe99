package etcdtest_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
)

// A read of a queue passes over every key that was ever there, until the server compacts them away.
func TestLocksUseTheirKeysAgain(t *testing.T) {
	server, client := begin(t)
	path := newPath(t)
	before, err := client.Get(t.Context(), path)
	require.NoError(t, err)
	const stores, times = 3, 100
	var all sync.WaitGroup
	for range stores {
		store := newStore(t, server.Endpoint(), nil)
		mutex, rw := farsync.NewMutex(store, path+"/m"), farsync.NewRWMutex(store, path+"/rw")
		all.Go(func() {
			for range times {
				for _, lock := range []func() (*farsync.Lease, error){
					func() (*farsync.Lease, error) { return mutex.Lock(t.Context()) },
					func() (*farsync.Lease, error) { return rw.Lock(t.Context()) },
					func() (*farsync.Lease, error) { return rw.RLock(t.Context()) },
				} {
					lease, err := lock()
					if err != nil {
						t.Error(err)
						return
					}
					if err := lease.Release(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	used := map[string]int{}
	for resp := range client.Watch(t.Context(), path, clientv3.WithPrefix(), clientv3.WithRev(before.Header.Revision+1), clientv3.WithFilterDelete()) {
		require.NoError(t, resp.Err())
		for _, e := range resp.Events {
			if !strings.Contains(string(e.Kv.Key), "!turn/") {
				used[string(e.Kv.Key)]++
			}
		}
		total := 0
		for _, n := range used {
			total += n
		}
		if total == stores*times*3 {
			break
		}
	}
	require.Len(t, used, stores*3)
}
