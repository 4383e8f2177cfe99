package compattest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// unequal is what differs between two queues that say the same.
var unequal = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`[A-Z2-7]{26}`), "<id>"},
	{regexp.MustCompile(`\bt[0-9a-f]+\.[0-9a-f]{10}\b`), "<id>"}, // of a mutex on etcd whose release names the next
	{regexp.MustCompile(`_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-`), "_c_<id>-"},
	{regexp.MustCompile(`_c_[A-Z2-7]{12}[0-9]+-`), "_c_<id>-"}, // since names on ZooKeeper are half as long
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`\b(old|new) [12]\b`), "<holder>"},
}

func leveled(line string) string {
	for _, u := range unequal {
		line = u.is.ReplaceAllString(line, u.as)
	}
	return line
}

// etcdWritten reads the keys that begin with a path.
func etcdWritten(t testing.TB, endpoint string) func(t testing.TB, path string) []string {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return func(t testing.TB, path string) (lines []string) {
		resp, err := c.Get(t.Context(), path, clientv3.WithPrefix())
		require.NoError(t, err)
		for _, kv := range resp.Kvs {
			lines = append(lines, leveled(fmt.Sprintf("%s = %q, version %d, leased %t",
				strings.TrimPrefix(string(kv.Key), path), kv.Value, kv.Version, kv.Lease != 0)))
		}
		return lines
	}
}

// zkWritten reads a queue's node and its children.
func zkWritten(t testing.TB, address string) func(t testing.TB, path string) []string {
	c, events, err := client.Connect([]string{address}, 30*time.Second, client.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		for range events {
		}
	})
	return func(t testing.TB, path string) (lines []string) {
		names, _, err := c.Children(path)
		require.NoError(t, err)
		slices.Sort(names)
		for _, name := range append([]string{""}, names...) {
			node := strings.TrimSuffix(path+"/"+name, "/")
			data, stat, err := c.Get(node)
			require.NoError(t, err)
			acl, _, err := c.GetACL(node)
			require.NoError(t, err)
			lines = append(lines, leveled(fmt.Sprintf("/%s = %q, version %d, ephemeral %t, ACL %v",
				name, data, stat.Version, stat.EphemeralOwner != 0, acl)))
		}
		return lines
	}
}
