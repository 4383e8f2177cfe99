package mysqltest_test

import (
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// TestBeforeConnectThatBlocks is as a server that does not answer: calls end with their ctx, and Close returns.
func TestBeforeConnectThatBlocks(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	user := strings.ToLower(rand.Text())
	d.exec(t, "CREATE USER "+user)
	d.exec(t, "GRANT ALL ON "+d.name+".* TO "+user)
	goes := make(chan struct{})
	defer close(goes)
	var blocks, panics atomic.Bool
	options := &mysql.Options{BeforeConnect: func(_ context.Context, c *client.Config) error {
		if panics.Load() {
			panic("a bug")
		}
		if blocks.Load() {
			<-goes
		}
		c.User = user
		return nil
	}}
	options.TTL = time.Hour
	store, err := mysql.Open(within(t, soon), d.dsn(), options)
	require.NoError(t, err)
	lock := func() {
		lease, err := farsync.NewMutex(store, "/before").Lock(within(t, soon))
		require.NoError(t, err)
		require.NoError(t, lease.Release())
	}
	lock()
	for _, fails := range []*atomic.Bool{&panics, &blocks} {
		fails.Store(true)
		for err = nil; err == nil; { // a connection may have been about to be made
			for _, p := range d.processes(t) {
				if p["User"] == user {
					_, _ = d.admin.ExecContext(t.Context(), "KILL CONNECTION "+p["Id"]) // it may have gone
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			err = locktest.Returns(t, soon, "Lock", func() error {
				lease, err := farsync.NewMutex(store, "/before").Lock(ctx)
				if err == nil {
					_ = lease.Release()
				}
				return err
			})
			cancel()
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fails.Store(false)
		if fails == &panics {
			lock()
		}
	}
	blocks.Store(suite.More(t, suite.MySQL)) // for 10 s: two attempts to connect
	_ = locktest.Returns(t, soon, "Close", store.Close)
}
