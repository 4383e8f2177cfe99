package zktest

import (
	"errors"
	"flag"
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
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/zk"
)

// partings is how many locks are lost at each TTL, for each way to part a leader from its followers.
var partings = flag.Int("partings", 10, "locks to lose at each TTL, for each parting of a leader and its followers")

// tick is that of the servers here.
const tick = 500 * time.Millisecond

// TestOutages does to servers what may happen to them. Three of them suffer one thing after the other.
func TestOutages(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "stops, kills and isolates servers of an ensemble")
	begin(t)
	t.Run("one ensemble", func(t *testing.T) {
		t.Parallel()
		ensemble := embedtest.ZooKeeperEnsemble(t, 3)
		t.Run("one of three servers is silent", func(t *testing.T) { oneIsSilent(t, ensemble) })
		t.Run("a follower is cut off", func(t *testing.T) { cutFollowers(t, ensemble) })
		t.Run("the leader is cut off", func(t *testing.T) { parting{}.cutLeaders(t, ensemble) })
		t.Run("the leader stalls and is cut off", func(t *testing.T) { parting{stall: 900 * time.Millisecond}.cutLeaders(t, ensemble) })
		t.Run("the leader dies", func(t *testing.T) { leaderDies(t, ensemble) })
		contenders := contend(t, ensemble, "/contenders")
		contenders.goOn(t)
		t.Run("all are restarted", func(t *testing.T) { sessionReplaced(t, ensemble) })
		contenders.goOn(t)
		contenders.stop(t)
	})
	t.Run("the leader is cut off and the others restarted", func(t *testing.T) {
		t.Parallel()
		// A leader that waits longer for its followers than they take to start anew.
		parting{restart: true}.cutLeaders(t, embedtest.ZooKeeperEnsemble(t, 3, embedtest.Ticks(tick, 20)))
	})
}

// oneIsSilent: a member is stopped, and takes connections and requests all the same. It costs its clients some time, and
// nothing else: what is free is locked, what is contended goes round, what is held stays held for longer than a session
// lives, and what is released is gone.
func oneIsSilent(t *testing.T, ensemble *embedtest.ZooKeeperServers) {
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	silent := (leader + 1) % 3
	var servers []string
	var taps []*tap
	for _, server := range ensemble.Endpoints() {
		taps = append(taps, newTap(t, server))
		servers = append(servers, taps[len(taps)-1].addr())
	}
	const ttl = 4 * time.Second
	var stores []*farsync.Store
	var held []*farsync.Lease
	for len(stores) < 6 || taps[silent].connections() < 2 {
		store := storeOn(t, servers, withTTL(ttl))
		stores = append(stores, store)
		held = append(held, lock(t, store, fmt.Sprint("/silent/held", len(held))))
	}

	ensemble.Member(silent).Pause()
	defer ensemble.Member(silent).Resume()
	begun := time.Now()
	var all errgroup.Group
	for i, store := range stores {
		all.Go(func() error {
			for round := 0; round < 3 || time.Since(begun) < 3*ttl/2; round++ {
				for _, path := range []string{fmt.Sprintf("/silent/free%d.%d", i, round), "/silent/contended"} {
					lease, err := farsync.NewMutex(store, path).Lock(within(t, 2*soon))
					if err != nil {
						return err
					}
					if err := lease.Release(); err != nil {
						return err
					}
				}
			}
			return held[i].Err()
		})
	}
	require.NoError(t, all.Wait())
	for _, lease := range held {
		require.NoError(t, lease.Release())
	}
	conn := newConn(t, ensemble.Member(leader).Endpoint())
	require.Empty(t, nodes(t, conn, "/silent/contended"))
	for i := range held {
		require.Empty(t, nodes(t, conn, fmt.Sprint("/silent/held", i)))
	}
}

