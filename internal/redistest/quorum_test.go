package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/redis"
)

const quorumTTL = 2 * time.Second

// A quorum is five servers, and clients with a way of their own to each of them.
type quorum struct {
	testing.TB
	servers []*embedtest.RedisServer
	section *locktest.Section

	mu   sync.Mutex
	won  int           // how often the lock was held
	news chan struct{} // closed when won grows
}

// A voter is one client.
type voter struct {
	*farsync.QuorumMutex
	ways []*embedtest.Proxy
}

func newQuorum(t testing.TB) *quorum {
	q := &quorum{TB: t, section: locktest.NewSection(t, 1), news: make(chan struct{})}
	for range 5 {
		q.servers = append(q.servers, embedtest.Redis(t))
	}
	return q
}

func (q *quorum) voter() *voter {
	v := &voter{}
	var members []*farsync.Mutex
	for i, server := range q.servers {
		proxy := embedtest.NewProxy(q, server.Endpoint())
		store := newStore(q, proxy.Addr(), &redis.Options{Options: farsync.Options{
			TTL: quorumTTL, Name: fmt.Sprint("server-", i), Lazy: true,
		}})
		v.ways, members = append(v.ways, proxy), append(members, farsync.NewMutex(store, "/quorum"))
	}
	v.QuorumMutex = farsync.NewQuorumMutex(members...)
	return v
}

// cut cuts v off from some servers.
func (v *voter) cut(servers ...int) {
	for _, i := range servers {
		v.ways[i].Cut()
	}
}

func (v *voter) heal() {
	for _, way := range v.ways {
		way.Heal()
	}
}

// work locks again and again, until ctx ends.
func (q *quorum) work(ctx context.Context, v *voter) {
	for ctx.Err() == nil {
		lease, err := v.Lock(ctx)
		if err != nil {
			if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
				q.Errorf("lock: %v", err)
				return
			}
			continue
		}
		q.section.Visit(ctx, lease, 1)
		if err := lease.Release(); err != nil && !errors.Is(err, farsync.ErrLost) && !errors.Is(err, farsync.ErrUnavailable) {
			q.Errorf("release: %v", err)
		}
		q.mu.Lock()
		q.won++
		close(q.news)
		q.news = make(chan struct{})
		q.mu.Unlock()
	}
}

// served waits until the lock was held so many times more.
func (q *quorum) served(what string, n int) {
	q.Helper()
	ctx := within(q, soon)
	q.mu.Lock()
	last := q.won + n
	q.mu.Unlock()
	for {
		q.mu.Lock()
		won, news := q.won, q.news
		q.mu.Unlock()
		if won >= last {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			q.Fatalf("%s: the lock was not held %d times", what, n)
		}
	}
}

// empty kills servers and starts them again without their data, all at once.
func (q *quorum) empty(servers ...int) {
	for _, i := range servers {
		q.servers[i].Kill()
	}
	var all sync.WaitGroup
	for _, i := range servers {
		require.NoError(q, q.servers[i].Forget())
		all.Go(func() {
			if err := q.servers[i].Restart(within(q, soon)); err != nil {
				q.Error(err)
			}
		})
	}
	all.Wait()
}

// TestQuorumOfFiveKeepsHoldersApart: clients lock again and again while two of five servers are dead, are restarted without
// their data, and are cut off from some of the clients. The lock goes on being held, by one at a time.
func TestQuorumOfFiveKeepsHoldersApart(t *testing.T) {
	suite.Long(t, suite.Quorum, "kills servers, and cuts clients off")
	t.Parallel()
	q := newQuorum(t)
	voters := []*voter{q.voter(), q.voter(), q.voter()}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, v := range voters {
		for range 2 {
			all.Go(func() { q.work(ctx, v) })
		}
	}
	t.Cleanup(func() { stop(); all.Wait() })
	const rounds = 30
	q.served("five servers", rounds)

	for _, pair := range [][]int{{0, 1}, {1, 3}, {4, 0}} {
		for _, i := range pair {
			q.servers[i].Kill()
		}
		q.served("two are dead", rounds)
		q.empty(pair...)
		q.served("two have come back empty", rounds)
	}
	q.empty(2)
	q.empty(3)
	q.served("two are emptied, one after the other", rounds)
	q.empty(0, 1, 2, 3, 4)
	q.served("all have come back empty", rounds)

	voters[0].cut(0, 1)
	voters[1].cut(3, 4)
	voters[2].cut(0, 2)
	q.served("each has a majority of its own", rounds)
	voters[1].cut(2)
	q.served("one has none", rounds)
	for _, v := range voters {
		v.heal()
	}
	q.served("all is well", rounds)
	voters[0].cut(0, 1, 2)
	voters[1].cut(0, 1, 2)
	voters[2].cut(3, 4)
	q.served("split", rounds)
	for _, v := range voters {
		v.heal()
	}
	q.served("all is well again", rounds)
	stop()
	all.Wait()
	visits, most := q.section.Visits()
	require.Empty(t, q.section.Overlaps())
	t.Logf("held %d times, by %d at a time", visits, most)
}

// TestQuorumIsNotGivenAwayByServersThatForget: a holder is cut off from all, and three of five servers lose their data. What
// it was told counts for as long as it may rely on that.
func TestQuorumIsNotGivenAwayByServersThatForget(t *testing.T) {
	suite.Long(t, suite.Quorum, "kills servers, and cuts clients off")
	t.Parallel()
	q := newQuorum(t)
	a, b := q.voter(), q.voter()
	for range 3 {
		lease, err := a.Lock(within(t, soon))
		require.NoError(t, err)
		leave := q.section.Enter(lease, 1)
		a.cut(0, 1, 2, 3, 4)
		q.empty(0, 1, 2, 3, 4)
		next, err := b.Lock(within(t, soon))
		require.NoError(t, err)
		q.section.Visit(t.Context(), next, 1)
		leave()
		require.ErrorIs(t, lease.Err(), farsync.ErrLost)
		require.Negative(t, time.Until(lease.Deadline()))
		require.ErrorIs(t, lease.Release(), farsync.ErrLost)
		require.NoError(t, next.Release())
		a.heal()
	}
	require.Empty(t, q.section.Overlaps())
}

// TestQuorumDoesNotWaitForTheSilence: a server that grants nothing after a restart is passed over, and the lease of another
// client outlives that restart.
func TestQuorumDoesNotWaitForTheSilence(t *testing.T) {
	suite.Long(t, suite.Quorum, "kills a server")
	t.Parallel()
	server := []*embedtest.RedisServer{embedtest.Redis(t), embedtest.Redis(t), embedtest.Redis(t)}
	var members []*farsync.Mutex
	var first *farsync.Store
	for i, s := range server {
		store := newStore(t, s.Endpoint(), &redis.Options{Fresh: true, Options: farsync.Options{
			TTL: time.Minute, Name: fmt.Sprint("server-", i),
		}})
		if i == 0 {
			first = store
		}
		members = append(members, farsync.NewMutex(store, "/quorum"))
	}
	mu := farsync.NewQuorumMutex(members...)
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.Zero(t, lease.Tokens()[2])
	require.NoError(t, lease.Release())
	server[0].Kill()
	require.NoError(t, server[0].Restart(within(t, soon))) // with its data: it knows that it was another run
	ctx, cancel := context.WithCancel(within(t, soon))
	defer cancel()
	_, err = farsync.NewMutex(first, "/other").TryLock(ctx) // which tells the Store
	require.ErrorIs(t, err, farsync.ErrUnavailable, "nothing is granted")
	lease, err = mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.Zero(t, lease.Tokens()[0])
	require.NoError(t, lease.Release())
}
