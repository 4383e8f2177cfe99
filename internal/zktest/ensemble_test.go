package zktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/zk"
)

func restartServers(t *testing.T) {
	t.Run("a session survives the restart of its server", restartServer)
	ensemble := embedtest.ZooKeeperEnsemble(t, 3)
	t.Run("the death of the leader costs nobody a session", func(t *testing.T) { leaderDies(t, ensemble) })
	contenders := contend(t, ensemble, "/contenders")
	t.Run("one holds after a restart of all", func(t *testing.T) {
		contenders.goOn(t)
		require.NoError(t, ensemble.Restart(within(t, 2*soon)))
		contenders.goOn(t)
	})
	t.Run("no waiter holds on the node of its old session", func(t *testing.T) { sessionReplaced(t, ensemble) })
	t.Run("one holds after a long outage", func(t *testing.T) {
		contenders.goOn(t)
		contenders.stop(t)
	})
}

// restartServer is scenario 5: holder and waiter go on as if nothing had been.
func restartServer(t *testing.T) {
	server := embedtest.ZooKeeper(t)
	options := withTTL(20 * time.Second)
	holder, waiter := newTap(t, server.Endpoint()), newTap(t, server.Endpoint())
	lease := lock(t, newStore(t, holder.addr(), options), "/restart")
	granted := lockBehind(t, newStore(t, waiter.addr(), options), "/restart")
	waiter.await(t, opGetData, 1)
	sessions := []int64{holder.sessionID(), waiter.sessionID()}
	require.NoError(t, server.Restart(within(t, 2*soon)))
	require.NoError(t, lease.Err())
	require.Empty(t, granted)
	require.NoError(t, lease.Release())
	next := got(t, granted)
	now := []int64{holder.sessionID(), waiter.sessionID()}
	require.Equal(t, sessions, now)
	require.NoError(t, next.Release())
}

// leaderDies is scenario 20 for a mutex.
func leaderDies(t *testing.T, ensemble *embedtest.ZooKeeperServers) {
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	conn := connTo(t, ensemble.Endpoints())
	var leases []*farsync.Lease
	var granted []chan *farsync.Lease
	for i := range 3 { // each connected to another one at first
		servers := slices.Concat(ensemble.Endpoints()[i:], ensemble.Endpoints()[:i])
		options := withTTL(20 * time.Second)
		path := fmt.Sprint("/leader", i)
		leases = append(leases, lock(t, storeOn(t, servers, options), path))
		granted = append(granted, lockBehind(t, storeOn(t, servers, options), path))
		awaitNodes(t, conn, path, 2)
	}
	ensemble.Member(leader).Kill()
	for i, lease := range leases {
		require.NoError(t, lease.Release())
		require.NoError(t, got(t, granted[i]).Release())
	}
	require.NoError(t, ensemble.Member(leader).Restart(within(t, 2*soon)))
}

// A contest is one lock for which clients of their own contend without end. Scenario 25: whenever one is granted the
// lock, the lease of the one before has ended, whatever happens to the servers.
type contest struct {
	conn    *client.Conn
	path    string
	over    chan struct{}
	all     errgroup.Group
	section *locktest.Section

	mu    sync.Mutex
	last  *farsync.Lease
	times int
}

func contend(t *testing.T, ensemble *embedtest.ZooKeeperServers, path string) *contest {
	c := &contest{conn: connTo(t, ensemble.Endpoints()), path: path, over: make(chan struct{}), section: locktest.NewSection(t, 1)}
	for range 6 {
		mutex := farsync.NewMutex(storeOn(t, ensemble.Endpoints(), withTTL(2*time.Second)), path)
		ctx := within(t, 6*soon)
		c.all.Go(func() error {
			for {
				select {
				case <-c.over:
					return nil
				default:
				}
				lease, err := mutex.Lock(ctx)
				if err != nil {
					return err
				}
				if err := c.hold(lease); err != nil {
					return err
				}
				c.section.Visit(ctx, lease, 1)
				_ = lease.Release() // in an outage it is not confirmed
			}
		})
	}
	return c
}

func (c *contest) hold(lease *farsync.Lease) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case lease.Err() != nil:
		return nil // lost by the time we look: it does not count
	case c.last != nil && c.last.Err() == nil:
		return fmt.Errorf("token %d holds beside token %d", lease.Token(), c.last.Token())
	case c.last != nil && lease.Token() <= c.last.Token():
		return fmt.Errorf("token %d after %d", lease.Token(), c.last.Token())
	}
	c.last = lease
	c.times++
	return nil
}

func (c *contest) served() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times
}

// goOn waits until the lock has gone round some more.
func (c *contest) goOn(t *testing.T) {
	before := c.served()
	await(t, func() bool { return c.served() > before+50 })
}

func (c *contest) stop(t *testing.T) {
	close(c.over)
	require.NoError(t, c.all.Wait())
	awaitNodes(t, c.conn, c.path, 0)
}

// sessionReplaced is CURATOR-604. All servers are away for longer than the sessions of those who wait live. To the
// clients these are over, and they go on in new ones. But servers that start give every session they know of its whole
// timeout anew: the old nodes are still there, and when the holder leaves they are first in their queues.
//
// Curator 5.4.0 takes the lock on such a node, and has it no more when the server ends the old session.
func sessionReplaced(t *testing.T, ensemble *embedtest.ZooKeeperServers) {
	const ttl = 4 * time.Second
	conn := connTo(t, ensemble.Endpoints()) // of a session that lives on
	holders := map[string]string{}
	for _, path := range []string{"/replaced/curator", "/replaced/farsync"} {
		persistent(t, conn, path)
		holder, err := conn.Create(path+"/_c_-lock-", nil, client.FlagEphemeralSequential, client.WorldACL(client.PermAll))
		require.NoError(t, err)
		holders[path] = holder
	}
	curator := newCurator(t, strings.Join(ensemble.Endpoints(), ","), ttl)
	curator.ask(t, "main", "lock", "/replaced/curator")
	theirs := awaitNodes(t, conn, "/replaced/curator", 2)[1]
	var told states
	store := storeOn(t, ensemble.Endpoints(), &zk.Options{Options: farsync.Options{TTL: ttl, OnState: told.hook}})
	granted := lockBehind(t, store, "/replaced/farsync")
	ours := awaitNodes(t, conn, "/replaced/farsync", 2)[1]

	for i := range 3 {
		ensemble.Member(i).Kill()
	}
	told.until(t, farsync.Lost)
	curator.tells(t, "state", "LOST")
	require.NoError(t, ensemble.Restart(within(t, 2*soon)))
	told.until(t, farsync.Connected)
	curator.tells(t, "state", "RECONNECTED")
	for _, holder := range holders {
		await(t, func() bool {
			err := conn.Delete(holder, -1)
			return err == nil || errors.Is(err, client.ErrNoNode)
		})
	}
	there, _, err := conn.Exists(theirs)
	require.NoError(t, err)

	lease := got(t, granted)
	require.NotEqual(t, ours, nodeOf(t, lease))
	require.Equal(t, []string{nodeOf(t, lease)}, nodes(t, conn, "/replaced/farsync"))
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())

	curator.says(t, "main", "locked")
	if !there {
		t.Log("the servers were too slow to show what Curator does: its old node was gone before its new session was there")
		return
	}
	second := lock(t, store, "/replaced/curator")
	require.NoError(t, second.Err())
	require.Equal(t, []string{nodeOf(t, second)}, nodes(t, conn, "/replaced/curator"))
	t.Log("Curator holds on a node that is gone, beside the one who has the lock")
	require.NoError(t, second.Release())
}
