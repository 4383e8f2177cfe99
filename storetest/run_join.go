package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/recipe"
)

var joinCases = []conformance{
	{"JoinFree", "an entry that nothing blocks is a lock that is held", func(s *scene) {
		c := s.open()
		e, blockers := s.join(c, s.exclusive(s.queue))
		require.Empty(s, blockers)
		require.NoError(s, e.Session.Err())
		require.Positive(s, e.Revision)
		require.Equal(s, recipe.Exclusive, e.Kind)
		require.EqualValues(s, 1, e.Units)
		require.Empty(s, s.blockers(c, e, recipe.ExclusiveRule()))
	}},
	{"RevisionsIncrease", "a resource that checks fencing tokens refuses a holder whose revision went back", func(s *scene) {
		a, b := s.open(), s.open()
		var last int64
		for i := range 6 {
			c := []Client{a, b}[i%2]
			queue := []string{s.queue, s.queue + "-other"}[i/2%2]
			e, _ := s.join(c, s.exclusive(queue))
			require.Greater(s, e.Revision, last)
			last = e.Revision
			if i%3 == 0 {
				s.leave(c, e) // an empty queue must not begin to count anew
			}
		}
	}},
	{"RoundTrip", "what an entry asks for has to be understood by those behind it, in other processes", func(s *scene) {
		a, b := s.open(), s.open()
		for _, r := range []recipe.Request{
			{Kind: recipe.Exclusive, Units: 1, Rule: recipe.ExclusiveRule()},
			{Kind: recipe.Write, Units: 1, Rule: recipe.ExclusiveRule()},
			{Kind: recipe.Read, Units: 1, Rule: recipe.SharedRule()},
			{Kind: recipe.Permit, Units: 12, Size: 20, Rule: recipe.UnitsRule(20)},
			{Kind: recipe.Candidate, Units: 1, Rule: recipe.ExclusiveRule()},
		} {
			r.Queue, r.Value = s.queue+"-"+r.Kind.String(), []byte("who \x00 é /"+r.Kind.String())
			e, _ := s.join(a, r)
			list := s.entries(b, r.Queue)
			require.Len(s, list, 1, r.Kind)
			got := list[0]
			require.Equal(s, e.ID, got.ID, r.Kind)
			require.Equal(s, r.Queue, got.Queue, r.Kind)
			require.Equal(s, r.Kind, got.Kind)
			require.Equal(s, r.Units, got.Units, r.Kind)
			require.Equal(s, e.Revision, got.Revision, r.Kind)
			require.Equal(s, r.Value, got.Value, r.Kind)
			if !got.Since.IsZero() {
				require.WithinDuration(s, time.Now(), got.Since, time.Hour, r.Kind)
			}
		}
	}},
	{"HolderIsDefault", "people who look for the holder of a lock see who it is", func(s *scene) {
		a, b := s.open(), s.open()
		r := s.exclusive(s.queue)
		s.join(a, r)
		require.NotEmpty(s, s.entries(b, s.queue)[0].Value)
		r.Queue += "-empty"
		r.Value = []byte{}
		s.join(a, r)
		require.Empty(s, s.entries(b, r.Queue)[0].Value, "an empty value is a value")
	}},
	{"BigValue", "a request that no service will take must not be tried again for ever", func(s *scene) {
		a, b := s.open(), s.open()
		r := s.exclusive(s.queue)
		r.Value = bytes.Repeat([]byte("x"), 2<<20)
		e, _, err := a.Join(s.ctx(), r)
		if err == nil {
			require.Equal(s, r.Value, s.entries(b, s.queue)[0].Value)
			s.leave(a, e)
		}
		require.NotErrorIs(s, err, context.DeadlineExceeded, "refuse it or keep it")
		s.untilEmpty(b)
		s.enter(a)
	}},
	{"OldestFirst", "two clients that see different orders both hold", func(s *scene) {
		a, b := s.open(), s.open()
		var want []string
		for i := range 6 {
			want = append(want, s.enter([]Client{a, b, b}[i%3]).ID)
		}
		require.Equal(s, want, ids(s.entries(a, s.queue)))
		list := s.entries(b, s.queue)
		require.Equal(s, want, ids(list))
		require.True(s, slices.IsSortedFunc(list, func(x, y recipe.Entry) int { return int(x.Revision - y.Revision) }))
	}},
	{"PredecessorBlocks", "a waiter that watches more than its predecessor is a herd, one that watches less is stranded",
		func(s *scene) {
			a, b := s.open(), s.open()
			first, second := s.enter(a), s.enter(b)
			third, blockers := s.join(a, s.exclusive(s.queue))
			require.Equal(s, []string{second.ID}, ids(blockers))
			require.Equal(s, []string{second.ID}, ids(s.blockers(a, third, recipe.ExclusiveRule())))
			require.Equal(s, []string{first.ID}, ids(s.blockers(b, second, recipe.ExclusiveRule())))
			require.Empty(s, s.blockers(a, first, recipe.ExclusiveRule()))
		}},
	{"BlockersShrink", "the entry that went away may have been a waiter: who is woken looks again", func(s *scene) {
		a, b := s.open(), s.open()
		first, second, third := s.enter(a), s.enter(b), s.enter(a)
		s.leave(b, second)
		require.NoError(s, a.Wait(s.ctx(), second))
		require.Equal(s, []string{first.ID}, ids(s.blockers(a, third, recipe.ExclusiveRule())))
		s.leave(a, first)
		require.Empty(s, s.blockers(a, third, recipe.ExclusiveRule()))
	}},
	{"ReadersShare", "readers run beside readers, and never beside a writer", func(s *scene) {
		a, b := s.open(), s.open()
		first, blockers := s.join(a, s.read())
		require.Empty(s, blockers)
		second, blockers := s.join(b, s.read())
		require.Empty(s, blockers)
		writer, blockers := s.join(a, s.write())
		require.Equal(s, []string{second.ID}, ids(blockers))
		third, blockers := s.join(b, s.read())
		require.Equal(s, []string{writer.ID}, ids(blockers), "a reader that passes a waiting writer starves it")
		fourth, blockers := s.join(a, s.read())
		require.Equal(s, []string{writer.ID}, ids(blockers))
		s.leave(a, first)
		s.leave(b, second)
		require.Empty(s, s.blockers(a, writer, recipe.ExclusiveRule()))
		s.leave(a, writer)
		require.Empty(s, s.blockers(a, fourth, recipe.SharedRule()))
		require.NoError(s, b.Wait(s.ctx(), writer))
		require.Empty(s, s.blockers(b, third, recipe.SharedRule()))
	}},
	{"UnitsFit", "a semaphore that counts wrong lets too many in, or strands a waiter", func(s *scene) {
		a, b := s.open(), s.open()
		permit := func(c Client, units int64) (recipe.Entry, []string) {
			e, blockers := s.join(c, recipe.Request{
				Queue: s.queue, Kind: recipe.Permit, Units: units, Size: 5, Rule: recipe.UnitsRule(5),
			})
			require.Equal(s, units, e.Units)
			require.Equal(s, ids(blockers), ids(s.blockers(c, e, recipe.UnitsRule(5))))
			return e, ids(blockers)
		}
		first, blockers := permit(a, 2)
		require.Empty(s, blockers)
		second, blockers := permit(b, 2)
		require.Empty(s, blockers)
		third, blockers := permit(a, 3)
		require.Equal(s, []string{second.ID, first.ID}, blockers, "nearest first, as many as keep it from fitting")
		_, blockers = permit(b, 1)
		require.Equal(s, []string{third.ID, second.ID}, blockers, "it would fit, but it came later")
		s.leave(a, first)
		require.Empty(s, s.blockers(a, third, recipe.UnitsRule(5)))
	}},
	{"PeekWritesNothing", "a try that finds the lock taken must not be seen by others", func(s *scene) {
		a, b := s.open(), s.open()
		blockers, err := b.Peek(s.ctx(), s.exclusive(s.queue))
		require.NoError(s, err)
		require.Empty(s, blockers)
		require.Empty(s, s.entries(b, s.queue))
		e := s.enter(a)
		before := s.entries(b, s.queue)
		blockers, err = b.Peek(s.ctx(), s.exclusive(s.queue))
		require.NoError(s, err)
		require.Equal(s, []string{e.ID}, ids(blockers))
		require.Equal(s, ids(before), ids(s.entries(b, s.queue)))
	}},
	{"PeekKnowsKinds", "a reader that tries must not be turned away by readers", func(s *scene) {
		a, b := s.open(), s.open()
		s.join(a, s.read())
		s.entries(b, s.queue)
		blockers, err := b.Peek(s.ctx(), s.read())
		require.NoError(s, err)
		require.Empty(s, blockers)
		writer, _ := s.join(a, s.write())
		s.entries(b, s.queue)
		blockers, err = b.Peek(s.ctx(), s.read())
		require.NoError(s, err)
		require.Equal(s, []string{writer.ID}, ids(blockers))
	}},
	{"QueuesApart", "a lock on /a that blocks /a/b, or is blocked by it, is another lock than it was asked for",
		func(s *scene) {
			a, b := s.open(), s.open()
			for _, queue := range []string{s.queue + "/b", s.queue, s.queue + "b", s.queue + "/b/exclusive-1"} {
				e, blockers := s.join(a, s.exclusive(queue))
				require.Empty(s, blockers, queue)
				require.Equal(s, []string{e.ID}, ids(s.entries(b, queue)), queue)
				blockers, err := b.Peek(s.ctx(), s.exclusive(queue))
				require.NoError(s, err)
				require.Equal(s, []string{e.ID}, ids(blockers), queue)
			}
		}},
	{"ConcurrentJoins", "whatever order the service makes of joins at the same time, it has to be one", func(s *scene) {
		clients := []Client{s.open(), s.open()}
		entries, blockers := make([]recipe.Entry, 40), make([][]recipe.Entry, 40)
		var g errgroup.Group
		for i := range entries {
			g.Go(func() (err error) {
				entries[i], blockers[i], err = clients[i%2].Join(s.ctx(), s.exclusive(s.queue))
				return err
			})
		}
		require.NoError(s, g.Wait())
		order := ids(s.entries(clients[0], s.queue))
		require.Equal(s, order, ids(s.entries(clients[1], s.queue)))
		require.Len(s, slices.Compact(slices.Sorted(slices.Values(order))), len(entries), "no two share an ID")
		for i, e := range entries {
			place := slices.Index(order, e.ID)
			require.GreaterOrEqual(s, place, 0)
			require.Equal(s, order[max(0, place-1):place], ids(blockers[i]), "nobody has left, so Join saw the predecessor")
		}
	}},
	{"ForeignBlocks", "other programs stand in the same queue, and are entitled to their turn", func(s *scene) {
		c := s.open()
		foreign := s.Foreign(s.T, s.queue)
		e, blockers := s.join(c, s.exclusive(s.queue))
		require.Equal(s, []string{foreign.ID}, ids(blockers))
		done := s.during(c, func() error { return c.Wait(s.ctx(), blockers...) })
		s.Delete(s.T, foreign)
		require.NoError(s, s.soon(done, wallAnswer))
		require.Empty(s, s.blockers(c, e, recipe.ExclusiveRule()))
	}},
	{"ForeignBlocksReaders", "what another program asks for is not known, so it counts as exclusive", func(s *scene) {
		c := s.open()
		foreign := s.Foreign(s.T, s.queue)
		_, blockers := s.join(c, s.read())
		require.Equal(s, []string{foreign.ID}, ids(blockers))
	}},
	{"EndedContext", "a caller that has given up gets its goroutine back, whatever the service does", func(s *scene) {
		a, b := s.open(), s.open()
		first, second := s.enter(a), s.enter(b)
		for name, call := range map[string]func() error{
			"Peek": func() error { _, err := b.Peek(ended(), s.exclusive(s.queue)); return err },
			"Join": func() error { _, _, err := b.Join(ended(), s.exclusive(s.queue)); return err },
			"Blockers": func() error {
				_, err := b.Blockers(ended(), second, recipe.ExclusiveRule())
				return err
			},
			"Wait":    func() error { return b.Wait(ended(), first) },
			"Entries": func() error { _, err := b.Entries(ended(), s.queue); return err },
		} {
			require.ErrorIs(s, s.prompt(call), context.Canceled, name)
		}
		s.leave(a, first)
		s.leave(b, second)
		s.untilEmpty(b)
	}},
	{"CancelledJoins", "an entry that nobody knows of blocks everybody for as long as the session lives", func(s *scene) {
		a, b := s.open(), s.open()
		cause := errors.New("enough")
		for range 20 {
			ctx, cancel := context.WithCancelCause(s.ctx())
			done := make(chan error, 1)
			go func() {
				e, _, err := a.Join(ctx, s.exclusive(s.queue))
				if err == nil {
					err = a.Leave(s.ctx(), e)
				}
				done <- err
			}()
			cancel(cause)
			if err := s.soon(done, wallAnswer); err != nil {
				require.ErrorIs(s, err, context.Canceled)
				require.ErrorIs(s, err, cause)
			}
		}
		s.untilEmpty(b)
		s.untilEmpty(a)
		_, blockers := s.join(a, s.exclusive(s.queue))
		require.Empty(s, blockers)
	}},
}
