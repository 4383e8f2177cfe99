package zk_test

import (
	"context"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/zk"
)

// soon is for what has to happen at all. No test is to get near it.
const soon = 30 * time.Second

func TestMain(m *testing.M) { embedtest.Main(m) }

// newStore returns a Store, closed by t.
func newStore(t testing.TB, server string, options *zk.Options) *zk.Store {
	t.Helper()
	store, err := zk.Open(within(t, soon), []string{server}, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// newConn returns a connection of the stock client's, closed by t.
func newConn(t testing.TB, server string) *client.Conn {
	t.Helper()
	conn, events, err := client.Connect([]string{server}, 10*time.Second,
		client.WithLogInfo(false), client.WithLogger(silent{}))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events {
		}
	})
	return conn
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// noLeaks fails the test if goroutines are left when everything it has opened is closed. Call it first.
func noLeaks(t testing.TB) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// within returns a context for what a server should have done long before.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
