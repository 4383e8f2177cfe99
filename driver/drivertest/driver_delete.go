package drivertest

import (
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
)

var deleteCases = []conformance{
	{"DeleteFinds", "a delete that finds nothing tells that the lock was lost before", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		a.remove(e)
		require.Empty(s, b.in(s.queue))
		a.absent(e)
		e = a.join(driver.Exclusive)
		s.Delete(s.T, e)
		a.absent(e)
		_, ahead := b.create(b.entry(s.queue, driver.Exclusive))
		require.Empty(s, ahead)
	}},
	{"DeleteOnlyThat", "removing another entry hands out the lock twice", func(s *scene) {
		c := s.open()
		first, second, third := c.join(driver.Exclusive), c.join(driver.Exclusive), c.join(driver.Exclusive)
		c.remove(second)
		require.Equal(s, []string{first.ID, third.ID}, ids(c.in(s.queue)))
		c.absent(second)
		require.Equal(s, []string{first.ID, third.ID}, ids(c.in(s.queue)))
	}},
	{"DeleteUnconfirmed", "an entry that its process does not know of blocks everything as long as the session lives",
		func(s *scene) {
			b := s.open()
			for _, fault := range []farsynctest.Fault{farsynctest.LoseReply, farsynctest.LoseRequest} {
				a := s.openIdle(farsynctest.Inject(s.Open(s.T), failOnce(farsynctest.Create, fault)))
				e := a.entry(s.queue, driver.Exclusive)
				_, err := a.Create(s.ctx(), e, 0)
				require.Equal(s, driver.Unknown, a.service.Outcome(err))
				other := a.join(driver.Exclusive)
				_, found, err := a.Delete(s.ctx(), e)
				require.NoError(s, err)
				require.Equal(s, fault == farsynctest.LoseReply, found)
				require.Equal(s, []string{other.ID}, ids(b.in(s.queue)))
				a.absent(e)
				a.remove(other)
			}
		}},
	{"DeleteOneBefore", "an entry may have the ID of one before it, whose removal is repeated late", func(s *scene) {
		a, b := s.pair()
		for range 20 {
			before := a.join(driver.Exclusive)
			a.remove(before)
			e := a.join(driver.Exclusive)
			a.absent(before)
			b.absent(before)
			require.NotEqual(s, before.Revision, e.Revision)
			require.Equal(s, []string{e.ID}, ids(b.in(s.queue)))
			a.gone(before)
			b.watch(driver.Entry{}, gone(before)).wakes()
			_, err := a.Find(s.ctx(), before)
			require.ErrorIs(s, err, driver.ErrGone)
			require.Equal(s, e.Revision, a.find(e).Revision)
			a.remove(e)
		}
	}},
	{"DeleteShows", "what is shown behind an entry that was deleted is there, and the first of it is the head", func(s *scene) {
		a, b := s.pair()
		first, left := a.join(driver.Exclusive), b.join(driver.Exclusive)
		next, last := b.join(driver.Exclusive), a.join(driver.Exclusive)
		b.remove(left)
		w := b.watch(next, gone(first))
		v, found, err := a.Delete(s.ctx(), first)
		require.NoError(s, err)
		require.True(s, found)
		if v.All {
			require.Equal(s, []string{next.ID, last.ID}, ids(v.Entries))
		}
		w.wakes()
		require.Empty(s, b.all(next))
		require.Equal(s, []string{next.ID}, ids(a.all(last)))
		b.remove(next)
		require.Empty(s, a.all(last))
		a.remove(last)
	}},
	{"DeleteExpired", "a release after the loss of the session finds nothing", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		s.Expire(s.T, a)
		b.watch(driver.Entry{}, gone(e)).wakes()
		if _, found, err := a.Delete(s.ctx(), e); err == nil {
			require.False(s, found)
		} else {
			require.NotEqual(s, driver.Refused, a.service.Outcome(err), err)
		}
	}},
}

// absent deletes e, which must not be there.
func (c *client) absent(e driver.Entry) {
	c.s.Helper()
	_, found, err := c.Delete(c.s.ctx(), e)
	require.NoError(c.s, err)
	require.False(c.s, found)
}
