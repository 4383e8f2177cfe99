package zktest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
)

// TestOutages runs side by side what needs time rather than work.
func TestOutages(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	var all sync.WaitGroup
	for name, run := range map[string]func(t *testing.T){
		"lines cut between client and server": func(t *testing.T) { cutClients(t, server) },
		"lines cut between servers":           cutServers,
		"servers restarted":                   restartServers,
	} {
		all.Go(func() { t.Run(name, run) })
	}
	all.Wait()
}

// cutClients is C6: whoever holds a lock is told that it is lost before somebody else gets it.
func cutClients(t *testing.T, server *embedtest.ZooKeeperServer) {
	const ttl, cuts = 3 * time.Second, 51
	var losses []*loss
	for i := range cuts {
		proxy := embedtest.NewProxy(t, server.Endpoint())
		l := newLoss(t, proxy.Addr(), server.Endpoint(), fmt.Sprint("/loss/client", i), ttl)
		l.cut = []func(){proxy.Cut, proxy.CutRequests, proxy.CutReplies}[i%3]
		l.heal = proxy.Heal
		losses = append(losses, l)
	}
	report(t, ttl, losses)
}

func cutServers(t *testing.T) {
	ensemble := embedtest.ZooKeeperEnsemble(t, 3)
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	t.Run("the lease ends first when the follower is cut off", func(t *testing.T) { cutFollowers(t, ensemble, leader) })
	for _, stall := range []time.Duration{0, time.Second, 1700 * time.Millisecond} {
		t.Run(fmt.Sprintf("the lease ends first when the leader stalls for %v and is cut off", stall),
			func(t *testing.T) { cutLeader(t, ensemble, stall) })
	}
}

// cutFollowers is C6 where it is hardest: the server of the holder answers it as if nothing were the matter, but for
// Syncs, and its leader hears no more of the session.
func cutFollowers(t *testing.T, ensemble *embedtest.ZooKeeperServers, leader int) {
	const ttl, rounds, holders = 4 * time.Second, 3, 8
	var losses []*loss
	for round := range rounds {
		follower, other := (leader+1+round%2)%3, (leader+2-round%2)%3
		var cut []*loss
		for i := range holders {
			next := []int{leader, other}[i%2]
			cut = append(cut, newLoss(t, ensemble.Member(follower).Endpoint(), ensemble.Member(next).Endpoint(),
				fmt.Sprintf("/loss/follower%d.%d", round, i), ttl))
			pause(t, ttl/4/holders) // so that the cut comes right after a Sync of some
		}
		losses = append(losses, cut...)
		isolate(t, ensemble, follower, cut)
	}
	report(t, ttl, losses)
}

// cutLeader is C6 for clients that are connected to the leader. It goes on answering what needs no quorum, Syncs among
// them, until it finds that no member follows it, for up to six of its ticks. A leader that stalls before does not count
// the ticks of that time, but its followers do: they have elected another leader, which gives every session its whole
// timeout anew, while the old one still answers. It cannot commit anything, so no proposal of a holder is answered.
func cutLeader(t *testing.T, ensemble *embedtest.ZooKeeperServers, stall time.Duration) {
	const ttl, holders = 2 * time.Second, 8
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	var losses []*loss
	for i := range holders {
		losses = append(losses, newLoss(t, ensemble.Member(leader).Endpoint(), ensemble.Member((leader+1+i%2)%3).Endpoint(),
			fmt.Sprintf("/loss/leader%v.%d", stall, i), ttl))
	}
	if stall > 0 {
		ensemble.Member(leader).Pause()
		pause(t, stall)
		ensemble.Isolate(leader)
		ensemble.Member(leader).Resume()
	}
	isolate(t, ensemble, leader, losses)
	report(t, ttl, losses)
}

// isolate cuts a member off until the losses have happened.
func isolate(t *testing.T, ensemble *embedtest.ZooKeeperServers, member int, losses []*loss) {
	cut := sync.OnceFunc(func() { ensemble.Isolate(member) })
	for _, l := range losses {
		l.cut = cut
	}
	var all errgroup.Group
	for _, l := range losses {
		all.Go(l.happen)
	}
	err := all.Wait()
	ensemble.Heal()
	require.NoError(t, err)
	await(t, func() bool {
		reply, err := ensemble.Member(member).FourLetter(within(t, soon), "srvr")
		return err == nil && strings.Contains(reply, "Mode: follower")
	})
}

// A loss is one lock whose holder loses it, while somebody waits for it.
type loss struct {
	path         string
	holder, next *farsync.Store
	lease        *farsync.Lease
	granted      <-chan *farsync.Lease
	cut, heal    func()

	once   sync.Once
	margin time.Duration // between the end of the one lease and the next
	err    error
}

// newLoss has one client hold the lock and another wait for it.
func newLoss(t *testing.T, holder, next, path string, ttl time.Duration) *loss {
	t.Helper()
	options := withTTL(ttl)
	l := &loss{path: path, holder: newStore(t, holder, options), next: newStore(t, next, options)}
	l.lease = lock(t, l.holder, path)
	l.granted = lockBehind(t, l.next, path)
	awaitQueue(t, l.holder, path, 2)
	return l
}

// happen cuts the line, and waits until the next one holds.
func (l *loss) happen() error {
	l.once.Do(func() {
		ended := make(chan time.Time, 1)
		go func() { // ends with the lease
			<-l.lease.Done()
			ended <- time.Now()
		}()
		l.cut()
		next := <-l.granted
		granted := time.Now()
		select {
		case <-l.lease.Done():
		default:
			l.err = fmt.Errorf("%s: granted %v before the lease of its holder ends", l.path, time.Until(l.lease.Deadline()))
			return
		}
		l.margin = granted.Sub(<-ended)
		switch {
		case l.lease.Err() == nil:
			l.err = fmt.Errorf("%s: done, and no error", l.path)
		case next.Token() <= l.lease.Token():
			l.err = fmt.Errorf("%s: token %d after %d", l.path, next.Token(), l.lease.Token())
		case next.Err() != nil:
			l.err = next.Err()
		}
		if l.heal != nil {
			l.heal()
		}
		_ = next.Release()
		_ = l.holder.Close() // all at the same time, for it takes a moment
		_ = l.next.Close()
	})
	return l.err
}

// report has all losses happen, those that have not yet at times that are spread over the Syncs of a session.
func report(t *testing.T, ttl time.Duration, losses []*loss) {
	var all errgroup.Group
	for i, l := range losses {
		all.Go(func() error {
			if l.margin == 0 {
				<-time.After(ttl / 4 * time.Duration(i) / time.Duration(len(losses)))
			}
			return l.happen()
		})
	}
	require.NoError(t, all.Wait())
	margins := make([]time.Duration, len(losses))
	for i, l := range losses {
		margins[i] = l.margin
	}
	slices.Sort(margins)
	t.Logf("%d losses, TTL %v: the next held after the lease had ended for %v at least, %v in the middle, %v at most",
		len(losses), ttl, margins[0].Round(time.Millisecond), margins[len(margins)/2].Round(time.Millisecond),
		margins[len(margins)-1].Round(time.Millisecond))
}
