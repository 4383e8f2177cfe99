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
		"leaders cut off, others restarted":   partRestarted,
		"servers restarted":                   restartServers,
	} {
		all.Go(func() { t.Run(name, run) })
	}
	all.Wait()
}

// cutClients: whoever holds a lock is told that it is lost before somebody else gets it.
func cutClients(t *testing.T, server *embedtest.ZooKeeperServer) {
	const ttl, cuts = 3 * time.Second, 51
	waiters := newStore(t, server.Endpoint(), nil)
	var losses []*loss
	for i := range cuts {
		proxy := embedtest.NewProxy(t, server.Endpoint())
		l := newLoss(t, newStore(t, proxy.Addr(), withTTL(ttl)), waiters, fmt.Sprint("/loss/client", i))
		l.cut = []func(){proxy.Cut, proxy.CutRequests, proxy.CutReplies}[i%3]
		l.heal = proxy.Heal
		losses = append(losses, l)
	}
	require.NoError(t, spread(ttl, losses))
	report(t, ttl, losses)
}

func cutServers(t *testing.T) {
	ensemble := embedtest.ZooKeeperEnsemble(t, 3)
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	t.Run("the follower is cut off", func(t *testing.T) { cutFollowers(t, ensemble, leader) })
	for _, by := range []parting{{name: "the leader is cut off"}, {name: "the leader stalls and is cut off", stall: 900 * time.Millisecond}} {
		t.Run(by.name, func(t *testing.T) { by.cutLeaders(t, ensemble) })
	}
}

// cutFollowers is the hardest form: the server of the holder answers it as if nothing were the matter, but for
// Syncs, and its leader hears no more of the session.
func cutFollowers(t *testing.T, ensemble *embedtest.ZooKeeperServers, leader int) {
	const ttl, rounds, holders = 4 * time.Second, 3, 8
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

// isolate cuts a member off, as cut does it, until the losses have happened.
func isolate(t *testing.T, ensemble *embedtest.ZooKeeperServers, member int, losses []*loss, cut func()) {
	t.Helper()
	cut = sync.OnceFunc(cut)
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

// A loss is one lock whose holder loses it, while another client waits for it.
type loss struct {
	path         string
	holder, next *farsync.Store
	lease        *farsync.Lease
	granted      <-chan *farsync.Lease
	cut, heal    func()

	once   sync.Once
	margin time.Duration // between the end of the one lease and the next; negative if both have held
	err    error
}

// newLoss has one client hold the lock and another wait for it.
func newLoss(t *testing.T, holder, next *farsync.Store, path string) *loss {
	t.Helper()
	l := &loss{path: path, holder: holder, next: next}
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
			l.margin = max(granted.Sub(<-ended), 1)
		default:
			l.margin = granted.Sub(<-ended)
		}
		switch {
		case l.lease.Err() == nil:
			l.err = fmt.Errorf("%s: done, and no error", l.path)
		case next.Token() <= l.lease.Token():
			l.err = fmt.Errorf("%s: token %d after %d", l.path, next.Token(), l.lease.Token())
		}
		if l.heal != nil {
			l.heal()
		}
		_ = next.Release()
		_ = l.holder.Close() // all at the same time, for it takes a moment
	})
	return l.err
}

// spread has all losses happen, at times that are spread over the renewals of a session.
func spread(ttl time.Duration, losses []*loss) error {
	var all errgroup.Group
	for i, l := range losses {
		all.Go(func() error {
			<-time.After(ttl / 4 * time.Duration(i) / time.Duration(len(losses)))
			return l.happen()
		})
	}
	return all.Wait()
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
