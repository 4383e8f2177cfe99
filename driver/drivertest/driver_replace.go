package drivertest

import (
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
)

var replaceCases = []conformance{
	{"ReplaceKeepsThePlace", "a writer that turns into a reader must not let a queued writer in between", func(s *scene) {
		a, b := s.pair()
		first := a.join(driver.Write)
		reader, writer, last := b.join(driver.Read), a.join(driver.Write), b.join(driver.Read)
		w := b.watch(reader, changed(b.all(reader)[0]))
		to := a.replace(first, driver.Read, nil)
		w.wakes()
		order := []string{to.ID, reader.ID, writer.ID, last.ID}
		require.Equal(s, order, ids(b.in(s.queue)))
		require.Equal(s, order[:2], ids(a.all(writer)))
		require.Equal(s, driver.Read, b.all(reader)[0].Kind)
		require.Empty(s, a.all(to))
		list := b.list(s.queue)
		require.Equal(s, order, ids(list))
		require.Equal(s, driver.Read, list[0].Kind)
		require.Equal(s, "drivertest", string(list[0].Value), "a nil value leaves the value")
		a.remove(to)
		require.Equal(s, []string{reader.ID}, ids(a.all(writer)))
	}},
	{"ReplaceGoesWithItsSession", "a reader that was a writer must not outlive its process", func(s *scene) {
		a, b := s.pair()
		to := a.replace(a.join(driver.Write), driver.Read, nil)
		s.Expire(s.T, a)
		b.watch(driver.Entry{}, gone(to)).wakes()
		require.Empty(s, b.in(s.queue))
	}},
	{"ReplaceValue", "an observer of a leader has to see what it says now", func(s *scene) {
		a, b := s.pair()
		e, behind := a.join(driver.Candidate), b.join(driver.Candidate)
		was := b.find(e)
		w := b.watch(driver.Entry{}, changed(was))
		to := a.replace(e, driver.Candidate, []byte("one \x00 more"))
		w.wakes()
		now := b.list(s.queue)
		require.Equal(s, []string{to.ID, behind.ID}, ids(now))
		require.Equal(s, "one \x00 more", string(now[0].Value))
		require.Equal(s, driver.Candidate, now[0].Kind)
		if to.ID == e.ID {
			require.Equal(s, e.Revision, now[0].Revision)
			require.NotEqual(s, was.Version, b.find(to).Version)
		}
		require.Equal(s, []string{to.ID}, ids(b.all(behind)))
		to = a.replace(to, driver.Candidate, []byte{})
		require.Empty(s, b.find(to).Value)
		a.remove(to)
	}},
	{"ReplaceValueOfAHolder", "a holder whose entry says which turn is held holds on", func(s *scene) {
		a, b := s.pair()
		for _, k := range []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Permit} {
			e := a.find(a.join(k))
			behind := b.join(k)
			to, err := a.Replace(s.ctx(), e, k, []byte("new"))
			if k == driver.Write && errors.Is(err, errors.ErrUnsupported) {
				// The driver documents that it cannot. It must have changed nothing.
				require.Equal(s, e, a.find(e))
			} else {
				require.NoError(s, err)
				now := e
				now.Version, now.Value = to.Version, []byte("new")
				require.Equal(s, now, b.find(e), "%v: only the value is another", k)
				require.NotEqual(s, e.Version, to.Version)
			}
			ahead := b.all(behind)
			require.Equal(s, []string{e.ID}, ids(ahead))
			require.Equal(s, k, ahead[0].Kind)
			a.remove(e)
			require.Empty(s, b.all(behind))
			b.remove(behind)
		}
	}},
	{"ReplaceConflict", "an older change that comes late must not undo a newer one", func(s *scene) {
		a, b := s.pair()
		e := a.find(a.join(driver.Candidate))
		to, err := a.Replace(s.ctx(), e, driver.Candidate, []byte("new"))
		require.NoError(s, err)
		e.ID = to.ID
		_, err = a.Replace(s.ctx(), e, driver.Candidate, []byte("old"))
		require.ErrorIs(s, err, driver.ErrConflict)
		require.Equal(s, "new", string(b.find(to).Value))
	}},
	{"ReplaceLate", "the change of an attempt that comes late must not undo a newer one", func(s *scene) {
		if s.Ordered {
			s.Skip("the service carries out requests in order")
		}
		a := s.openIdle(farsynctest.Inject(s.Open(s.T), failOnce(farsynctest.Replace, farsynctest.Late(2))))
		e := a.join(driver.Candidate)
		found := a.find(e)
		_, err := a.Replace(s.ctx(), found, driver.Candidate, []byte("old"))
		require.Equal(s, driver.Unknown, a.service.Outcome(err))
		to, err := a.Replace(s.ctx(), found, driver.Candidate, []byte("new"))
		require.NoError(s, err)
		for range 3 {
			require.Equal(s, "new", string(a.find(to).Value))
		}
	}},
	{"ReplaceLost", "a reader whose process takes it for a writer has to be found, and be removed", func(s *scene) {
		b := s.open()
		a := s.openIdle(farsynctest.Inject(s.Open(s.T), failOnce(farsynctest.Replace, farsynctest.LoseReply)))
		e := a.find(a.join(driver.Write))
		_, err := a.Replace(s.ctx(), e, driver.Read, nil)
		require.Equal(s, driver.Unknown, a.service.Outcome(err))
		to, err := a.Find(s.ctx(), e)
		require.NoError(s, err)
		require.Equal(s, driver.Read, to.Kind)
		require.Equal(s, []string{to.ID}, ids(b.in(s.queue)))
		require.Equal(s, []string{to.ID}, ids(a.owned(s.queue)))
		require.Empty(s, a.all(to))
		a.remove(e) // by the ID that it had
		require.Empty(s, b.in(s.queue))
		a.absent(e)
		a.absent(to)
	}},
	{"ReplaceGone", "a holder that changes what was taken away has to hear of it", func(s *scene) {
		a, b := s.pair()
		first, second := a.find(a.join(driver.Write)), a.find(a.join(driver.Write))
		a.remove(first)
		s.Delete(s.T, second)
		for _, e := range []driver.Entry{first, second} {
			_, err := a.Replace(s.ctx(), e, driver.Read, nil)
			require.ErrorIs(s, err, driver.ErrGone)
			_, err = a.Replace(s.ctx(), e, driver.Write, []byte("new"))
			require.ErrorIs(s, err, driver.ErrGone)
		}
		require.Empty(s, b.in(s.queue), "nothing is made anew")
	}},
	{"ReplaceExpired", "a leader whose session is over must not speak as one", func(s *scene) {
		a, b := s.pair()
		e := a.find(a.join(driver.Candidate))
		s.Expire(s.T, a)
		b.watch(driver.Entry{}, gone(e)).wakes()
		_, err := a.Replace(s.ctx(), e, driver.Candidate, []byte("new"))
		require.Error(s, err)
		require.Empty(s, b.in(s.queue))
	}},
	{"ReplacedIsOwned", "a reader that was a writer has to be found again, and be removed", func(s *scene) {
		a, b := s.pair()
		to := a.replace(a.join(driver.Write), driver.Read, []byte("reader"))
		require.Equal(s, []string{to.ID}, ids(a.owned(s.queue)))
		require.Equal(s, "reader", string(b.find(to).Value))
		a.remove(to)
		require.Empty(s, a.owned(s.queue))
		require.Empty(s, b.in(s.queue))
	}},
}