// cutFollowers is the hardest form: the server of the holder answers it as if nothing were the matter, but for
// Syncs, and its leader hears no more of the session.
func cutFollowers(t *testing.T, ensemble *embedtest.ZooKeeperServers) {
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	const ttl, rounds, holders = 4 * time.Second, 2, 12
	var losses []*loss
	for round := range rounds {
		follower, other := (leader+1+round%2)%3, (leader+2-round%2)%3
		var cut []*loss
		for i := range holders {
			next := []int{leader, other}[i%2]
			cut = append(cut, newLoss(t, newStore(t, ensemble.Member(follower).Endpoint(), withTTL(ttl)),
				newStore(t, ensemble.Member(next).Endpoint(), nil), fmt.Sprintf("/loss/follower%d.%d", round, i)))
			pause(t, ttl/4/holders) // so that the cut comes right after a Sync of some
		}
		losses = append(losses, cut...)
		isolate(t, ensemble, follower, cut, func() { ensemble.Isolate(follower) })
	}
	report(t, ttl, losses)
}

// A parting is a way to part a leader from its followers, with its clients on its side: the leader goes on
// answering what needs no quorum, Syncs among them, until it has heard nothing of its followers for syncLimit. They elect
// another, which gives every session its whole timeout anew and then ends it. The old leader cannot commit anything, so
// none of a holder's proposals is answered.
type parting struct {
	// stall is for how long the leader was stopped before. It does not count the ticks of that time, but its followers do.
	stall time.Duration
	// restart has the followers start anew. They elect another leader at once, not when syncLimit is over.
	restart bool
}

// cutLeaders parts leaders from their followers until enough locks were lost, at TTLs of 2, 3 and 5 ticks.
func (p parting) cutLeaders(t *testing.T, ensemble *embedtest.ZooKeeperServers) {
	ttls := []time.Duration{2 * tick, 3 * tick, 5 * tick}
	lost := map[time.Duration][]*loss{}
	for round := 0; len(lost[ttls[0]]) < *partings; round++ {
		leader, err := ensemble.Leader(within(t, soon))
		require.NoError(t, err)
		followers := slices.Delete(ensemble.Endpoints(), leader, leader+1)
		waiters := storeOn(t, followers, withTTL(20*time.Second))
		now := map[time.Duration][]*loss{}
		var all []*loss
		for i := range min(25, *partings) {
			for _, ttl := range ttls { // in turn, so that renewals come at all times
				l := newLoss(t, newStore(t, ensemble.Member(leader).Endpoint(), withTTL(ttl)), waiters,
					fmt.Sprintf("/parting/%v.%v/%v.%d.%d", p.stall, p.restart, ttl, round, i))
				now[ttl] = append(now[ttl], l)
				all = append(all, l)
			}
		}
		isolate(t, ensemble, leader, all, func() { p.cut(t, ensemble, leader) })
		for ttl, losses := range now {
			lost[ttl] = append(lost[ttl], losses...)
		}
		require.NoError(t, waiters.Close())
	}
	for _, ttl := range ttls {
		report(t, ttl, lost[ttl])
	}
}

// cut parts the leader from the others.
func (p parting) cut(t *testing.T, ensemble *embedtest.ZooKeeperServers, leader int) {
	if p.stall > 0 {
		ensemble.Member(leader).Pause()
		pause(t, p.stall)
	}
	ensemble.Isolate(leader)
	ensemble.Member(leader).Resume()
	if !p.restart {
		return
	}
	var followers errgroup.Group
	for _, i := range []int{(leader + 1) % 3, (leader + 2) % 3} {
		ensemble.Member(i).Kill()
	}
	for _, i := range []int{(leader + 1) % 3, (leader + 2) % 3} {
		followers.Go(func() error { return ensemble.Member(i).Restart(within(t, 2*soon)) })
	}
	if err := followers.Wait(); err != nil {
		t.Error(err)
	}
}

// isolate cuts a member off, as cut does it, until the losses have happened.
func isolate(t *testing.T, ensemble *embedtest.ZooKeeperServers, member int, losses []*loss, cut func()) {
	t.Helper()
	cut = sync.OnceFunc(cut)
	var all errgroup.Group
	for _, l := range losses {
		all.Go(func() error { return l.happen(cut) })
	}
	err := all.Wait()
	ensemble.Heal()
	require.NoError(t, err)
	await(t, func() bool {
		reply, err := ensemble.Member(member).FourLetter(within(t, soon), "srvr")
		return err == nil && strings.Contains(reply, "Mode: follower")
	})
}

