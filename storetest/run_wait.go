package storetest

import (
	"context"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

var waitCases = []conformance{
	{"WaitGoneBefore", "the holder may leave between the look at the queue and the wait", func(s *scene) {
		a, b := s.open(), s.open()
		e := s.enter(a)
		s.leave(a, e)
		require.NoError(s, b.Wait(s.ctx(), e))
	}},
	{"WaitGoneDuring", "a wake-up that is missed is a waiter that hangs", func(s *scene) {
		a, b := s.open(), s.open()
		e := s.enter(a)
		done := s.during(b, func() error { return b.Wait(s.ctx(), e) })
		s.leave(a, e)
		require.NoError(s, s.soon(done, wallAnswer))
	}},
	{"WaitOwnClient", "goroutines of one process wait for one another, too", func(s *scene) {
		c := s.open()
		e := s.enter(c)
		done := s.during(c, func() error { return c.Wait(s.ctx(), e) })
		s.leave(c, e)
		require.NoError(s, s.soon(done, wallAnswer))
	}},
	{"WaitDeleted", "an entry that an administrator removed is out of the way", func(s *scene) {
		a, b := s.open(), s.open()
		e := s.enter(a)
		done := s.during(b, func() error { return b.Wait(s.ctx(), e) })
		s.Delete(s.T, e)
		require.NoError(s, s.soon(done, wallAnswer))
	}},
	{"WaitExpired", "the entries of a process that died must not be waited for", func(s *scene) {
		a, b := s.open(), s.open()
		e := s.enter(a)
		done := s.during(b, func() error { return b.Wait(s.ctx(), e) })
		s.Expire(s.T, a)
		require.NoError(s, s.soon(done, wallAnswer))
	}},
	{"WaitAnyOf", "holders of a semaphore leave in any order", func(s *scene) {
		a, b := s.open(), s.open()
		first, second, third := s.enter(a), s.enter(a), s.enter(a)
		done := s.during(b, func() error { return b.Wait(s.ctx(), third, second, first) })
		s.leave(a, second)
		require.NoError(s, s.soon(done, wallAnswer))
		require.NoError(s, b.Wait(s.ctx(), first, second), "one is gone already")
		done = s.during(b, func() error { return b.Wait(s.ctx(), first, third) })
		s.leave(a, first)
		require.NoError(s, s.soon(done, wallAnswer))
	}},
	{"WaitEnds", "a caller that gives up gets its goroutine back", func(s *scene) {
		a, b := s.open(), s.open()
		e := s.enter(a)
		ctx, cancel := context.WithCancel(s.ctx())
		defer cancel()
		done := s.during(b, func() error { return b.Wait(ctx, e) })
		cancel()
		require.ErrorIs(s, s.soon(done, wallPrompt), context.Canceled)
		done = s.during(b, func() error { return b.Wait(s.ctx(), e) })
		s.leave(a, e)
		require.NoError(s, s.soon(done, wallAnswer), "the one who gave up takes nobody's watch with it")
	}},
	{"WaitMany", "one event is for all who wait", func(s *scene) {
		a, b := s.open(), s.open()
		e := s.enter(a)
		ctx := s.ctx()
		done := s.during(b, func() error {
			var g errgroup.Group
			for range 20 {
				g.Go(func() error { return b.Wait(ctx, e) })
			}
			return g.Wait()
		})
		s.leave(a, e)
		require.NoError(s, s.soon(done, wallAnswer))
	}},
	{"WaitRefusesStray", "an entry that no session ends would be waited for without end, and nobody told why", func(s *scene) {
		c := s.open()
		stray := s.Stray(s.T, s.queue)
		_, blockers := s.join(c, s.exclusive(s.queue))
		require.Equal(s, []string{stray.ID}, ids(blockers))
		err := c.Wait(s.ctx(), blockers...)
		require.Error(s, err)
		require.NotErrorIs(s, err, context.DeadlineExceeded, "refused at once")
		require.ErrorContains(s, err, stray.ID)
		s.Delete(s.T, stray)
		require.NoError(s, c.Wait(s.ctx(), blockers...))
	}},
}
