package storetest

import (
	"bytes"
	"context"
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
)

var changeCases = []conformance{
	{"ChangeKeepsThePlace", "a writer that turns into a reader must not let a queued writer in between", func(s *scene) {
		a, b := s.open(), s.open()
		first, _ := s.join(a, s.write())
		reader, blockers := s.join(b, s.read())
		require.Equal(s, []string{first.ID}, ids(blockers))
		writer, _ := s.join(a, s.write())
		last, _ := s.join(b, s.read())
		done := s.during(b, func() error { return b.Wait(s.ctx(), blockers...) })
		changed, err := a.Change(s.ctx(), first, recipe.Read, nil)
		require.NoError(s, err)
		require.Equal(s, recipe.Read, changed.Kind)
		require.Same(s, first.Session, changed.Session)
		require.NoError(s, s.soon(done, wallAnswer), "readers that wait are woken")
		require.Empty(s, s.blockers(b, reader, recipe.SharedRule()))
		require.Empty(s, s.blockers(a, changed, recipe.SharedRule()), "it exists")
		require.Equal(s, []string{reader.ID}, ids(s.blockers(a, writer, recipe.ExclusiveRule())))
		require.Equal(s, []string{writer.ID}, ids(s.blockers(b, last, recipe.SharedRule())))
		list := s.entries(b, s.queue)
		require.Equal(s, []string{changed.ID, reader.ID, writer.ID, last.ID}, ids(list))
		require.Equal(s, recipe.Read, list[0].Kind)
		require.Equal(s, first.Value, list[0].Value)
		s.leave(b, reader)
		require.Equal(s, []string{changed.ID}, ids(s.blockers(a, writer, recipe.ExclusiveRule())), "it still holds")
		s.leave(a, changed)
		require.Empty(s, s.blockers(a, writer, recipe.ExclusiveRule()))
	}},
	{"ChangeBeforeTheWait", "the writer may have turned into a reader between the look at the queue and the wait",
		func(s *scene) {
			a, b := s.open(), s.open()
			first, _ := s.join(a, s.write())
			_, blockers := s.join(b, s.read())
			_, err := a.Change(s.ctx(), first, recipe.Read, nil)
			require.NoError(s, err)
			require.NoError(s, b.Wait(s.ctx(), blockers...))
		}},
	{"ChangeWakesThoseWhoWaitForSeveral", "several are waited for in another way than one", func(s *scene) {
		a, b := s.open(), s.open()
		other := s.enter(a)
		first, _ := s.join(a, s.write())
		_, blockers := s.join(b, s.read())
		waited := append(blockers, other)
		done := s.during(b, func() error { return b.Wait(s.ctx(), waited...) })
		_, err := a.Change(s.ctx(), first, recipe.Read, nil)
		require.NoError(s, err)
		require.NoError(s, s.soon(done, wallAnswer))
		require.NoError(s, b.Wait(s.ctx(), waited...))
	}},
	{"ChangedWriterBlocksWriters", "a writer right behind may be woken, but must not run", func(s *scene) {
		a, b := s.open(), s.open()
		first, _ := s.join(a, s.write())
		writer, _ := s.join(b, s.write())
		changed, err := a.Change(s.ctx(), first, recipe.Read, nil)
		require.NoError(s, err)
		blockers := s.blockers(b, writer, recipe.ExclusiveRule())
		require.Equal(s, []string{changed.ID}, ids(blockers))
		done := s.during(b, func() error { return b.Wait(s.ctx(), blockers...) })
		s.leave(a, changed)
		require.NoError(s, s.soon(done, wallAnswer))
		require.Empty(s, s.blockers(b, writer, recipe.ExclusiveRule()))
	}},
	{"ChangedGoesWithItsSession", "a reader that was a writer must not outlive its process", func(s *scene) {
		a, b := s.open(), s.open()
		first, _ := s.join(a, s.write())
		changed, err := a.Change(s.ctx(), first, recipe.Read, nil)
		require.NoError(s, err)
		s.Expire(s.T, a)
		require.NoError(s, b.Wait(s.ctx(), changed))
		s.untilEmpty(b)
	}},
	{"ChangeValue", "who follows a leader has to see what it says now", func(s *scene) {
		a, b := s.open(), s.open()
		e, _ := s.join(a, s.candidate("one"))
		behind, _ := s.join(b, s.candidate("two"))
		list := s.entries(b, s.queue)
		require.NotZero(s, list[0].Version)
		done := s.during(b, func() error { return b.Wait(s.ctx(), list[0]) })
		changed, err := a.Change(s.ctx(), e, recipe.Candidate, []byte("one \x00 more"))
		require.NoError(s, err)
		require.Equal(s, e.ID, changed.ID)
		require.Equal(s, e.Revision, changed.Revision)
		require.NoError(s, s.soon(done, wallAnswer))
		require.NoError(s, b.Wait(s.ctx(), list[0]), "it has changed since it was read")
		now := s.entries(b, s.queue)
		require.Equal(s, []string{e.ID, behind.ID}, ids(now))
		require.Equal(s, "one \x00 more", string(now[0].Value))
		require.Equal(s, list[0].Revision, now[0].Revision)
		require.NotEqual(s, list[0].Version, now[0].Version)
		require.Equal(s, recipe.Candidate, now[0].Kind)
		require.Equal(s, []string{e.ID}, ids(s.blockers(b, behind, recipe.ExclusiveRule())))
		ctx, cancel := context.WithCancel(s.ctx())
		defer cancel()
		done = s.during(b, func() error { return b.Wait(ctx, now[0]) })
		cancel()
		require.ErrorIs(s, s.soon(done, wallAnswer), context.Canceled, "it has not changed since")
		_, err = a.Change(s.ctx(), changed, recipe.Candidate, []byte{})
		require.NoError(s, err)
		require.Empty(s, s.entries(b, s.queue)[0].Value)
		s.leave(a, changed)
	}},
	{"ChangeGone", "who changes what was taken away has to be told", func(s *scene) {
		a, b := s.open(), s.open()
		first, _ := s.join(a, s.write())
		second, _ := s.join(a, s.write())
		s.leave(a, first)
		s.Delete(s.T, second)
		for _, e := range []recipe.Entry{first, second} {
			_, err := a.Change(s.ctx(), e, recipe.Read, nil)
			require.ErrorIs(s, err, recipe.ErrGone)
			require.NotErrorIs(s, err, recipe.ErrUnknown)
			_, err = a.Change(s.ctx(), e, recipe.Write, []byte("new"))
			require.ErrorIs(s, err, recipe.ErrGone)
		}
		require.Empty(s, s.entries(b, s.queue), "nothing is made anew")
	}},
	{"ChangeExpired", "a leader whose session is over must not speak as one", func(s *scene) {
		a, b := s.open(), s.open()
		e, _ := s.join(a, s.candidate("one"))
		w, err := a.Change(s.ctx(), e, recipe.Candidate, []byte("two"))
		require.NoError(s, err)
		s.Expire(s.T, a)
		require.NoError(s, b.Wait(s.ctx(), e))
		for range 2 { // the client knows the second time
			_, err = a.Change(s.ctx(), w, recipe.Candidate, []byte("three"))
			// It may have had a connection break on it, and then not know.
			require.True(s, errors.Is(err, recipe.ErrGone) || errors.Is(err, recipe.ErrUnknown), err)
			require.Empty(s, s.entries(b, s.queue))
			s.over(e.Session)
		}
		require.ErrorIs(s, err, recipe.ErrGone)
	}},
	{"ChangeEndedContext", "a caller that has given up gets its goroutine back, and is told that nobody knows", func(s *scene) {
		a, b := s.open(), s.open()
		e, _ := s.join(a, s.candidate("one"))
		var err error
		require.ErrorIs(s, s.prompt(func() error {
			_, err = a.Change(ended(), e, recipe.Candidate, []byte("two"))
			return err
		}), context.Canceled)
		require.ErrorIs(s, err, recipe.ErrUnknown)
		require.NotErrorIs(s, err, recipe.ErrGone)
		list := s.entries(b, s.queue)
		require.Equal(s, []string{e.ID}, ids(list))
		require.Contains(s, []string{"one", "two"}, string(list[0].Value))
	}},
	{"ChangeTooLong", "a value that one service takes and another does not is refused by all", func(s *scene) {
		a := s.open()
		e, _ := s.join(a, s.candidate("one"))
		_, err := a.Change(s.ctx(), e, recipe.Candidate, bytes.Repeat([]byte("x"), recipe.MaxValue+1))
		require.Error(s, err)
		require.Equal(s, "one", string(s.entries(a, s.queue)[0].Value))
		long := bytes.Repeat([]byte("x"), recipe.MaxValue)
		_, err = a.Change(s.ctx(), e, recipe.Candidate, long)
		require.NoError(s, err)
		require.Equal(s, long, s.entries(a, s.queue)[0].Value)
	}},
}

func (s *scene) candidate(value string) recipe.Request {
	return recipe.Request{
		Queue: s.queue, Kind: recipe.Candidate, Units: 1, Value: []byte(value), Rule: recipe.ExclusiveRule(),
	}
}
