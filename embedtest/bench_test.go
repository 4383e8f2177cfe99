//go:build unix

package embedtest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
)

func BenchmarkEtcdStart(b *testing.B) {
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				ensemble, err := embedtest.StartEtcd(b.Context(), b.TempDir(), n)
				require.NoError(b, err)
				b.StopTimer()
				require.NoError(b, ensemble.Close())
				b.StartTimer()
			}
		})
	}
}

// BenchmarkEtcdPut compares the server's own port with a proxy in between.
func BenchmarkEtcdPut(b *testing.B) {
	server := embedtest.Etcd(b)
	proxy := embedtest.NewProxy(b, server.Endpoint())
	for name, endpoint := range map[string]string{"direct": server.Endpoint(), "proxy": proxy.Addr()} {
		b.Run(name, func(b *testing.B) {
			client := dial(b, endpoint)
			for b.Loop() {
				_, err := client.Put(b.Context(), "key", "value")
				require.NoError(b, err)
			}
		})
	}
}
