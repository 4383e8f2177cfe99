package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
)

var sessionCases = []conformance{
	{"SessionDeadline", "a lease must end before the service can give the lock away", func(s *scene) {
		c := s.open()
		e := s.enter(c)
		latest := time.Now().Add(e.Session.TTL() - recipe.Margin(e.Session.TTL()))
		require.False(s, e.Session.Deadline().After(latest), "the deadline counts from before now")
		require.True(s, e.Session.Deadline().After(time.Now()))
	}},
	{"SessionIsRenewed", "a holder that is well keeps its lock", func(s *scene) {
		c := s.open()
		e := s.enter(c)
		watched := time.NewTimer(e.Session.TTL() * 3 / 2)
		defer watched.Stop()
		select {
		case <-e.Session.Done():
		case <-watched.C:
		}
		require.NoError(s, e.Session.Err())
		require.Empty(s, s.blockers(c, e, recipe.ExclusiveRule()))
	}},
	{"SessionExpires", "a holder is told that it holds no more, and its Store goes on", func(s *scene) {
		a, b := s.open(), s.open()
		first := s.enter(a)
		s.Expire(s.T, a)
		s.over(first.Session)
		require.ErrorIs(s, first.Session.Err(), recipe.ErrLost)
		require.NotErrorIs(s, first.Session.Err(), recipe.ErrClosed)
		require.NoError(s, b.Wait(s.ctx(), first))
		second, blockers := s.join(a, s.exclusive(s.queue))
		require.Empty(s, blockers)
		require.NotSame(s, first.Session, second.Session)
		require.NoError(s, second.Session.Err())
		require.Greater(s, second.Revision, first.Revision)
	}},
	{"JoinAfterExpiry", "the client may not know yet: the entry must not be one of the dead session", func(s *scene) {
		a, b := s.open(), s.open()
		first := s.enter(a)
		s.Expire(s.T, a)
		second := s.enter(a)
		require.NoError(s, second.Session.Err())
		require.NotSame(s, first.Session, second.Session)
		require.Empty(s, s.blockers(a, second, recipe.ExclusiveRule()))
		require.Equal(s, []string{second.ID}, ids(s.entries(b, s.queue)))
	}},
	{"ExpiryIsOnesOwn", "the loss of one client's session is nothing to the others", func(s *scene) {
		a, b := s.open(), s.open()
		first, second := s.enter(a), s.enter(b)
		s.Expire(s.T, a)
		s.over(first.Session)
		require.NoError(s, second.Session.Err())
		require.NoError(s, b.Wait(s.ctx(), first))
		require.Empty(s, s.blockers(b, second, recipe.ExclusiveRule()))
	}},
}
