//go:build unix

package embedtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
)

func BenchmarkStart(b *testing.B) {
	starts := []struct {
		name  string
		start func(context.Context, string, int) (io.Closer, error)
	}{
		{"etcd", func(ctx context.Context, dir string, n int) (io.Closer, error) {
			return embedtest.StartEtcd(ctx, dir, n)
		}},
		{"zookeeper", func(ctx context.Context, dir string, n int) (io.Closer, error) {
			return embedtest.StartZooKeeper(ctx, dir, n)
		}},
	}
	for _, s := range starts {
		for _, n := range []int{1, 3} {
			b.Run(fmt.Sprint(s.name, "/", n), func(b *testing.B) {
				for b.Loop() {
					servers, err := s.start(b.Context(), b.TempDir(), n)
					if errors.Is(err, embedtest.ErrNoZooKeeper) {
						b.Skip(err)
					}
					require.NoError(b, err)
					b.StopTimer()
					require.NoError(b, servers.Close())
					b.StartTimer()
				}
			})
		}
	}
}

// BenchmarkEtcdPut shows what stands in the way: a proxy before a server, and the links between members.
func BenchmarkEtcdPut(b *testing.B) {
	put := func(b *testing.B, endpoint string) {
		client := dial(b, endpoint)
		for b.Loop() {
			_, err := client.Put(b.Context(), "key", "value")
			require.NoError(b, err)
		}
	}
	leader := func(b *testing.B, ensemble *embedtest.EtcdEnsemble) string {
		i, err := ensemble.Leader(b.Context())
		require.NoError(b, err)
		return ensemble.Member(i).Endpoint()
	}
	b.Run("1/direct", func(b *testing.B) { put(b, embedtest.Etcd(b).Endpoint()) })
	b.Run("1/proxy", func(b *testing.B) { put(b, embedtest.NewProxy(b, embedtest.Etcd(b).Endpoint()).Addr()) })
	b.Run("3/direct", func(b *testing.B) { put(b, leader(b, embedtest.EtcdCluster(b, 3, embedtest.Bench()))) })
	b.Run("3/links", func(b *testing.B) { put(b, leader(b, embedtest.EtcdCluster(b, 3))) })
}