// A loss is one lock whose holder loses it, while another client waits for it.
type loss struct {
	path    string
	holder  *farsync.Store
	lease   *farsync.Lease
	granted <-chan *farsync.Lease
	margin  time.Duration // between the end of the one lease and the next; negative if both have held
}

// newLoss has one client hold the lock and another wait for it.
func newLoss(t *testing.T, holder, next *farsync.Store, path string) *loss {
	t.Helper()
	l := &loss{path: path, holder: holder, lease: lock(t, holder, path), granted: lockBehind(t, next, path)}
	awaitQueue(t, holder, path, 2)
	return l
}

// happen cuts the line, and waits until the next one holds.
func (l *loss) happen(cut func()) error {
	ended := make(chan time.Time, 1)
	go func() { // ends with the lease
		<-l.lease.Done()
		ended <- time.Now()
	}()
	cut()
	next := <-l.granted
	granted := time.Now()
	select {
	case <-l.lease.Done():
		l.margin = max(granted.Sub(<-ended), 1)
	default:
		l.margin = granted.Sub(<-ended)
	}
	defer func() {
		_ = next.Release()
		_ = l.holder.Close() // all at the same time, for it takes a moment
	}()
	switch {
	case l.lease.Err() == nil:
		return fmt.Errorf("%s: done, and no error", l.path)
	case next.Token() <= l.lease.Token():
		return fmt.Errorf("%s: token %d after %d", l.path, next.Token(), l.lease.Token())
	}
	return nil
}

// report says how it went. In none of the losses may two have held.
func report(t *testing.T, ttl time.Duration, losses []*loss) {
	t.Helper()
	margins := make([]time.Duration, len(losses))
	overlaps := 0
	for i, l := range losses {
		margins[i] = l.margin.Round(time.Millisecond)
		if l.margin <= 0 {
			overlaps++
		}
	}
	slices.Sort(margins)
	t.Logf("%d losses, TTL %v: held by two %d; the next held after the lease had ended for %v at least, %v in the middle, %v at most",
		len(losses), ttl, overlaps, margins[0], margins[len(margins)/2], margins[len(margins)-1])
	if overlaps > 0 {
		t.Error("held by two")
	}
}

// leaderDies costs no client its session.
func leaderDies(t *testing.T, ensemble *embedtest.ZooKeeperServers) {
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	conn := newConn(t, ensemble.Endpoints()...)
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

// A contest is one lock for which clients of their own contend without end: whenever one is granted the lock, the lease of
// the one before has ended, whatever happens to the servers.
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
	c := &contest{conn: newConn(t, ensemble.Endpoints()...), path: path, over: make(chan struct{}), section: locktest.NewSection(t, 1)}
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
func sessionReplaced(t *testing.T, ensemble *embedtest.ZooKeeperServers) {
	const ttl, path = 4 * time.Second, "/replaced"
	conn := newConn(t, ensemble.Endpoints()...) // of a session that lives on
	persistent(t, conn, path)
	holder, err := conn.Create(path+"/_c_-lock-", nil, client.FlagEphemeralSequential, client.WorldACL(client.PermAll))
	require.NoError(t, err)
	var told locktest.States
	store := storeOn(t, ensemble.Endpoints(), &zk.Options{Options: farsync.Options{TTL: ttl, OnState: told.Hook}})
	granted := lockBehind(t, store, path)
	ours := awaitNodes(t, conn, path, 2)[1]

	for i := range 3 {
		ensemble.Member(i).Kill()
	}
	await(t, func() bool { return slices.Contains(told.All(), farsync.StateLost) })
	require.NoError(t, ensemble.Restart(within(t, 2*soon)))
	await(t, func() bool { return told.All()[len(told.All())-1] == farsync.StateConnected })
	await(t, func() bool {
		err := conn.Delete(holder, -1)
		return err == nil || errors.Is(err, client.ErrNoNode)
	})
	lease := got(t, granted)
	require.NotEqual(t, ours, nodeOf(t, lease))
	require.Equal(t, []string{nodeOf(t, lease)}, nodes(t, conn, path))
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}
