package etcdtest_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/suite"
)

// A read of a queue passes over every key that was ever there, until the server compacts them away.
func TestLocksUseTheirKeysAgain(t *testing.T) {
	suite.Long(t, suite.Etcd, "contenders lock 900 times, and their keys are counted")
	server, client := begin(t)
	path := newPath(t)
	before, err := client.Get(t.Context(), path)
	require.NoError(t, err)
	const stores, times = 3, 100
	var all sync.WaitGroup
	var attempts atomic.Int64
	count := farsynctest.InjectorFunc(func(_ context.Context, op farsynctest.Op) farsynctest.Fault {
		if op.Kind == farsynctest.Create || op.Kind == farsynctest.Delete {
			attempts.Add(1)
		}
		return farsynctest.Fault{}
	})
	for range stores {
		service, err := etcd.NewService(newClient(t, server.Endpoint()))
		require.NoError(t, err)
		store, err := farsync.Open(within(t, soon), farsynctest.Inject(service, count), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
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
	require.GreaterOrEqual(t, len(used), stores*3)
	// A request that had no answer in a second, on a busy machine, is made again, and may arrive late. Its key is not used any more.
	again := int(attempts.Load()) - 2*stores*times*3
	require.LessOrEqual(t, len(used), stores*3+again)
	t.Logf("%d requests were made again", again)
}
