// Package electiontest says what elections do on a real cluster whose clients die, lose their sessions and are cut off.
// It judges by a resource that checks tokens, not by what candidates believe. A backend's tests run it.
package electiontest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/recipe"
)

const (
	// soon is for what has to happen at all. No test is to get near it.
	soon = time.Minute
	// steady is the TTL of clients whose leases may not be lost, however long a busy machine keeps them from a renewal.
	steady = 20 * time.Second
	// roundsVariable multiplies how often things go wrong: for nights.
	roundsVariable = "FARSYNC_ELECTION_ROUNDS"
)

// A Cluster is a service of several nodes, as a backend's tests know it.
type Cluster struct {
	// TTL is what clients ask for that are to lose their sessions.
	TTL time.Duration
	// Open returns another client, closed by t. Wrap wraps the driver.
	Open func(t testing.TB, ttl time.Duration, wrap ...func(driver.Service) driver.Service) Client
	// Delete removes an entry, as a stranger with the right to do so may do.
	Delete func(t testing.TB, e driver.Entry)
	// Command returns the command of a process that calls Play, with the environment that it needs for that.
	Command func() *exec.Cmd
}

// A Client is a Store on a connection of its own.
type Client struct {
	*farsync.Store
	Control
}

// A Control is what happens to a Client.
type Control interface {
	// Cut loses everything between the client and the service until Heal. No client is told.
	Cut()
	Heal()
	// Reset breaks the client's connections. New ones succeed.
	Reset()
	// Expire ends the client's session at the service, as if it had not been renewed. The client is not told.
	Expire(t testing.TB)
}

// Run runs every test on the cluster.
func Run(t *testing.T, c Cluster) {
	for _, test := range []struct {
		name string
		run  func(*scene)
	}{
		{"NeverTwoLeadersOverKills", (*scene).kills},
		{"NeverTwoLeadersOverSessionLosses", (*scene).sessionLosses},
		{"NeverTwoLeadersOverDeadProcesses", (*scene).deadProcesses},
		{"ResignationElectsTheNext", (*scene).resignations},
		{"ObserveNeverMissesTheLastState", (*scene).observeStorm},
		{"ObserveSurvivesAnOutage", (*scene).observeOutage},
		{"CampaignOfALostSessionJoinsAgain", (*scene).lostWhileWaiting},
		{"BrokenConnectionLeavesTheLeader", (*scene).brokenConnection},
		{"CandidatesComeAndGo", (*scene).comingAndGoing},
		{"PredecessorGoneBeforeItIsWatched", (*scene).predecessorGone},
		{"PathWiped", (*scene).wiped},
		{"CloseDuringCampaign", (*scene).closing},
		{"LossBetweenGrantAndTerm", (*scene).lostBeforeTerm},
		{"CancelledWhileCutOff", (*scene).cancelledCutOff},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*soon)
			defer cancel()
			test.run(&scene{T: t, Cluster: c, ctx: ctx})
		})
	}
}

// A scene is what a test plays in.
type scene struct {
	*testing.T
	Cluster
	ctx context.Context // the test's, bounded
}

func newPath() string { return "/electiontest/" + rand.Text() }

// rounds is how often something goes wrong, by the usual number.
func (s *scene) rounds(usual int) int {
	s.Helper()
	text := os.Getenv(roundsVariable)
	if text == "" {
		return usual
	}
	factor, err := strconv.Atoi(text)
	require.NoError(s, err, roundsVariable)
	return usual * max(factor, 1)
}

// campaigning is a Campaign under way.
type campaigning struct {
	*scene
	done  chan struct{}
	lease *farsync.Lease
	err   error
}

// campaign campaigns in a goroutine, which the scene joins.
func (s *scene) campaign(ctx context.Context, store Client, path, value string) *campaigning {
	ctx, cancel := context.WithCancel(ctx)
	c := &campaigning{scene: s, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.lease, c.err = farsync.NewElection(store.Store, path).Campaign(ctx, value)
	}()
	s.Cleanup(func() {
		cancel()
		<-c.done
	})
	return c
}

// got waits for the lease.
func (c *campaigning) got() *farsync.Lease {
	c.Helper()
	select {
	case <-c.done:
		require.NoError(c, c.err)
	case <-time.After(soon):
		require.FailNow(c, "not elected")
	}
	return c.lease
}

// lead campaigns, and must be elected.
func (s *scene) lead(store Client, path, value string) *farsync.Lease {
	s.Helper()
	return s.campaign(s.ctx, store, path, value).got()
}

// queued polls until the queue is as asked for, as any client sees it.
func (s *scene) queued(store Client, path string, so func([]driver.Entry) bool) []driver.Entry {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	for {
		list, _, err := recipe.Queue{Store: beneath.Store(store.Store), Path: path}.List(ctx, 0)
		require.NoError(s, err)
		if so(list) {
			return list
		}
		require.NoError(s, pause.For(ctx, 5*time.Millisecond), "the queue stays %v", list)
	}
}

func length(n int) func([]driver.Entry) bool {
	return func(list []driver.Entry) bool { return len(list) == n }
}

// ended adds the candidate's name to the error of its candidacy: there is none when its context was cancelled.
func ended(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
