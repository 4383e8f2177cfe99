package zktest

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/embedtest"
)

// partings is how many locks are lost at each TTL, for each way to part a leader from its followers.
var partings = flag.Int("partings", 10, "locks to lose at each TTL, for each parting of a leader and its followers")

// A parting is a way to part a leader from its followers, with its clients on its side: the leader goes on
// answering what needs no quorum, Syncs among them, until it has heard nothing of its followers for syncLimit. They elect
// another, which gives every session its whole timeout anew and then ends it. The old leader cannot commit anything, so
// none of a holder's proposals is answered.
type parting struct {
	name string
	// stall is for how long the leader was stopped before. It does not count the ticks of that time, but its followers do.
	stall time.Duration
	// restart has the followers start anew. They elect another leader at once, not when syncLimit is over.
	restart bool
}

// partRestarted has a leader that waits longer for its followers than they take to start anew.
func partRestarted(t *testing.T) {
	parting{restart: true}.cutLeaders(t, embedtest.ZooKeeperEnsemble(t, 3, embedtest.Ticks(tick, 20)))
}

// tick is that of the servers here.
const tick = 500 * time.Millisecond

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
					fmt.Sprintf("/parting/%s/%v.%d.%d", p.short(), ttl, round, i))
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

// short is a name for paths.
func (p parting) short() string { return fmt.Sprintf("%v.%v", p.stall, p.restart) }

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
