package locktest

import (
	"context"
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

func (s *scene) election(store *farsync.Store) *farsync.Election {
	return farsync.NewElection(store, s.path)
}

// campaign is Campaign with a value.
func campaign(e *farsync.Election, value string) func(context.Context) (*farsync.Lease, error) {
	return func(ctx context.Context) (*farsync.Lease, error) { return e.Campaign(ctx, value) }
}

// A sight is what Observe has yielded.
type sight struct {
	leader farsync.Leader
	err    error
}

// observing observes until the scene ends.
func (s *scene) observing(e *farsync.Election) (sights <-chan sight, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	seen := make(chan sight, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(seen)
		for leader, err := range e.Observe(ctx) {
			seen <- sight{leader, err}
		}
	}()
	stop = func() { cancel(); <-done }
	s.Cleanup(stop)
	return seen, stop
}

// see waits until the value is seen, or, if value is empty, until no leader is seen. An error would be the last sight.
func (s *scene) see(sights <-chan sight, value string) farsync.Leader {
	s.Helper()
	ctx := s.ctx()
	for {
		select {
		case now := <-sights:
			require.NoError(s, now.err)
			if now.leader.Value == value && (now.leader.Token == 0) == (value == "") {
				return now.leader
			}
		case <-ctx.Done():
			require.FailNow(s, "not seen", value)
		}
	}
}

var electionRows = []row{
	{"ElectionElectsInOrder", "one leads, the next in line follows, and every client can see which", func(s *scene) {
		looker := s.client()
		e := s.election(looker)
		_, err := e.Leader(s.ctx())
		require.ErrorIs(s, err, farsync.ErrNoLeader)
		first := s.take(campaign(e, "one"))
		var waiting []*locking
		for i, value := range []string{"two", "three"} {
			waiting = append(waiting, s.locking(campaign(s.election(s.client()), value)))
			s.until(looker, i+2)
		}
		leader, err := e.Leader(s.ctx())
		require.NoError(s, err)
		require.Equal(s, farsync.Leader{Value: "one", Token: first.Token()}, leader)
		list, err := looker.Participants(s.ctx(), s.path)
		require.NoError(s, err)
		require.Len(s, list, 3)
		for i, value := range []string{"one", "two", "three"} {
			require.Equal(s, value, list[i].Holder)
			require.Equal(s, farsync.KindCandidate, list[i].Kind)
			require.Equal(s, i == 0, list[i].Held)
		}
		last := first
		for i, w := range waiting {
			w.waits()
			s.release(last)
			next := w.got()
			require.Greater(s, next.Token(), last.Token())
			require.Equal(s, list[i+1].Token, next.Token())
			last = next
		}
		s.release(last)
		_, err = e.Leader(s.ctx())
		require.ErrorIs(s, err, farsync.ErrNoLeader)
	}},
	{"ElectionHandsNothingOn", "a term of its own has a token of its own, also within a process", func(s *scene) {
		e := s.election(s.client())
		first := s.take(campaign(e, "one"))
		behind := s.locking(campaign(e, "two"))
		s.until(s.client(), 2)
		s.release(first)
		second := behind.got()
		require.Greater(s, second.Token().Revision(), first.Token().Revision())
		s.release(second)
	}},
	{"ElectionIsObserved", "a follower of a leader has to see the last state, always", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		sights, stop := s.observing(s.election(three))
		s.see(sights, "")
		e := s.election(one)
		first := s.take(campaign(e, "one"))
		leader := s.see(sights, "one")
		require.Equal(s, first.Token(), leader.Token)
		require.NoError(s, e.Proclaim(s.ctx(), first, "one, later"))
		require.NoError(s, first.Err())
		leader = s.see(sights, "one, later")
		require.Equal(s, first.Token(), leader.Token)
		now, err := s.election(two).Leader(s.ctx())
		require.NoError(s, err)
		require.Equal(s, leader, now)
		behind := s.locking(campaign(s.election(two), "two"))
		s.until(three, 2)
		require.NoError(s, e.Proclaim(s.ctx(), first, "one, at last"))
		s.see(sights, "one, at last")
		behind.waits()
		s.release(first)
		second := behind.got()
		s.see(sights, "two")
		s.Expire(s.T, three)
		require.NoError(s, s.election(two).Proclaim(s.ctx(), second, "two, later"))
		s.see(sights, "two, later")
		s.release(second)
		s.see(sights, "")
		stop()
		var last sight
		for now := range sights {
			last = now
		}
		require.ErrorIs(s, last.err, context.Canceled, "it ends with the error of its context")
	}},
	{"ElectionProclaimsForItsLeaderOnly", "a candidate that does not lead must not speak as if", func(s *scene) {
		one, two := s.client(), s.client()
		e := s.election(one)
		lease := s.take(campaign(e, "one"))
		require.Error(s, s.election(two).Proclaim(s.ctx(), lease, "x"), "another store")
		require.Error(s, farsync.NewElection(one, s.path+"-other").Proclaim(s.ctx(), lease, "x"))
		require.ErrorIs(s, e.Proclaim(canceled(), lease, "x"), context.Canceled)
		leader, err := e.Leader(s.ctx())
		require.NoError(s, err)
		require.Equal(s, "one", leader.Value)
		holder := s.take(farsync.NewMutex(one, s.path+"-holder").TryLock)
		list, err := two.Participants(s.ctx(), s.path+"-holder")
		require.NoError(s, err)
		s.release(holder)
		require.NoError(s, e.Proclaim(s.ctx(), lease, ""))
		leader, err = e.Leader(s.ctx())
		require.NoError(s, err)
		require.Equal(s, list[0].Holder, leader.Value, "the store's holder")
		s.release(lease)
		require.ErrorIs(s, e.Proclaim(s.ctx(), lease, "x"), farsync.ErrReleased)
		lease = s.take(campaign(e, "two"))
		s.Delete(s.T, s.until(two, 1)[0])
		require.ErrorIs(s, e.Proclaim(s.ctx(), lease, "x"), farsync.ErrLost)
		require.ErrorIs(s, lease.Err(), farsync.ErrLost)
		require.ErrorIs(s, lease.Release(), farsync.ErrLost)
		s.until(two, 0)
	}},
	{"ElectionWaiterNeverLeadsOnALostSession", "etcd's Campaign returns without an error for a lease that was revoked", func(s *scene) {
		one, two := s.client(), s.client()
		first := s.take(campaign(s.election(one), "one"))
		behind := s.locking(campaign(s.election(two), "two"))
		before := s.until(one, 2)
		s.Expire(s.T, two)
		s.release(first)
		lease := behind.got()
		require.NoError(s, lease.Err())
		require.Greater(s, lease.Token().Revision(), before[1].Revision)
		leader, err := s.election(one).Leader(s.ctx())
		require.NoError(s, err)
		require.Equal(s, farsync.Leader{Value: "two", Token: lease.Token()}, leader)
		s.release(lease)
	}},
	{"ElectionLeadsAgainAfterALoss", "a leader that was cut off for a moment goes on as a candidate, once its work has stopped", func(s *scene) {
		one := s.client()
		terms := make(chan farsync.Token)
		running := make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(s.ctx())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			done <- s.election(one).Lead(ctx, "one", func(ctx context.Context, lease *farsync.Lease) error {
				running <- struct{}{} // one at a time: room for one
				terms <- lease.Token()
				<-ctx.Done()
				<-running
				if errors.Is(context.Cause(ctx), farsync.ErrLost) {
					return ctx.Err() // it does not say why
				}
				return errStop
			})
		}()
		var last farsync.Token
		for range 3 {
			token := <-terms
			require.Greater(s, token, last)
			last = token
			s.Expire(s.T, one)
		}
		<-terms
		cancel()
		require.ErrorIs(s, <-done, errStop)
		s.until(one, 0)
	}},
	{"ElectionLeadReturnsWhatFnReturned", "a leader that has done its work resigns, and does not begin again", func(s *scene) {
		one := s.client()
		for _, want := range []error{nil, errStop} {
			calls := 0
			err := s.election(one).Lead(s.ctx(), "", func(context.Context, *farsync.Lease) error {
				calls++
				leader, err := s.election(one).Leader(s.ctx())
				require.NoError(s, err)
				require.NotEmpty(s, leader.Value, "the store's holder")
				return want
			})
			require.Equal(s, want, err)
			require.Equal(s, 1, calls)
			s.until(one, 0)
		}
	}},
}
