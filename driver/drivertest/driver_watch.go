package drivertest

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

var watchCases = []conformance{
	{"WatchGoneBefore", "the holder may leave between the look at the queue and the wait", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		a.remove(e)
		b.watch(driver.Entry{}, gone(e)).wakes()
		b.watch(b.join(driver.Exclusive), gone(e)).wakes()
	}},
	{"WatchGoneDuring", "a wake-up that is missed is a waiter that hangs", func(s *scene) {
		a, b := s.pair()
		for _, c := range []*client{a, b} { // goroutines of one process wait for one another, too
			e := a.join(driver.Exclusive)
			w, on := c.watch(driver.Entry{}, gone(e)), c.watch(c.join(driver.Exclusive), gone(e))
			a.remove(e)
			w.wakes()
			on.wakes()
		}
	}},
	{"WatchDeleted", "an entry that an administrator removed is out of the way", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		w := b.watch(driver.Entry{}, gone(e))
		s.Delete(s.T, e)
		w.wakes()
	}},
	{"WatchExpired", "the entries of a process that died must not be waited for", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		w := b.watch(b.join(driver.Exclusive), gone(e))
		s.Expire(s.T, a)
		w.wakes()
	}},
	{"WatchAnyOf", "holders of a semaphore leave in any order", func(s *scene) {
		a, b := s.pair()
		first, second, third := a.join(driver.Permit), a.join(driver.Permit), a.join(driver.Permit)
		w := b.watch(b.join(driver.Permit), gone(third), gone(second), gone(first))
		a.remove(second)
		w.wakes()
		b.watch(driver.Entry{}, gone(first), gone(second)).wakes() // one is gone already
		w = b.watch(driver.Entry{}, gone(first), gone(third), written(s.queue, 0))
		a.remove(first)
		w.wakes()
	}},
	{"WatchEnds", "a caller that gives up gets its goroutine back", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		w, other := b.watch(driver.Entry{}, gone(e)), b.watch(driver.Entry{}, gone(e))
		w.ends()
		a.remove(e)
		other.wakes() // a client that gave up takes no other's watch with it
	}},
	{"WatchMany", "one event is for all that wait", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		var all []*waiting
		for range 20 {
			all = append(all, b.watch(driver.Entry{}, gone(e)))
		}
		a.remove(e)
		for _, w := range all {
			w.wakes()
		}
	}},
	{"WatchStands", "until it says so it is given up when a server is silent, and from then on it is not", func(s *scene) {
		a, b := s.pair()
		e, self := a.join(driver.Exclusive), b.join(driver.Exclusive)
		w := b.watch(self, gone(e))
		require.True(s, w.stood(), "the entry lives")
		if s.Cut != nil {
			s.Cut(s.T, b.service, true)
			ctx, cancel := context.WithTimeout(s.ctx(), briefly)
			_, err := b.Watch(ctx, self, []driver.Target{gone(self)}, func() { s.Error("an answer that did not come") })
			require.Error(s, err)
			cancel()
			s.Cut(s.T, b.service, false)
		}
		a.remove(e)
		w.wakes()
	}},
	{"WatchWaits", "a wait that ends at once for no reason, each time, is a loop that burns a processor", func(s *scene) {
		a, b := s.pair()
		e := b.find(a.join(driver.Write))
		self := b.join(driver.Read)
		version, err := a.SetRegister(s.ctx(), s.queue, "5 5", 0, driver.Entry{})
		require.NoError(s, err)
		b.watches(self, gone(e))
		b.watches(self, changed(e))
		b.watches(driver.Entry{}, gone(e), changed(e))
		b.watches(driver.Entry{}, joined(s.queue+"-other"))
		b.watches(driver.Entry{}, written(s.queue, version))
		b.watches(driver.Entry{}, written(s.queue+"-other", 0))
		b.watches(self, gone(e), gone(self), written(s.queue, version))
	}},
	{"WatchRaces", "an event that is faster than the answer to its subscription is not lost", func(s *scene) {
		a, b := s.pair()
		for range 50 {
			e := a.join(driver.Exclusive)
			w := b.start(driver.Entry{}, gone(e))
			a.remove(e)
			w.wakes()
		}
	}},
	{"WatchLeaveAndRejoin", "a predecessor may leave and join again before it is waited for", func(s *scene) {
		a, b := s.pair()
		first := a.join(driver.Exclusive)
		second, ahead := b.create(b.entry(s.queue, driver.Exclusive))
		a.remove(first)
		again := a.join(driver.Exclusive)
		b.watch(second, gone(ahead[0])).wakes()
		require.Empty(s, b.all(second))
		require.Equal(s, []string{second.ID}, ids(a.all(again)))
	}},
	{"WatchChangedBefore", "the writer may have turned into a reader between the look at the queue and the wait",
		func(s *scene) {
			a, b := s.pair()
			first := a.join(driver.Write)
			reader, ahead := b.create(b.entry(s.queue, driver.Read))
			was := b.find(first)
			a.replace(first, driver.Read, nil)
			b.watch(reader, changed(ahead[0])).wakes()
			b.watch(driver.Entry{}, changed(was)).wakes()
			e := a.join(driver.Candidate)
			was = b.find(e)
			a.replace(e, driver.Candidate, []byte("new"))
			b.watch(driver.Entry{}, changed(was)).wakes()
		}},
	{"WatchChangedAmongSeveral", "several are waited for in another way than one", func(s *scene) {
		a, b := s.pair()
		other, first := a.join(driver.Exclusive), a.join(driver.Write)
		_, ahead := b.create(b.entry(s.queue, driver.Read))
		on := []driver.Target{gone(other), changed(ahead[1])}
		w := b.watch(driver.Entry{}, on...)
		a.replace(first, driver.Read, nil)
		w.wakes()
		b.watch(driver.Entry{}, on...).wakes()
	}},
	{"WatchChangedGone", "the end of a leader is the last of its changes", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Candidate)
		found := b.find(e)
		w := b.watch(driver.Entry{}, changed(found))
		a.remove(e)
		w.wakes()
		b.watch(driver.Entry{}, changed(found)).wakes()
	}},
	{"WatchChangedOver", "of two changes at the same time none is missed", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Candidate)
		for range 20 {
			w := b.start(driver.Entry{}, changed(b.find(e)))
			e = a.replace(e, driver.Candidate, []byte("new"))
			w.wakes()
		}
	}},
	{"WatchRegistered", "units that are there must not lie idle while a waiter needs them", func(s *scene) {
		a, b := s.pair()
		w := b.watch(driver.Entry{}, written(s.queue, 0))
		first, err := a.SetRegister(s.ctx(), s.queue, "5 5", 0, driver.Entry{})
		require.NoError(s, err)
		w.wakes()
		b.watch(driver.Entry{}, written(s.queue, 0)).wakes() // it was written before the call
		e := a.join(driver.Permit)
		w = b.watch(b.join(driver.Permit), gone(e), written(s.queue, first))
		second, err := a.SetRegister(s.ctx(), s.queue, "5 6", first, driver.Entry{})
		require.NoError(s, err)
		w.wakes()
		b.watch(driver.Entry{}, gone(e), written(s.queue, first)).wakes()
		w = b.start(driver.Entry{}, written(s.queue, second))
		_, err = a.SetRegister(s.ctx(), s.queue, "5 5", second, driver.Entry{})
		require.NoError(s, err)
		w.wakes()
	}},
	{"WatchJoined", "an observer of an election without candidates has to hear of the first", func(s *scene) {
		a, b := s.pair()
		w := b.watch(driver.Entry{}, joined(s.queue))
		e := a.join(driver.Candidate)
		w.wakes() // of a queue that never was
		b.watch(driver.Entry{}, joined(s.queue)).wakes()
		a.remove(e)
		w = b.watch(driver.Entry{}, joined(s.queue))
		a.create(a.entry(s.queue+"/below", driver.Exclusive)) // the entries of other queues are none of this
		require.NoError(s, b.requests())
		e = a.join(driver.Candidate)
		w.wakes() // of a queue that was left
		a.remove(e)
		b.watches(driver.Entry{}, joined(s.queue))
	}},
	{"WatchJoinedForeign", "another program's candidate is one, too", func(s *scene) {
		b := s.open()
		w := b.watch(driver.Entry{}, joined(s.queue))
		foreign := s.Foreign(s.T, s.queue)
		w.wakes()
		s.Delete(s.T, foreign)
	}},
	{"WatchJoinedRaces", "between the look at a queue that is not there and the wait it may come to be", func(s *scene) {
		a, b := s.pair()
		for range 20 {
			w := b.start(driver.Entry{}, joined(s.queue))
			a.remove(a.joinUntil(w))
			s.queue += "x"
		}
	}},
	{"WatchRefusesStray", "an entry that no session ends would be waited for without end, and without a reason given",
		func(s *scene) {
			if s.Stray == nil {
				s.Skip("the service has no such entries")
			}
			c := s.open()
			stray := s.Stray(s.T, s.queue)
			self, ahead := c.create(c.entry(s.queue, driver.Exclusive))
			require.Equal(s, []string{stray.ID}, ids(ahead))
			_, err := c.Watch(s.ctx(), self, []driver.Target{gone(ahead[0])}, func() {})
			require.Error(s, err)
			require.Equal(s, driver.Refused, c.service.Outcome(err), err)
			require.ErrorContains(s, err, stray.ID)
			s.Delete(s.T, stray)
			c.watch(self, gone(ahead[0])).wakes()
		}},
	{"ListShowsStray", "an operator would see neither who holds nor what blocks the others for ever", func(s *scene) {
		if s.Stray == nil {
			s.Skip("the service has no such entries")
		}
		c := s.open()
		first := c.join(driver.Exclusive)
		second, _ := c.create(c.entry(s.queue, driver.Exclusive))
		stray := s.Stray(s.T, s.queue) // a session that joins behind it may be refused
		all := []string{first.ID, second.ID, stray.ID}
		for _, limit := range []int{0, 2, 3, 4} {
			v, err := c.List(s.ctx(), s.queue, limit)
			list := ids(v.Entries)
			if limit == 2 { // of an order by names the stray may be the first
				require.Len(s, list, 2)
				require.Subset(s, all, list)
			} else {
				require.Equal(s, all, list)
			}
			if i := slices.Index(list, stray.ID); i >= 0 {
				require.Empty(s, v.Entries[i].Session)
			}
			if err != nil {
				require.Equal(s, driver.Refused, c.service.Outcome(err), err)
				require.ErrorContains(s, err, stray.ID)
			}
		}
		s.Delete(s.T, stray)
		require.Equal(s, []string{first.ID, second.ID}, ids(c.list(s.queue)))
	}},
	{"WatchInADeadSession", "a waiter whose session is over must not be granted anything", func(s *scene) {
		a, b := s.pair()
		first, second := a.join(driver.Exclusive), b.join(driver.Exclusive)
		w := b.watch(second, gone(first))
		s.Expire(s.T, b)
		a.watch(driver.Entry{}, gone(second)).wakes()
		a.remove(first)
		got := soon(s, w.done, wallAnswer)
		if got.err == nil {
			require.Nil(s, got.proof)
		} else {
			require.NotErrorIs(s, got.err, context.DeadlineExceeded, "it waits for what it does not hear of any more")
			require.NotEqual(s, driver.Closed, b.service.Outcome(got.err), got.err)
		}
	}},
}
