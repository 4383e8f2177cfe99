package storetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
)

var vacantCases = []conformance{
	{"VacantEnds", "who looks for a leader where there is none has to hear of the first", func(s *scene) {
		a, b := s.open(), s.open()
		done := s.during(b, func() error { return b.Wait(s.ctx(), s.vacant()) })
		e, _ := s.join(a, s.candidate("one"))
		require.NoError(s, s.soon(done, wallAnswer), "of a queue that never was")
		require.NoError(s, b.Wait(s.ctx(), s.vacant()), "somebody was there before the call")
		s.leave(a, e)
		s.untilEmpty(b)
		done = s.during(b, func() error { return b.Wait(s.ctx(), s.vacant()) })
		s.join(a, s.candidate("two"))
		require.NoError(s, s.soon(done, wallAnswer), "of a queue that was left")
	}},
	{"VacantWaits", "a wait that ends at once for no reason, each time, is a loop that burns a processor", func(s *scene) {
		a, b := s.open(), s.open()
		s.waits(b, []recipe.Entry{s.vacant()})
		s.join(a, s.exclusive(s.queue+"/below"))
		s.waits(b, []recipe.Entry{s.vacant()}) // the entries of other queues are none of this
		done := s.during(b, func() error { return b.Wait(s.ctx(), s.vacant()) })
		s.join(a, s.exclusive(s.queue+"/other"))
		s.join(a, s.candidate("one"))
		require.NoError(s, s.soon(done, wallAnswer))
	}},
	{"VacantForeign", "another program's candidate is one, too", func(s *scene) {
		b := s.open()
		done := s.during(b, func() error { return b.Wait(s.ctx(), s.vacant()) })
		foreign := s.Foreign(s.T, s.queue)
		require.NoError(s, s.soon(done, wallAnswer))
		s.Delete(s.T, foreign)
	}},
	{"VacantRaces", "between the look at a queue that is not there and the wait it may come to be", func(s *scene) {
		a, b := s.open(), s.open()
		for range 20 {
			done := make(chan error, 1)
			ctx := s.ctx()
			vacant := s.vacant()
			go func() { done <- b.Wait(ctx, vacant) }()
			e, _ := s.join(a, s.candidate("one"))
			require.NoError(s, s.soon(done, wallAnswer))
			s.leave(a, e)
			s.queue += "x"
		}
	}},
}

func (s *scene) vacant() recipe.Entry { return recipe.Entry{Queue: s.queue, Kind: recipe.Vacant} }

// waits makes sure that a wait for the entries does not end by itself while some requests of c take.
func (s *scene) waits(c Client, entries []recipe.Entry) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.ctx())
	defer cancel()
	done := s.during(c, func() error { return c.Wait(ctx, entries...) })
	s.entries(c, s.queue)
	cancel()
	require.ErrorIs(s, s.soon(done, wallAnswer), context.Canceled)
}
