package storetest

import (
	"slices"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/recipe"
)

var sizeCases = []conformance{
	{"SizeUndeclared", "who looks at a semaphore before anybody uses it sees that", func(s *scene) {
		s.sizeIs(s.open(), 0, 0)
	}},
	{"SizeDeclared", "the size is kept where all who use it see it", func(s *scene) {
		a, b := s.open(), s.open()
		e, blockers := s.join(a, s.permit(2, 5))
		require.Empty(s, blockers)
		s.sizeIs(b, 5, 5)
		s.leave(a, e)
		s.sizeIs(b, 5, 5)
	}},
	{"SizeMismatch", "clients that disagree on the size let too many in (Curator's do, silently)", func(s *scene) {
		a, b := s.open(), s.open()
		e, _ := s.join(a, s.permit(2, 5))
		_, _, err := b.Join(s.ctx(), s.permit(2, 7))
		require.ErrorIs(s, err, recipe.ErrSize)
		require.ErrorContains(s, err, "5")
		require.ErrorContains(s, err, "7")
		s.untilOnly(b, e)
		s.sizeIs(b, 5, 5)
		require.Empty(s, s.blockers(a, e, recipe.UnitsRule(5)))
	}},
	{"SizeDeclaredAnew", "a size that nobody uses any more must not bind those who come", func(s *scene) {
		a, b := s.open(), s.open()
		e, _ := s.join(a, s.permit(2, 5))
		s.leave(a, e)
		_, blockers := s.join(b, s.permit(7, 7))
		require.Empty(s, blockers)
		s.sizeIs(a, 7, 7)
	}},
	{"SizeDeclaredAnewByAll", "after a deployment all come at once, and none of them uses the old size", func(s *scene) {
		a, b := s.open(), s.open()
		for _, size := range []int64{5, 7, 3} {
			entries := make([]recipe.Entry, 8)
			var g errgroup.Group
			for i := range entries {
				c := []Client{a, b}[i%2]
				g.Go(func() (err error) {
					entries[i], _, err = c.Join(s.ctx(), s.permit(1, size))
					return err
				})
			}
			require.NoError(s, g.Wait())
			s.sizeIs(a, size, size)
			for i, e := range entries {
				s.leave([]Client{a, b}[i%2], e)
			}
			s.untilEmpty(a)
			s.untilEmpty(b)
		}
	}},
	{"TooLarge", "who asks for more than there is would wait for ever, and all behind it", func(s *scene) {
		a, b := s.open(), s.open()
		_, _, err := a.Join(s.ctx(), s.permit(6, 5))
		require.ErrorIs(s, err, recipe.ErrTooLarge)
		s.untilEmpty(b)
		e, _ := s.join(a, s.permit(1, 5))
		_, _, err = b.Join(s.ctx(), s.permit(6, 5))
		require.ErrorIs(s, err, recipe.ErrTooLarge)
		s.untilOnly(b, e)
	}},
	{"ResizeUpWakes", "units that are there must not lie idle while somebody waits for them", func(s *scene) {
		a, b := s.open(), s.open()
		first, _ := s.join(a, s.permit(3, 5))
		e, blockers := s.join(b, s.permit(3, 5))
		require.Equal(s, []string{first.ID}, ids(blockers))
		size := slices.DeleteFunc(slices.Clone(blockers), func(e recipe.Entry) bool { return e.Kind != recipe.Size })
		require.Len(s, size, 1)
		require.EqualValues(s, 5, size[0].Units)
		one := s.during(b, func() error { return b.Wait(s.ctx(), size...) })
		all := s.during(b, func() error { return b.Wait(s.ctx(), blockers...) })
		require.NoError(s, a.Resize(s.ctx(), s.queue, 5, 6))
		require.NoError(s, s.soon(one, wallAnswer))
		require.NoError(s, s.soon(all, wallAnswer))
		require.NoError(s, b.Wait(s.ctx(), size...), "it has changed since it was read")
		require.NoError(s, b.Wait(s.ctx(), blockers...))
		require.Empty(s, s.blockers(b, e, recipe.UnitsRule(5)), "the current size counts, not the rule's")
		s.sizeIs(b, 5, 6)
	}},
	{"PermitWaits", "a wait that ends at once for no reason, each time, is a loop that burns a processor", func(s *scene) {
		a, b := s.open(), s.open()
		first, _ := s.join(a, s.permit(4, 5))
		second, _ := s.join(a, s.permit(1, 5))
		for n, units := range []int64{5, 1} { // behind one entry, and behind two
			e, blockers := s.join(b, s.permit(units, 5))
			require.Len(s, ids(blockers), n+1)
			s.waits(b, blockers)
			s.leave(b, e)
		}
		e, blockers := s.join(b, s.permit(1, 5))
		done := s.during(b, func() error { return b.Wait(s.ctx(), blockers...) })
		s.leave(a, second)
		require.NoError(s, s.soon(done, wallAnswer))
		require.Empty(s, s.blockers(b, e, recipe.UnitsRule(5)))
		s.leave(a, first)
	}},
	{"ResizeDownRevokesNobody", "those who hold go on, and those who come wait until there is room", func(s *scene) {
		a, b := s.open(), s.open()
		first, _ := s.join(a, s.permit(3, 5))
		second, _ := s.join(b, s.permit(2, 5))
		require.NoError(s, b.Resize(s.ctx(), s.queue, 5, 2))
		require.NoError(s, first.Session.Err())
		require.Equal(s, []string{first.ID, second.ID}, ids(s.entries(a, s.queue)))
		third, blockers := s.join(a, s.permit(1, 5))
		require.Equal(s, []string{second.ID}, ids(blockers))
		s.leave(a, first)
		require.Equal(s, []string{second.ID}, ids(s.blockers(a, third, recipe.UnitsRule(5))))
		s.leave(b, second)
		require.Empty(s, s.blockers(a, third, recipe.UnitsRule(5)))
	}},
	{"ResizeBelowWhatIsWaitedFor", "who waits for more than there is now would wait for ever", func(s *scene) {
		a, b := s.open(), s.open()
		s.join(a, s.permit(5, 5))
		e, blockers := s.join(b, s.permit(4, 5))
		done := s.during(b, func() error { return b.Wait(s.ctx(), blockers...) })
		require.NoError(s, a.Resize(s.ctx(), s.queue, 5, 3))
		require.NoError(s, s.soon(done, wallAnswer))
		_, err := b.Blockers(s.ctx(), e, recipe.UnitsRule(5))
		require.ErrorIs(s, err, recipe.ErrTooLarge)
		s.leave(b, e)
	}},
	{"ResizeMismatch", "who declares another size has another semaphore in mind", func(s *scene) {
		a, b := s.open(), s.open()
		s.join(a, s.permit(1, 5))
		err := b.Resize(s.ctx(), s.queue, 7, 9)
		require.ErrorIs(s, err, recipe.ErrSize)
		require.ErrorContains(s, err, "5")
		require.ErrorContains(s, err, "7")
		s.sizeIs(b, 5, 5)
	}},
	{"ResizeUndeclared", "an administrator may be there before those who use it", func(s *scene) {
		a, b := s.open(), s.open()
		require.NoError(s, a.Resize(s.ctx(), s.queue, 5, 8))
		s.sizeIs(b, 5, 8)
		e, blockers := s.join(b, s.permit(8, 5))
		require.Empty(s, blockers)
		s.leave(b, e)
		s.sizeIs(a, 5, 8)
	}},
	{"ResizeTwice", "the same size once more is no change of what is declared", func(s *scene) {
		a := s.open()
		e, _ := s.join(a, s.permit(1, 5))
		for _, size := range []int64{9, 9, 5, 1} {
			require.NoError(s, a.Resize(s.ctx(), s.queue, 5, size))
			s.sizeIs(a, 5, size)
		}
		s.leave(a, e)
	}},
}

func (s *scene) permit(units, size int64) recipe.Request {
	return recipe.Request{Queue: s.queue, Kind: recipe.Permit, Units: units, Size: size, Rule: recipe.UnitsRule(size)}
}

func (s *scene) sizeIs(c Client, declared, current int64) {
	s.Helper()
	d, now, err := c.Size(s.ctx(), s.queue)
	require.NoError(s, err)
	require.Equal(s, []int64{declared, current}, []int64{d, now})
}

// untilOnly waits until c sees only e in the scene's queue.
func (s *scene) untilOnly(c Client, e recipe.Entry) {
	s.Helper()
	ctx := s.ctx()
	for {
		list, err := c.Entries(ctx, s.queue)
		require.NoError(s, err)
		others := slices.DeleteFunc(slices.Clone(list), func(other recipe.Entry) bool { return other.ID == e.ID })
		if len(others) == 0 {
			require.Len(s, list, 1)
			return
		}
		require.NoError(s, c.Wait(ctx, others...), "still there: %s", ids(others))
	}
}
