package drivertest

import (
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// These are for drivers that can Tell.
var tellCases = []conformance{
	{"TellDuring", "a holder that is willing to give up has to hear that another client asks", func(s *scene) {
		a, b := s.tellers()
		e, other := a.join(driver.Exclusive), a.join(driver.Exclusive)
		a.hears(e, "")
		w, another := a.watch(e, told(e)), a.watch(other, told(other))
		b.tell(e, "give it back")
		w.wakes()
		a.hears(e, "give it back")
		a.hears(other, "")
		another.ends() // it was not told
	}},
	{"TellBefore", "a holder may begin to listen later", func(s *scene) {
		a, b := s.tellers()
		e := a.join(driver.Exclusive)
		b.tell(e, "please")
		b.tell(e, "now")
		a.watch(e, told(e)).wakes()
		a.hears(e, "now")
		a.hears(e, "now")
		a.remove(e)
	}},
	{"TellWhole", "words of several lines tell by whom a lock was broken, and why", func(s *scene) {
		a, b := s.tellers()
		e := a.join(driver.Exclusive)
		b.tell(e, "give it back")
		b.tell(e, "first\nsecond\nthird")
		a.watch(e, told(e)).wakes()
		a.hears(e, "first\nsecond\nthird")
		a.remove(e)
	}},
	{"TellOwn", "a process may ask itself", func(s *scene) {
		a, _ := s.tellers()
		e := a.join(driver.Exclusive)
		w := a.watch(e, told(e))
		a.tell(e, "give it back")
		w.wakes()
		a.hears(e, "give it back")
	}},
	{"TellGone", "a holder that has gone cannot be asked any more", func(s *scene) {
		a, b := s.tellers()
		e := a.join(driver.Exclusive)
		a.remove(e)
		_, err := b.Tell(s.ctx(), e, "give it back")
		require.ErrorIs(s, err, driver.ErrGone)
		require.Empty(s, b.in(s.queue))
		_, ahead := a.create(a.entry(s.queue, driver.Exclusive))
		require.Empty(s, ahead, "words are no entry")
	}},
	{"TellOneBefore", "a holder must not be taken for one before it that was told to give the lock back", func(s *scene) {
		a, b := s.tellers()
		for range 20 {
			before := a.join(driver.Exclusive)
			b.tell(before, "give it back")
			a.remove(before)
			e := a.join(driver.Exclusive)
			_, err := b.Tell(s.ctx(), before, "now")
			require.ErrorIs(s, err, driver.ErrGone)
			a.hears(e, "")
			a.watches(e, told(e))
			w := a.watch(e, told(e))
			b.tell(e, "you, too")
			w.wakes()
			a.hears(e, "you, too")
			a.remove(e)
		}
	}},
	{"TellNothing", "words that outlive their entry are taken back, and no later entry's words with them", func(s *scene) {
		a, b := s.tellers()
		e := a.join(driver.Exclusive)
		lasts, err := b.Tell(s.ctx(), e, "give it back")
		require.NoError(s, err)
		a.tell(e, "turn\na\n\nturn=1") // whichever session was the last
		a.remove(e)
		next := a.join(driver.Exclusive)
		b.tell(next, "you, too")
		if lasts {
			b.tell(e, "")
			b.tell(e, "") // the answer to the first may have been lost
		}
		b.hears(next, "you, too")
		a.remove(next)
		if lasts {
			b.tell(next, "")
		}
	}},
	{"HeardByOthers", "whoever has left words can look whether they are there, and what the holder has answered", func(s *scene) {
		a, b := s.tellers()
		e := a.join(driver.Exclusive)
		b.hears(e, "")
		b.tell(e, "break\nb\nstuck\nturn=0")
		b.hears(e, "break\nb\nstuck\nturn=0")
		a.tell(e, "turn\na\n\nturn=1")
		b.hears(e, "turn\na\n\nturn=1")
		a.remove(e)
		_, err := b.Heard(s.ctx(), e)
		require.ErrorIs(s, err, driver.ErrGone)
	}},
	{"ToldIsGone", "a holder that listens must not do so for ever", func(s *scene) {
		a, b := s.tellers()
		e := a.join(driver.Exclusive)
		w := a.watch(e, told(e))
		s.Delete(s.T, e)
		w.wakes()
		_, err := a.Heard(s.ctx(), e)
		require.ErrorIs(s, err, driver.ErrGone)
		e = b.join(driver.Exclusive)
		b.remove(e)
		b.watch(e, told(e)).wakes()
	}},
	{"TellIsNoChange", "to be asked for a lock is not to have given it up, nor to have become a reader", func(s *scene) {
		a, b := s.tellers()
		first, reader, writer := a.join(driver.Write), b.join(driver.Read), b.join(driver.Write)
		b.tell(b.list(s.queue)[0], "give it back")
		require.Equal(s, []string{first.ID}, ids(b.all(reader)))
		list := b.list(s.queue)
		require.Equal(s, []string{first.ID, reader.ID, writer.ID}, ids(list))
		require.Equal(s, driver.Write, list[0].Kind)
		require.Equal(s, first.Revision, list[0].Revision)
		require.Equal(s, "drivertest", string(list[0].Value))
		w := b.watch(reader, gone(first))
		a.remove(first)
		w.wakes()
	}},
	{"TellThenReplace", "a writer that was asked can still turn into a reader, and be asked again", func(s *scene) {
		a, b := s.tellers()
		first := a.join(driver.Write)
		b.tell(first, "give it back")
		to := a.replace(first, driver.Read, nil)
		w := a.watch(to, told(to))
		b.tell(b.list(s.queue)[0], "again")
		w.wakes()
		a.hears(to, "again")
		a.remove(to)
		require.Empty(s, b.in(s.queue))
	}},
	{"TellGoesWithItsEntry", "words that outlive their entry are waste, or are taken for another's", func(s *scene) {
		a, b := s.tellers()
		e := a.join(driver.Exclusive)
		b.tell(e, "give it back")
		s.Expire(s.T, a)
		b.watch(driver.Entry{}, gone(e)).wakes()
		require.Empty(s, b.in(s.queue))
		next := b.join(driver.Exclusive)
		b.hears(next, "")
		require.Empty(s, b.all(next))
	}},
}

// tellers returns two clients, or skips the case.
func (s *scene) tellers() (a, b *client) {
	s.Helper()
	a, b = s.pair()
	if _, err := a.Tell(s.ctx(), driver.Entry{Queue: s.queue, ID: a.NewID(s.queue, driver.Exclusive, 1)}, "x"); errors.Is(err, errors.ErrUnsupported) {
		s.Skip("the driver cannot tell")
	}
	return a, b
}

func (c *client) tell(e driver.Entry, words string) {
	c.s.Helper()
	_, err := c.Tell(c.s.ctx(), e, words)
	require.NoError(c.s, err)
}

func (c *client) hears(e driver.Entry, words string) {
	c.s.Helper()
	heard, err := c.Heard(c.s.ctx(), e)
	require.NoError(c.s, err)
	require.Equal(c.s, words, heard)
}
