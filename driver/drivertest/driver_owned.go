package drivertest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
)

var ownedCases = []conformance{
	{"OwnedSeesLostAnswers", "an entry that its process does not know of blocks everything as long as the session lives",
		func(s *scene) {
			a := s.openIdle(farsynctest.Inject(s.Open(s.T), failOnce(farsynctest.Create, farsynctest.LoseReply)))
			e := a.entry(s.queue, driver.Exclusive)
			_, err := a.Create(s.ctx(), e, 0)
			require.Equal(s, driver.Unknown, a.service.Outcome(err))
			list := a.owned(s.queue)
			require.Len(s, list, 1)
			require.Contains(s, list[0].ID, e.ID)
			require.Equal(s, s.queue, list[0].Queue)
			other := a.join(driver.Exclusive)
			require.ElementsMatch(s, ids(a.in(s.queue)), ids(a.owned(s.queue)))
			a.remove(list[0])
			require.Equal(s, []string{other.ID}, ids(a.owned(s.queue)))
		}},
	{"OwnedSeesWhatWasCancelled", "a driver that remembers what it was answered does not know what it was not", func(s *scene) {
		a, b := s.pair()
		began := time.Now()
		a.remove(a.join(driver.Exclusive))
		took := time.Since(began)
		const attempts = 40
		for i := range attempts {
			ctx, cancel := context.WithTimeout(s.ctx(), took/attempts*time.Duration(i))
			_, _ = a.Create(ctx, a.entry(s.queue, driver.Exclusive), 0) // what became of it is to be seen
			cancel()
			there := ids(b.in(s.queue))
			require.Subset(s, ids(a.owned(s.queue)), there)
		}
		for len(b.in(s.queue)) > 0 { // an attempt may be carried out only now
			for _, e := range a.owned(s.queue) {
				a.remove(e)
			}
		}
	}},
	{"OwnedSeesLateOnes", "an attempt that is carried out after all leaves an entry for which nothing waits", func(s *scene) {
		if s.Ordered {
			s.Skip("the service carries out requests in order")
		}
		a := s.openIdle(farsynctest.Inject(s.Open(s.T), failOnce(farsynctest.Create, farsynctest.Late(3))))
		e := a.entry(s.queue, driver.Exclusive)
		_, err := a.Create(s.ctx(), e, 0)
		require.Equal(s, driver.Unknown, a.service.Outcome(err))
		a.absent(e)
		require.Empty(s, a.owned(s.queue))
		require.Empty(s, a.in(s.queue)) // and then it comes
		list := a.owned(s.queue)
		require.Len(s, list, 1)
		require.Contains(s, list[0].ID, e.ID)
		a.remove(list[0])
		require.Empty(s, a.in(s.queue))
	}},
	{"OwnedIsOnesOwn", "what another session owns must not be removed", func(s *scene) {
		a, b := s.pair()
		a.join(driver.Exclusive)
		mine := b.join(driver.Exclusive)
		foreign := s.Foreign(s.T, s.queue)
		require.Equal(s, []string{mine.ID}, ids(b.owned(s.queue)))
		s.Delete(s.T, foreign)
		again := s.open()
		require.Empty(s, again.owned(s.queue), "another session of the same program is another")
	}},
	{"OwnedInAllQueues", "what is owned is looked for in every queue that was asked about", func(s *scene) {
		a, _ := s.pair()
		var queues, want []string
		for _, below := range []string{"", "/b", "b", "/b/c"} {
			queues = append(queues, s.queue+below)
			for _, k := range []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Permit, driver.Candidate} {
				e, _ := a.create(a.entry(s.queue+below, k))
				want = append(want, e.ID)
			}
		}
		require.ElementsMatch(s, want, ids(a.owned(queues...)))
		require.ElementsMatch(s, want[:5], ids(a.owned(s.queue)))
		require.Empty(s, a.owned(s.queue+"-other"))
	}},
	{"OwnedOfAllQueues", "a service that has gone back shows entries that were removed in any queue", func(s *scene) {
		a, _ := s.pair()
		if a.History() == "" {
			s.Skip("the service does not go back")
		}
		e := a.join(driver.Exclusive)
		other, _ := a.create(a.entry(s.queue+"/b", driver.Read))
		list, err := a.Owned(s.ctx(), nil)
		require.NoError(s, err)
		require.ElementsMatch(s, []string{e.ID, other.ID}, ids(list))
	}},
	{"HistoryStays", "a service that is said to have gone back for no reason is asked for nothing", func(s *scene) {
		a := s.open()
		history := a.History()
		for range 3 {
			require.NoError(s, a.Renew(s.ctx(), nil))
			require.Equal(s, history, a.History())
		}
	}},
	{"OwnedExpired", "a session that is over owns nothing", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		s.Expire(s.T, a)
		b.watch(driver.Entry{}, gone(e)).wakes()
		list, err := a.Owned(s.ctx(), []string{s.queue})
		if err != nil {
			require.NotEqual(s, driver.Refused, a.service.Outcome(err), err)
		}
		require.Empty(s, list)
	}},
}

// owned returns what Owned shows of the queues.
func (c *client) owned(queues ...string) []driver.Entry {
	c.s.Helper()
	list, err := c.Owned(c.s.ctx(), queues)
	require.NoError(c.s, err)
	var of []driver.Entry
	for _, e := range list {
		for _, queue := range queues {
			if e.Queue == queue {
				of = append(of, e)
			}
		}
	}
	return of
}
