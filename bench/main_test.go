package bench

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	farzk "github.com/farsync/farsync/zk"
)

func TestMain(m *testing.M) { embedtest.Main(m) }

// A locker locks and unlocks.
type locker interface {
	once(ctx context.Context) error
}

// A lockerFunc is a function as a locker.
type lockerFunc func(ctx context.Context) error

func (f lockerFunc) once(ctx context.Context) error { return f(ctx) }

// A peer makes n contenders for one lock, each with a client and a session of its own.
type peer struct {
	name string
	make func(b *testing.B, n int) []locker
}

func etcdClient(b *testing.B, endpoint string) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	require.NoError(b, err)
	b.Cleanup(func() { client.Close() })
	return client
}

func etcdStore(b *testing.B, endpoint string) *farsync.Store {
	store, err := etcd.Open(b.Context(), etcdClient(b, endpoint), nil)
	require.NoError(b, err)
	b.Cleanup(func() { store.Close() })
	return store
}

func zkStore(b *testing.B, endpoint string) *farsync.Store {
	store, err := farzk.Open(b.Context(), []string{endpoint}, nil)
	require.NoError(b, err)
	b.Cleanup(func() { store.Close() })
	return store
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func zkConn(b *testing.B, endpoint string) *zk.Conn {
	conn, events, err := zk.Connect([]string{endpoint}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	require.NoError(b, err)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	b.Cleanup(conn.Close)
	return conn
}
