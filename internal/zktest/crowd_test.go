package zktest

import (
	"context"
	"flag"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/zk"
)

// crowd is how many goroutines wait for one lock at the same time.
var crowd = flag.Int("crowd", 1000, "goroutines that wait for one lock of one Store; from 10000 on beside zk.Lock")

// TestCrowdIsServedAndCostsNoSession: each that joins reads the queue, which is long, and the renewal of the session
// waits for its turn among the answers.
func TestCrowdIsServedAndCostsNoSession(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "a crowd of a thousand")
	server, conn := begin(t)
	t.Run("an entry each", func(t *testing.T) {
		store, done := crowded(t, server)
		serve(locktest.Apart(t.Context()), t, farsync.NewMutex(store, "/crowd/own"))
		done()
	})
	t.Run("one line", func(t *testing.T) {
		store, done := crowded(t, server)
		serve(t.Context(), t, farsync.NewMutex(store, "/crowd/one"))
		done()
	})
	if *crowd >= 10_000 {
		t.Run("zk.Lock", func(t *testing.T) { stockCrowd(t, conn) })
	}
}

// crowded returns a Store which holds another lock. When the crowd was served, done must be called.
func crowded(t *testing.T, server string) (store *farsync.Store, done func()) {
	var lost atomic.Int64
	store = newStore(t, server, &zk.Options{Options: farsync.Options{TTL: 20 * time.Second, OnState: func(s farsync.State) {
		if s == farsync.StateLost {
			lost.Add(1)
		}
	}}})
	other := lock(t, store, "/crowd/other")
	return store, func() {
		require.NoError(t, other.Err())
		require.NoError(t, other.Release())
		require.Zero(t, lost.Load(), "sessions")
	}
}

// serve has all wait at the same time, and each hold once.
func serve(ctx context.Context, t *testing.T, mu *farsync.Mutex) {
	begun := time.Now()
	first := make(chan time.Time, *crowd)
	section := locktest.NewSection(t, 1)
	var all sync.WaitGroup
	for range *crowd {
		all.Go(func() {
			lease, err := mu.Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			first <- time.Now()
			section.Visit(ctx, lease, 1)
			if err := lease.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	t.Logf("%d served in %v, the first after %v", *crowd, time.Since(begun).Round(time.Millisecond), (<-first).Sub(begun).Round(time.Millisecond))
}

// stockCrowd does the same with the client library's lock, for as long as a minute.
func stockCrowd(t *testing.T, conn *client.Conn) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var served, failed atomic.Int64
	var all sync.WaitGroup
	for range *crowd {
		all.Go(func() {
			l := client.NewLock(conn, "/crowd/stock", client.WorldACL(client.PermAll))
			if err := l.Lock(); err != nil {
				failed.Add(1)
				return
			}
			if ctx.Err() == nil {
				served.Add(1)
			}
			_ = l.Unlock()
		})
	}
	context.AfterFunc(ctx, conn.Close)
	all.Wait()
	t.Logf("zk.Lock: %d served, %d failed, in %v", served.Load(), failed.Load(), time.Since(begun).Round(time.Millisecond))
}
