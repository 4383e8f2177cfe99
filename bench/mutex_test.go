package bench

import (
	"context"
	"fmt"
	"slices"
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
				list[i] = concurrencyMutex(b, etcdClient(b, endpoint), path)
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
	each := make([]int, len(list))
	var all sync.WaitGroup
	b.ResetTimer()
	for i, l := range list {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := l.once(b.Context()); err != nil {
					b.Error(err)
					return
				}
				each[i]++
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acq/s")
	b.ReportMetric(jain(each), "jain")
}

// BenchmarkGoroutines has the goroutines of one process share one mutex. The peers have no more to share than a client: a
// goroutine of theirs locks for itself. Jain is how evenly the acquisitions are spread: 1 if all have as many.
func BenchmarkGoroutines(b *testing.B) {
	etcd := embedtest.Etcd(b, embedtest.Bench()).Endpoint()
	zookeeper := embedtest.ZooKeeper(b, embedtest.Bench()).Endpoint()
	const n = 64
	shared := func(store func(b *testing.B) *farsync.Store) func(b *testing.B) []locker {
		return func(b *testing.B) []locker {
			mu := farsync.NewMutex(store(b), newPath())
			return slices.Repeat([]locker{lockerFunc(func(ctx context.Context) error {
				lease, err := mu.Lock(ctx)
				if err != nil {
					return err
				}
				return lease.Release()
			})}, n)
		}
	}
	for _, p := range []struct {
		name string
		make func(b *testing.B) []locker
	}{
		{"etcd/farsync", shared(func(b *testing.B) *farsync.Store { return etcdStore(b, etcd) })},
		{"etcd/concurrency.Mutex", func(b *testing.B) []locker {
			client, path := etcdClient(b, etcd), newPath()
			list := make([]locker, n)
			for i := range list {
				// A session each: with a shared one, two goroutines get in.
				list[i] = concurrencyMutex(b, client, path)
			}
			return list
		}},
		{"zookeeper/farsync", shared(func(b *testing.B) *farsync.Store { return zkStore(b, zookeeper) })},
		{"zookeeper/zk.Lock", func(b *testing.B) []locker {
			conn, path := zkConn(b, zookeeper), newPath()
			list := make([]locker, n)
			for i := range list {
				mu := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
				list[i] = lockerFunc(func(context.Context) error {
					if err := mu.Lock(); err != nil {
						return err
					}
					return mu.Unlock()
				})
			}
			return list
		}},
	} {
		b.Run(p.name, func(b *testing.B) { run(b, p.make(b)) })
	}
}

// concurrencyMutex locks with etcd's own lock, by a session of its own.
func concurrencyMutex(b *testing.B, client *clientv3.Client, path string) locker {
	session, err := concurrency.NewSession(client)
	require.NoError(b, err)
	b.Cleanup(func() { session.Close() })
	mu := concurrency.NewMutex(session, path)
	return lockerFunc(func(ctx context.Context) error {
		if err := mu.Lock(ctx); err != nil {
			return err
		}
		return mu.Unlock(ctx)
	})
}

// jain is the fairness index of Jain, Chiu and Hawe (1984): from 1/n, where one has all, to 1, where all have the same.
func jain(counts []int) float64 {
	sum, squares := 0.0, 0.0
	for _, n := range counts {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(counts)) * squares)
}
