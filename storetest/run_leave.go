package storetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
)

var leaveCases = []conformance{
	{"LeaveRemoves", "a lock that was released is free", func(s *scene) {
		a, b := s.open(), s.open()
		e := s.enter(a)
		s.leave(a, e)
		require.Empty(s, s.entries(a, s.queue))
		_, blockers := s.join(b, s.exclusive(s.queue))
		require.Empty(s, blockers)
	}},
	{"LeaveTwice", "a delete that finds nothing tells that the lock was lost before", func(s *scene) {
		c := s.open()
		e := s.enter(c)
		s.leave(c, e)
		require.ErrorIs(s, c.Leave(s.ctx(), e), recipe.ErrGone)
	}},
	{"LeaveDeleted", "who releases a lock that somebody took away has to be told", func(s *scene) {
		c := s.open()
		e := s.enter(c)
		s.Delete(s.T, e)
		require.ErrorIs(s, c.Leave(s.ctx(), e), recipe.ErrGone)
	}},
	{"LeaveOnlyOwn", "removing somebody else's entry hands out the lock twice", func(s *scene) {
		c := s.open()
		first, second, third := s.enter(c), s.enter(c), s.enter(c)
		s.leave(c, second)
		require.Equal(s, []string{first.ID, third.ID}, ids(s.entries(c, s.queue)))
	}},
	{"LeaveEndedContext", "clean-up must not hold up a caller that has given up, and must happen all the same",
		func(s *scene) {
			a, b := s.open(), s.open()
			e := s.enter(a)
			require.ErrorIs(s, s.prompt(func() error { return a.Leave(ended(), e) }), context.Canceled)
			s.untilEmpty(b)
		}},
	{"LeaveExpired", "a release after the loss of the session must not wait for anybody", func(s *scene) {
		a, b := s.open(), s.open()
		e := s.enter(a)
		s.Expire(s.T, a)
		require.NoError(s, b.Wait(s.ctx(), e))
		// The client may know that the session is over, or see only that the entry is gone: ErrGone. Or it may have had
		// a connection break on it and not know what its delete did: nil.
		if err := a.Leave(s.ctx(), e); err != nil {
			require.ErrorIs(s, err, recipe.ErrGone)
		}
		s.over(e.Session)
		require.ErrorIs(s, a.Leave(s.ctx(), e), recipe.ErrGone)
	}},
	{"BlockersGone", "who is woken and has lost its place must not take the lock", func(s *scene) {
		a, b := s.open(), s.open()
		s.enter(a)
		second, third := s.enter(b), s.enter(b)
		s.Delete(s.T, second)
		_, err := b.Blockers(s.ctx(), second, recipe.ExclusiveRule())
		require.ErrorIs(s, err, recipe.ErrGone)
		s.leave(b, third)
		_, err = b.Blockers(s.ctx(), third, recipe.ExclusiveRule())
		require.ErrorIs(s, err, recipe.ErrGone)
	}},
	{"BlockersExpired", "etcd's Campaign and Curator's InterProcessMutex both granted a lock on a dead session's entry",
		func(s *scene) {
			a, b := s.open(), s.open()
			first, second := s.enter(a), s.enter(b)
			s.Expire(s.T, b)
			require.NoError(s, a.Wait(s.ctx(), second))
			_, err := b.Blockers(s.ctx(), second, recipe.ExclusiveRule())
			require.ErrorIs(s, err, recipe.ErrGone)
			s.over(second.Session)
			s.leave(a, first)
			_, err = b.Blockers(s.ctx(), second, recipe.ExclusiveRule())
			require.ErrorIs(s, err, recipe.ErrGone)
		}},
}
