package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
)

var closeCases = []conformance{
	{"CloseEndsCalls", "Close that waits for callers who wait for the lock never returns", func(s *scene) {
		a, b := s.open(), s.open()
		first := s.enter(a)
		second := s.enter(b)
		wait := s.during(b, func() error { return b.Wait(s.ctx(), first) })
		join := s.during(b, func() error {
			for {
				if _, _, err := b.Join(s.ctx(), s.exclusive(s.queue)); err != nil {
					return err
				}
			}
		})
		blockers := s.during(b, func() error {
			for {
				if _, err := b.Blockers(s.ctx(), second, recipe.ExclusiveRule()); err != nil {
					return err
				}
			}
		})
		closed := make(chan error, 1)
		go func() { closed <- b.Close() }()
		for name, done := range map[string]<-chan error{"Wait": wait, "Join": join, "Blockers": blockers} {
			require.ErrorIs(s, s.soon(done, wallAnswer/2), recipe.ErrClosed, name)
		}
		require.NoError(s, s.soon(closed, wallAnswer))
		require.ErrorIs(s, second.Session.Err(), recipe.ErrClosed)
		require.NotErrorIs(s, second.Session.Err(), recipe.ErrLost)
		s.leave(a, first)
		s.untilEmpty(a)
	}},
	{"CloseRemoves", "what a process held is free when it has stopped in order, not a TTL later", func(s *scene) {
		a, b := s.open(), s.open()
		first, second := s.enter(a), s.enter(b)
		done := s.during(b, func() error { return b.Wait(s.ctx(), first) })
		require.NoError(s, a.Close())
		require.NoError(s, s.soon(done, second.Session.TTL()/2))
		require.Empty(s, s.blockers(b, second, recipe.ExclusiveRule()))
		require.Equal(s, []string{second.ID}, ids(s.entries(b, s.queue)))
	}},
	{"ClosedCalls", "the caller can tell a Store that was closed from a service that is down", func(s *scene) {
		c := s.open()
		e := s.enter(c)
		require.NoError(s, c.Close())
		require.NoError(s, c.Close())
		_, err := c.Peek(s.ctx(), s.exclusive(s.queue))
		require.ErrorIs(s, err, recipe.ErrClosed)
		_, _, err = c.Join(s.ctx(), s.exclusive(s.queue))
		require.ErrorIs(s, err, recipe.ErrClosed)
		_, err = c.Blockers(s.ctx(), e, recipe.ExclusiveRule())
		require.ErrorIs(s, err, recipe.ErrClosed)
		require.ErrorIs(s, c.Wait(s.ctx(), e), recipe.ErrClosed)
		require.ErrorIs(s, c.Leave(s.ctx(), e), recipe.ErrClosed)
		_, err = c.Entries(s.ctx(), s.queue)
		require.ErrorIs(s, err, recipe.ErrClosed)
	}},
}
