package storetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
)

// askCases are for stores that are a recipe.Asker.
var askCases = []conformance{
	{"AskedDuring", "a holder that is willing to give up has to hear that somebody asks", func(s *scene) {
		a, b := s.askers()
		e := s.enter(a)
		other := s.enter(a)
		done := s.during(a, func() error { return a.Asked(s.ctx(), e) })
		ctx, cancel := context.WithCancel(s.ctx())
		defer cancel()
		another := s.during(a, func() error { return a.Asked(ctx, other) })
		require.NoError(s, b.Ask(s.ctx(), s.entries(b, s.queue)[0]))
		require.NoError(s, s.soon(done, wallAnswer))
		cancel()
		require.ErrorIs(s, s.soon(another, wallAnswer), context.Canceled, "it was not asked for")
		s.leave(a, e)
		s.leave(a, other)
	}},
	{"AskedBefore", "a holder may begin to listen later", func(s *scene) {
		a, b := s.askers()
		e := s.enter(a)
		list := s.entries(b, s.queue)
		require.NoError(s, b.Ask(s.ctx(), list[0]))
		require.NoError(s, b.Ask(s.ctx(), list[0]), "more than once")
		require.NoError(s, a.Asked(s.ctx(), e))
		require.NoError(s, a.Asked(s.ctx(), e), "and again")
		s.leave(a, e)
	}},
	{"AskOwn", "a process may ask itself", func(s *scene) {
		a, _ := s.askers()
		e := s.enter(a)
		done := s.during(a, func() error { return a.Asked(s.ctx(), e) })
		require.NoError(s, a.Ask(s.ctx(), s.entries(a, s.queue)[0]))
		require.NoError(s, s.soon(done, wallAnswer))
		s.leave(a, e)
	}},
	{"AskGone", "there is nobody to ask any more", func(s *scene) {
		a, b := s.askers()
		e := s.enter(a)
		list := s.entries(b, s.queue)
		s.leave(a, e)
		require.ErrorIs(s, b.Ask(s.ctx(), list[0]), recipe.ErrGone)
		require.Empty(s, s.entries(b, s.queue))
		_, blockers := s.join(a, s.exclusive(s.queue))
		require.Empty(s, blockers, "what was asked for is no entry")
	}},
	{"AskedGone", "who listens must not do so for ever", func(s *scene) {
		a, b := s.askers()
		e := s.enter(a)
		done := s.during(a, func() error { return a.Asked(s.ctx(), e) })
		s.Delete(s.T, e)
		require.ErrorIs(s, s.soon(done, wallAnswer), recipe.ErrGone)
		require.ErrorIs(s, a.Asked(s.ctx(), e), recipe.ErrGone)
		e = s.enter(a)
		done = s.during(a, func() error { return a.Asked(s.ctx(), e) })
		s.Expire(s.T, a)
		require.NoError(s, b.Wait(s.ctx(), e))
		require.Error(s, s.soon(done, wallAnswer))
		s.over(e.Session)
		require.ErrorIs(s, a.Asked(s.ctx(), e), recipe.ErrGone)
	}},
	{"AskedEnds", "a listener that gives up gets its goroutine back", func(s *scene) {
		a, b := s.askers()
		e := s.enter(a)
		ctx, cancel := context.WithCancel(s.ctx())
		defer cancel()
		done := s.during(a, func() error { return a.Asked(ctx, e) })
		cancel()
		require.ErrorIs(s, s.soon(done, wallPrompt), context.Canceled)
		require.ErrorIs(s, s.prompt(func() error { return b.Ask(ended(), e) }), context.Canceled)
		done = s.during(a, func() error { return a.Asked(s.ctx(), e) })
		require.NoError(s, b.Ask(s.ctx(), s.entries(b, s.queue)[0]))
		require.NoError(s, s.soon(done, wallAnswer))
		s.leave(a, e)
	}},
	{"AskIsNoChange", "to be asked for it is not to have given it up, nor to have become a reader", func(s *scene) {
		a, b := s.askers()
		first, _ := s.join(a, s.write())
		reader, blockers := s.join(b, s.read())
		writer, _ := s.join(b, s.write())
		require.NoError(s, b.Ask(s.ctx(), s.entries(b, s.queue)[0]))
		require.Equal(s, []string{first.ID}, ids(s.blockers(b, reader, recipe.SharedRule())))
		require.Equal(s, []string{reader.ID}, ids(s.blockers(b, writer, recipe.ExclusiveRule())))
		list := s.entries(b, s.queue)
		require.Equal(s, []string{first.ID, reader.ID, writer.ID}, ids(list))
		require.Equal(s, recipe.Write, list[0].Kind)
		require.Equal(s, first.Revision, list[0].Revision)
		done := s.during(b, func() error { return b.Wait(s.ctx(), blockers...) })
		s.leave(a, first)
		require.NoError(s, s.soon(done, wallAnswer))
		require.Empty(s, s.blockers(b, reader, recipe.SharedRule()))
	}},
	{"AskThenChange", "a writer that was asked can still turn into a reader, and be asked again", func(s *scene) {
		a, b := s.askers()
		first, _ := s.join(a, s.write())
		require.NoError(s, b.Ask(s.ctx(), s.entries(b, s.queue)[0]))
		changed, err := a.Change(s.ctx(), first, recipe.Read, nil)
		require.NoError(s, err)
		done := s.during(a, func() error { return a.Asked(s.ctx(), changed) })
		require.NoError(s, b.Ask(s.ctx(), s.entries(b, s.queue)[0]))
		require.NoError(s, s.soon(done, wallAnswer))
		s.leave(a, changed)
	}},
}

type askingClient interface {
	Client
	recipe.Asker
}

// askers returns two clients, or skips the case.
func (s *scene) askers() (a, b askingClient) {
	s.Helper()
	for _, c := range []*askingClient{&a, &b} {
		asker, ok := s.open().(askingClient)
		if !ok {
			s.Skip("the store is no recipe.Asker")
		}
		*c = asker
	}
	return a, b
}
