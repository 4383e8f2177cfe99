package electiontest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/recipe"
)

// resignations: the next leads, while its session and the session of the leader live on.
func (s *scene) resignations() {
	path, clients := newPath(), []Client{s.Open(s, steady), s.Open(s, steady)}
	lease := s.lead(clients[0], path, "")
	var took []time.Duration
	for i := range s.rounds(40) {
		next := s.campaign(s.ctx, clients[(i+1)%2], path, "")
		s.queued(clients[i%2], path, length(2))
		at := time.Now()
		require.NoError(s, lease.Release())
		after := next.got()
		took = append(took, time.Since(at))
		require.Greater(s, after.Token(), lease.Token())
		lease = after
	}
	require.NoError(s, lease.Release())
	slices.Sort(took)
	s.Logf("after a resignation the next leads: median %v, longest %v", took[len(took)/2], took[len(took)-1])
}

// lostWhileWaiting: a candidate's session is over before the leader resigns, and the candidate does not know yet.
// It must not lead on the entry that went with the session.
func (s *scene) lostWhileWaiting() {
	leaders := s.Open(s, steady)
	var group errgroup.Group
	for range s.rounds(20) {
		waiter := s.Open(s, s.TTL)
		group.Go(func() error {
			path := newPath()
			first := s.lead(leaders, path, "first")
			next := s.campaign(s.ctx, waiter, path, "next")
			old := s.queued(leaders, path, length(2))[1]
			waiter.Expire(s)
			if err := first.Release(); err != nil && !errors.Is(err, farsync.ErrUnavailable) { // it goes on in the background
				return err
			}
			lease := next.got()
			require.Greater(s, lease.Token().Revision(), old.Revision, "the old entry")
			s.queued(leaders, path, func(list []driver.Entry) bool {
				return len(list) == 1 && list[0].ID != old.ID && list[0].Revision == lease.Token().Revision()
			})
			if err := lease.Release(); !errors.Is(err, farsync.ErrUnavailable) {
				return err
			}
			return nil
		})
	}
	require.NoError(s, group.Wait())
}

// brokenConnection is scenario 27, and the same node of 29: an outage that is shorter than the session changes nothing.
func (s *scene) brokenConnection() {
	path := newPath()
	first, second := s.Open(s, steady), s.Open(s, steady)
	lease := s.lead(first, path, "before")
	next := s.campaign(s.ctx, second, path, "next")
	before := s.queued(second, path, length(2))
	for range s.rounds(5) {
		first.Reset()
		second.Reset()
		require.NoError(s, farsync.NewElection(first.Store, path).Proclaim(s.ctx, lease, "after"))
		// The other's server may be behind.
		after := s.queued(second, path, func(list []driver.Entry) bool { return len(list) == 2 && string(list[0].Value) == "after" })
		require.Equal(s, before[0].ID, after[0].ID)
		require.Equal(s, before[1].ID, after[1].ID)
		require.NoError(s, lease.Err())
	}
	select {
	case <-next.done:
		require.FailNow(s, "two leaders")
	default:
	}
	require.NoError(s, lease.Release())
	require.NoError(s, next.got().Release())
}

// comingAndGoing: many campaign, give up and resign at the same time, while a stranger removes some of
// them. Each that leads by its lease has a token of its own, and in the end the queue is empty.
func (s *scene) comingAndGoing() {
	path, r := newPath(), newResource()
	clients := []Client{s.Open(s, steady), s.Open(s, steady), s.Open(s, steady)}
	var all sync.WaitGroup
	var elected, gaveUp atomic.Int64
	over := make(chan struct{})
	all.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
			}
			if list, _, err := (recipe.Queue{Store: beneath.Store(clients[0].Store), Path: path}).List(s.ctx, 0); err == nil && len(list) > 0 {
				s.Delete(s, list[rand.N(len(list))])
			}
		}
	})
	var group errgroup.Group
	for i := range 12 {
		election := farsync.NewElection(clients[i%3].Store, path)
		group.Go(func() error {
			for range s.rounds(15) {
				ctx, cancel := context.WithTimeout(s.ctx, rand.N(400*time.Millisecond))
				lease, err := election.Campaign(ctx, "")
				cancel()
				switch {
				case err == nil:
					elected.Add(1)
					r.write("another", lease.Token(), func() bool { return false })
					_ = lease.Release() // lost, where a stranger was quicker
				case ctx.Err() != nil && s.ctx.Err() == nil:
					gaveUp.Add(1)
				default:
					return err
				}
			}
			return nil
		})
	}
	require.NoError(s, group.Wait())
	close(over)
	all.Wait()
	s.Logf("elected %d, gave up %d", elected.Load(), gaveUp.Load())
	require.Positive(s, elected.Load())
	require.Zero(s, r.verdict().staleAccepted)
	s.queued(clients[0], path, length(0))
}

