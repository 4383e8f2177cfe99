package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
)

// paths are never used twice.
var paths atomic.Int64

func newPath() string { return fmt.Sprint("/bench/", paths.Add(1)) }

func ours(store func(b *testing.B) *farsync.Store) func(b *testing.B, n int) []locker {
	return func(b *testing.B, n int) []locker {
		path := newPath()
		list := make([]locker, n)
		for i := range list {
			mu := farsync.NewMutex(store(b), path)
			list[i] = lockerFunc(func(ctx context.Context) error {
				lease, err := mu.Lock(ctx)
				if err != nil {
					return err
				}
				return lease.Release()
			})
		}
		return list
	}
}

func etcdPeers(b *testing.B) []peer {
	endpoint := embedtest.Etcd(b, embedtest.Bench()).Endpoint()
	return []peer{
		{"farsync", ours(func(b *testing.B) *farsync.Store { return etcdStore(b, endpoint) })},
		{"concurrency.Mutex", func(b *testing.B, n int) []locker {
			path := newPath()
			list := make([]locker, n)
			for i := range list {
				session, err := concurrency.NewSession(etcdClient(b, endpoint))
				require.NoError(b, err)
				b.Cleanup(func() { session.Close() })
				mu := concurrency.NewMutex(session, path)
				list[i] = lockerFunc(func(ctx context.Context) error {
					if err := mu.Lock(ctx); err != nil {
						return err
					}
					return mu.Unlock(ctx)
				})
			}
			return list
		}},
		{"put+delete", func(b *testing.B, n int) []locker {
			list := make([]locker, n)
			for i := range list {
				client, key := etcdClient(b, endpoint), newPath()
				list[i] = lockerFunc(func(ctx context.Context) error {
					if _, err := client.Put(ctx, key, ""); err != nil {
						return err
					}
					_, err := client.Delete(ctx, key, clientv3.WithPrefix())
					return err
				})
			}
			return list
		}},
	}
}

func zkPeers(b *testing.B) []peer {
	endpoint := embedtest.ZooKeeper(b, embedtest.Bench()).Endpoint()
	return []peer{
		{"farsync", ours(func(b *testing.B) *farsync.Store { return zkStore(b, endpoint) })},
		{"zk.Lock", func(b *testing.B, n int) []locker {
			path := newPath()
			list := make([]locker, n)
			for i := range list {
				mu := zk.NewLock(zkConn(b, endpoint), path, zk.WorldACL(zk.PermAll))
				list[i] = lockerFunc(func(context.Context) error {
					if err := mu.Lock(); err != nil {
						return err
					}
					return mu.Unlock()
				})
			}
			return list
		}},
		{"create+delete", func(b *testing.B, n int) []locker {
			list := make([]locker, n)
			for i := range list {
				conn, node := zkConn(b, endpoint), "/bench-floor-"+strings.ReplaceAll(newPath(), "/", "")
				list[i] = lockerFunc(func(context.Context) error {
					path, err := conn.Create(node, nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
					if err != nil {
						return err
					}
					return conn.Delete(path, -1)
				})
			}
			return list
		}},
	}
}

// BenchmarkEtcd and BenchmarkZooKeeper have n contenders, each in a session of its own, lock and unlock one mutex with
// nothing in between. The last peer is no lock: it is the two writes that any lock has to make, by everybody at once.
func BenchmarkEtcd(b *testing.B) { contend(b, etcdPeers(b)) }

func BenchmarkZooKeeper(b *testing.B) { contend(b, zkPeers(b)) }

func contend(b *testing.B, peers []peer) {
	for _, n := range []int{1, 2, 8, 64} {
		for _, p := range peers {
			b.Run("N="+strconv.Itoa(n)+"/"+p.name, func(b *testing.B) {
				list := p.make(b, n)
				run(b, list)
			})
		}
	}
}

// run shares b.N acquisitions between the contenders.
func run(b *testing.B, list []locker) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ResetTimer()
	for _, l := range list {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := l.once(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acq/s")
}

// BenchmarkGoroutines has the goroutines of one process share one mutex.
func BenchmarkGoroutines(b *testing.B) {
	endpoint := embedtest.Etcd(b, embedtest.Bench()).Endpoint()
	const n = 64
	b.Run("etcd/farsync", func(b *testing.B) {
		mu := farsync.NewMutex(etcdStore(b, endpoint), newPath())
		list := make([]locker, n)
		for i := range list {
			list[i] = lockerFunc(func(ctx context.Context) error {
				lease, err := mu.Lock(ctx)
				if err != nil {
					return err
				}
				return lease.Release()
			})
		}
		run(b, list)
	})
	b.Run("etcd/concurrency.Mutex", func(b *testing.B) {
		client := etcdClient(b, endpoint)
		path := newPath()
		list := make([]locker, n)
		for i := range list {
			// A session each: with a shared one, two goroutines get in.
			session, err := concurrency.NewSession(client)
			require.NoError(b, err)
			b.Cleanup(func() { session.Close() })
			mu := concurrency.NewMutex(session, path)
			list[i] = lockerFunc(func(ctx context.Context) error {
				if err := mu.Lock(ctx); err != nil {
					return err
				}
				return mu.Unlock(ctx)
			})
		}
		run(b, list)
	})
}
