package electiontest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// An observer keeps what Observe has told it last.
type observer struct {
	mu      sync.Mutex
	told    int
	last    string // what was told last
	changed chan struct{}
}

const vacant = "(vacant)"

// observe observes in a goroutine until the scene is over, which joins it.
func (s *scene) observe(store Client, path string) *observer {
	o := &observer{changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for leader, err := range farsync.NewElection(store.Store, path).Observe(ctx) {
			switch {
			case err != nil: // it ends with ctx
				o.tell(err.Error())
			case leader == farsync.Leader{}:
				o.tell(vacant)
			default:
				o.tell(fmt.Sprintf("%s, token %d", leader.Value, leader.Token))
			}
		}
	}()
	s.Cleanup(func() {
		cancel()
		<-done
	})
	return o
}

func (o *observer) tell(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told++
	o.last = what
	close(o.changed)
	o.changed = make(chan struct{})
}

// sees waits until the last that was told is as asked for. That may depend on more than what is told, so it is asked again.
func (o *observer) sees(ctx context.Context, so func(last string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, soon/2) // less than after what time Observe looks by itself
	defer cancel()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		o.mu.Lock()
		last, changed := o.last, o.changed
		o.mu.Unlock()
		if so(last) {
			return nil
		}
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("what Observe told last is %s: %w", last, context.Cause(ctx))
		}
	}
}

// seesLeader waits until the last leader that was seen is the present one, which is asked for each time: one with a short TTL may
// have been followed by another by the time that it is compared.
func (o *observer) seesLeader(ctx context.Context, election *farsync.Election) error {
	var leads string
	err := o.sees(ctx, func(last string) bool {
		leader, err := election.Leader(ctx)
		if err != nil {
			leads = err.Error()
			return false
		}
		leads = fmt.Sprintf("%s, token %d", leader.Value, leader.Token)
		return last == leads
	})
	if err != nil {
		return fmt.Errorf("who leads: %s, but %w", leads, err)
	}
	return nil
}

func (o *observer) seesNobody(ctx context.Context) error {
	return o.sees(ctx, func(last string) bool { return last == vacant })
}

// observeStorm: changes that come as quickly as the service takes them, and then none.
func (s *scene) observeStorm() {
	path := newPath()
	var observers []*observer
	for range 3 {
		from := s.Open(s, steady)
		observers = append(observers, s.observe(from, path), s.observe(from, path))
	}
	clients := []Client{s.Open(s, steady), s.Open(s, steady)}
	begun, changes := time.Now(), 0
	for round := range s.rounds(20) {
		for i, c := range clients {
			lead := farsync.NewElection(c.Store, path)
			lease := s.lead(c, path, "new")
			for n := range 5 {
				require.NoError(s, lead.Proclaim(s.ctx, lease, fmt.Sprintf("%d of %d in %d", n, i, round)))
			}
			for _, o := range observers {
				if round%5 == 0 {
					require.NoError(s, o.seesLeader(s.ctx, lead))
				}
			}
			require.NoError(s, lease.Release())
			changes += 7
		}
		for _, o := range observers {
			if round%5 == 0 {
				require.NoError(s, o.seesNobody(s.ctx))
			}
		}
	}
	for _, o := range observers {
		require.NoError(s, o.seesNobody(s.ctx))
	}
	s.Logf("%d changes in %v, seen by %d observers", changes, time.Since(begun).Round(time.Millisecond), len(observers))
}

// observeOutage: the observer is cut off while the leader changes, loses its session by that, and comes back.
func (s *scene) observeOutage() {
	path := newPath()
	from, first, second := s.Open(s, s.TTL), s.Open(s, steady), s.Open(s, steady)
	o := s.observe(from, path)
	lease := s.lead(first, path, "first")
	elected := farsync.NewElection(first.Store, path)
	require.NoError(s, o.seesLeader(s.ctx, elected))

	from.Cut()
	require.NoError(s, lease.Release())
	lease = s.lead(second, path, "second")
	from.Heal()
	// Asked through the leader's own session: another's server may be behind.
	require.NoError(s, o.seesLeader(s.ctx, farsync.NewElection(second.Store, path)))

	from.Reset()
	require.NoError(s, lease.Release())
	require.NoError(s, o.seesNobody(s.ctx))

	from.Expire(s)
	lease = s.lead(first, path, "third")
	require.NoError(s, o.seesLeader(s.ctx, elected))
	require.NoError(s, lease.Release())
	require.NoError(s, o.seesNobody(s.ctx))
}