// predecessorGone is the other half of scenario 28: the leader is gone after the candidate has read the queue, and
// before it waits.
func (s *scene) predecessorGone() {
	path := newPath()
	first := s.Open(s, steady)
	lease := s.lead(first, path, "first")
	quick := s.Open(s, steady, tap(watching, func() { s.Delete(s, s.queued(first, path, length(2))[0]) }))
	next := s.lead(quick, path, "second")
	require.Greater(s, next.Token(), lease.Token())
	require.ErrorIs(s, lease.Release(), farsync.ErrLost)
	require.NoError(s, next.Release())
}

// wiped is of scenario 29: a stranger removes everything. The waiters come again, one of them leads with a higher
// token, and the old leader learns at the latest when it resigns.
func (s *scene) wiped() {
	path := newPath()
	first, second, third := s.Open(s, steady), s.Open(s, steady), s.Open(s, steady)
	lease := s.lead(first, path, "first")
	two := s.campaign(s.ctx, second, path, "second")
	s.queued(first, path, length(2))
	three := s.campaign(s.ctx, third, path, "third")
	old := s.queued(first, path, length(3))
	for _, e := range slices.Backward(old) {
		s.Delete(s, e)
	}
	now := s.queued(first, path, func(list []driver.Entry) bool {
		return len(list) == 2 && list[0].Revision > old[2].Revision
	})
	next, last := two, three
	if string(now[0].Value) == "third" {
		next, last = three, two
	}
	after := next.got()
	require.Greater(s, after.Token(), lease.Token())
	require.ErrorIs(s, lease.Release(), farsync.ErrLost)
	require.NoError(s, after.Release())
	require.NoError(s, last.got().Release())
	s.queued(first, path, length(0))
}

// closing is of scenario 29: the Store is closed while it creates the entry, right after, and while the candidate waits.
func (s *scene) closing() {
	for _, when := range []moment{creating, created, watching, granted} {
		path := newPath()
		other := s.Open(s, steady)
		lease := s.lead(other, path, "other")
		var closing sync.WaitGroup
		var closed Client
		closed = s.Open(s, steady, tap(when, func() { closing.Go(func() { _ = closed.Store.Close() }) }))
		next := s.campaign(s.ctx, closed, path, "closed")
		if when == granted {
			s.queued(other, path, length(2))
			require.NoError(s, lease.Release())
		}
		<-next.done
		closing.Wait()
		if next.err == nil {
			require.ErrorIs(s, next.lease.Err(), farsync.ErrClosed)
		} else {
			require.ErrorIs(s, next.err, farsync.ErrClosed)
		}
		_ = lease.Release()
		s.queued(other, path, length(0))
	}
}

// lostBeforeTerm is of scenario 30: the session is lost when the election has been won, and the leader does not know yet.
func (s *scene) lostBeforeTerm() {
	for _, when := range []moment{created, granted} {
		path, r := newPath(), newResource()
		other := s.Open(s, steady)
		var lease *farsync.Lease
		if when == granted {
			lease = s.lead(other, path, "other")
		}
		var client Client
		client = s.Open(s, s.TTL, tap(when, func() { client.Expire(s) }))
		done := make(chan error, 1)
		terms := 0
		go func() {
			done <- farsync.NewElection(client.Store, path).Lead(s.ctx, "again",
				func(ctx context.Context, lease *farsync.Lease) error {
					token := lease.Token()
					terms++
					for first := false; !first; {
						list, _, err := recipe.Queue{Store: beneath.Store(other.Store), Path: path}.List(s.ctx, 0)
						if err != nil {
							return err
						}
						// If it is not there it was lost before the term began, or the other's server is behind.
						first = len(list) > 0 && list[0].Revision == token.Revision()
						if !first && pause.For(ctx, 10*time.Millisecond) != nil {
							return context.Cause(ctx)
						}
					}
					r.write("again", token, func() bool { return ctx.Err() == nil })
					return nil
				})
		}()
		if lease != nil {
			s.queued(other, path, length(2))
			require.NoError(s, lease.Release())
		}
		require.NoError(s, <-done)
		require.Equal(s, 1, r.verdict().terms)
		s.Logf("%v: %d terms", when, terms)
		s.queued(other, path, length(0))
	}
}

// cancelledCutOff is of scenario 30: a candidate gives up while no server can be reached. It is told although nothing
// answers, and its entry goes when a server can be reached again, or with the session.
func (s *scene) cancelledCutOff() {
	path := newPath()
	first, second := s.Open(s, steady), s.Open(s, steady)
	lease := s.lead(first, path, "first")
	ctx, cancel := context.WithCancel(s.ctx)
	next := s.campaign(ctx, second, path, "second")
	s.queued(first, path, length(2))
	second.Cut()
	at := time.Now()
	cancel()
	select {
	case <-next.done:
	case <-time.After(soon):
		require.FailNow(s, "not back, for no server answers")
	}
	took := time.Since(at)
	require.ErrorIs(s, next.err, context.Canceled)
	second.Heal()
	s.queued(first, path, length(1))
	s.Logf("back after %v, entry gone after %v", took, time.Since(at))
	require.NoError(s, lease.Release())
}
