package bench

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
)

// BenchmarkSemaphore has 64 contenders, each in a session of its own, take one of 8 units with nothing in between.
func BenchmarkSemaphore(b *testing.B) {
	const size, n = 8, 64
	units := func(store func(b *testing.B) *farsync.Store) func(b *testing.B) []locker {
		return func(b *testing.B) []locker {
			path := newPath()
			list := make([]locker, n)
			for i := range list {
				units := farsync.NewSemaphore(store(b), path, size)
				list[i] = lockerFunc(func(ctx context.Context) error {
					lease, err := units.Acquire(ctx, 1)
					if err != nil {
						return err
					}
					return lease.Release()
				})
			}
			return list
		}
	}
	etcd := embedtest.Etcd(b, embedtest.Bench()).Endpoint()
	zookeeper := embedtest.ZooKeeper(b, embedtest.Bench()).Endpoint()
	for _, p := range []struct {
		name string
		make func(b *testing.B) []locker
	}{
		{"etcd", units(func(b *testing.B) *farsync.Store { return etcdStore(b, etcd) })},
		{"zookeeper", units(func(b *testing.B) *farsync.Store { return zkStore(b, zookeeper) })},
	} {
		b.Run(p.name, func(b *testing.B) {
			list := p.make(b)
			require.NoError(b, list[0].once(b.Context())) // declares the size
			run(b, list)
		})
	}
}
