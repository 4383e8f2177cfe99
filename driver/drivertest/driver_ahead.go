package drivertest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

var aheadCases = []conformance{
	{"AheadAll", "a semaphore that does not see all entries ahead lets too many in", func(s *scene) {
		a, b := s.pair()
		var order []driver.Entry
		for range 6 {
			order = append(order, a.join(driver.Permit))
		}
		for i, e := range order {
			require.Equal(s, ids(order[:i]), ids(b.all(e)))
			require.Equal(s, ids(order[:i]), ids(a.all(e)))
		}
	}},
	{"AheadAsMade", "a holder whose entry is not shown as it was made takes it for changed by another program, and loses its lock", func(s *scene) {
		a, b := s.pair()
		for _, k := range []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Permit, driver.Candidate} {
			queue := s.queue + "/" + k.String()
			units := int64(1)
			if k == driver.Permit {
				units = 3
			}
			made, _ := a.create(a.permit(queue, k, units))
			b.create(b.permit(queue, k, units))
			same := func(e driver.Entry, err error) {
				require.NoError(s, err)
				require.Equal(s, []any{queue, k, units, made.Revision}, []any{e.Queue, e.Kind, e.Units, e.Revision}, "%v", made.Kind)
			}
			shown := func() {
				v, err := a.Ahead(s.ctx(), made, true)
				same(v.Self, err)
				same(a.Find(s.ctx(), made))
			}
			shown()
			if k == driver.Write {
				changed, err := a.Replace(s.ctx(), made, driver.Read, nil)
				require.NoError(s, err)
				made.ID, made.Kind, made.Version, k = changed.ID, changed.Kind, changed.Version, driver.Read
				shown()
			}
		}
	}},
	{"AheadNearest", "a waiter that is shown less than its predecessor is granted too soon", func(s *scene) {
		a, b := s.pair()
		var order []driver.Entry
		for i := range 5 {
			order = append(order, []*client{a, b}[i%2].join(driver.Exclusive))
			for _, c := range []*client{a, b} {
				v, err := c.Ahead(s.ctx(), order[i], true)
				require.NoError(s, err)
				require.Equal(s, order[i].ID, v.Self.ID)
				require.LessOrEqual(s, len(v.Entries), i)
				if i > 0 {
					require.NotEmpty(s, v.Entries)
				}
				require.Equal(s, ids(order[i-len(v.Entries):i]), ids(v.Entries), "the nearest, oldest first")
				if v.All {
					require.Len(s, v.Entries, i)
				}
			}
		}
	}},
	{"AheadNewcomerOldest", "a caller that does not wait is told who holds, not who waits", func(s *scene) {
		a, b := s.pair()
		oldest := a.join(driver.Write)
		for range 3 {
			a.join(driver.Write)
		}
		value := b.list(s.queue)[0].Value
		require.NotEmpty(s, value)
		for _, k := range []driver.Kind{driver.Exclusive, driver.Write, driver.Candidate} {
			v, err := b.Ahead(s.ctx(), driver.Entry{Queue: s.queue, Kind: k, Units: 1}, true)
			require.NoError(s, err)
			require.Equal(s, oldest.ID, v.Entries[0].ID)
			if v.Entries[0].Value != nil { // a read that does not carry it
				require.Equal(s, value, v.Entries[0].Value)
			}
		}
	}},
	{"AheadWaiting", "what keeps an entry waiting has to be shown, or two hold; and what does not, or nothing does", func(s *scene) {
		a, b := s.pair()
		a.set(s.queue, "3 3", 0)
		permit := func(units int64) driver.Entry {
			e, _ := a.create(a.permit(s.queue, driver.Permit, units))
			return e
		}
		first, second, third, fourth := permit(2), permit(1), permit(2), permit(1)
		for _, e := range []driver.Entry{first, second} {
			require.Empty(s, a.blockers(e, 3))
			require.Empty(s, b.blockers(e, 3))
		}
		require.NotEmpty(s, b.blockers(third, 3))
		require.NotEmpty(s, a.blockers(fourth, 3), "it would fit, and may not overtake")
		newcomer := func(units int64) driver.Entry {
			return driver.Entry{Queue: s.queue, Kind: driver.Permit, Units: units}
		}
		require.NotEmpty(s, b.blockers(newcomer(1), 3))
		w := a.watch(third, a.blockers(third, 3)...)
		behind := a.watch(fourth, a.blockers(fourth, 3)...)
		a.remove(first)
		w.wakes()
		require.Empty(s, a.blockers(third, 3))
		require.NotEmpty(s, a.blockers(fourth, 3))
		a.remove(second)
		for len(a.blockers(fourth, 3)) > 0 {
			behind.wakes()
			behind = a.watch(fourth, a.blockers(fourth, 3)...)
		}
		behind.cancel()
		require.NotEmpty(s, b.blockers(newcomer(1), 3))
		a.remove(third)
		require.Empty(s, b.blockers(newcomer(2), 3))
		require.NotEmpty(s, b.blockers(newcomer(3), 3))
		a.remove(fourth)
		require.Empty(s, b.blockers(newcomer(3), 3))
	}},
	{"AheadWaitingAmongOthers", "an intruder of another kind is refused by what is shown of the queue", func(s *scene) {
		a, b := s.pair()
		a.set(s.queue, "3 3", 0)
		other := a.join(driver.Exclusive)
		e := b.join(driver.Permit)
		v, err := b.Ahead(s.ctx(), e, true)
		require.NoError(s, err)
		require.Equal(s, []string{other.ID}, ids(v.Entries))
		require.Equal(s, driver.Exclusive, v.Entries[0].Kind)
		a.remove(other)
		require.Empty(s, b.blockers(e, 3))
		other = a.join(driver.Exclusive)
		last := b.join(driver.Permit)
		require.NotEmpty(s, b.blockers(last, 3), "the intruder is ahead")
		w := b.watch(last, b.blockers(last, 3)...)
		a.remove(other)
		w.wakes()
		require.Empty(s, b.blockers(last, 3))
	}},
	{"AheadWaitingReader", "readers do not wait for readers, and are too many to be shown", func(s *scene) {
		a, b := s.pair()
		first, writer := a.join(driver.Read), a.join(driver.Write)
		second, third := b.join(driver.Read), b.join(driver.Read)
		require.Empty(s, b.blockers(first, 0))
		for _, e := range []driver.Entry{second, third, {Queue: s.queue, Kind: driver.Read, Units: 1}} {
			require.Equal(s, []driver.Target{gone(driver.Entry{ID: writer.ID})}, bare(b.blockers(e, 0)))
		}
		a.replace(writer, driver.Read, nil)
		for _, e := range []driver.Entry{second, third, {Queue: s.queue, Kind: driver.Read, Units: 1}} {
			require.Empty(s, b.blockers(e, 0))
		}
		last := a.join(driver.Write)
		v, err := a.Ahead(s.ctx(), last, true)
		require.NoError(s, err)
		require.Equal(s, third.ID, v.Entries[len(v.Entries)-1].ID)
	}},
	{"CreateWaiting", "what Create shows of a long queue is what a look would show", func(s *scene) {
		a, b := s.pair()
		for _, k := range []driver.Kind{driver.Exclusive, driver.Read, driver.Permit} {
			queue := s.queue + "-" + k.String()
			for range 150 {
				a.create(a.entry(queue, k))
			}
			v, err := b.Create(s.ctx(), b.entry(queue, k), 0)
			require.NoError(s, err)
			if v.All || len(v.Entries) == 0 {
				continue
			}
			if v.Turn {
				for _, e := range v.Entries {
					require.Less(s, e.Revision, v.Self.Revision, "what is shown is ahead")
				}
				continue
			}
			look, err := b.Ahead(s.ctx(), v.Self, true)
			require.NoError(s, err)
			require.Equal(s, ids(look.Entries), ids(v.Entries))
		}
	}},
	{"AheadOfANewcomer", "a try that finds the lock taken must not be seen by others", func(s *scene) {
		a, b := s.pair()
		newcomer := driver.Entry{Queue: s.queue, Kind: driver.Read, Units: 1}
		for _, nearest := range []bool{true, false} {
			v, err := b.Ahead(s.ctx(), newcomer, nearest)
			require.NoError(s, err)
			require.Empty(s, v.Entries)
			require.True(s, v.All)
		}
		first, second := a.join(driver.Read), a.join(driver.Write)
		v, err := b.Ahead(s.ctx(), newcomer, true)
		require.NoError(s, err)
		require.NotEmpty(s, v.Entries)
		nearest := v.Entries[len(v.Entries)-1]
		require.Equal(s, second.ID, nearest.ID)
		require.Equal(s, driver.Write, nearest.Kind)
		require.Equal(s, []string{first.ID, second.ID}, ids(b.in(s.queue)))
	}},
	{"AheadShrinks", "the entry that went away may have been a waiter: a waiter that is woken looks again", func(s *scene) {
		a, b := s.pair()
		first, second, third := a.join(driver.Exclusive), b.join(driver.Exclusive), a.join(driver.Exclusive)
		b.remove(second)
		require.Equal(s, []string{first.ID}, ids(a.all(third)))
		a.remove(first)
		require.Empty(s, a.all(third))
	}},
	{"AheadIsNotOld", "a look that is older than the call grants what was lost, or strands what was freed", func(s *scene) {
		a, b := s.pair()
		for range 20 {
			first, second := a.join(driver.Exclusive), b.join(driver.Exclusive)
			a.remove(first)
			require.Empty(s, b.all(second))
			b.remove(second)
			a.gone(second)
			require.Empty(s, a.in(s.queue))
		}
	}},
	{"AheadGone", "a waiter that is woken and has lost its place must not take the lock", func(s *scene) {
		a, b := s.pair()
		a.join(driver.Exclusive)
		second, third := b.join(driver.Exclusive), b.join(driver.Exclusive)
		s.Delete(s.T, second)
		b.gone(second)
		b.remove(third)
		b.gone(third)
		a.gone(third)
		_, err := b.Ahead(s.ctx(), third, false)
		require.ErrorIs(s, err, driver.ErrGone)
	}},
	{"AheadExpired", "etcd's Campaign and Curator's InterProcessMutex both granted a lock on a dead session's entry",
		func(s *scene) {
			a, b := s.pair()
			first, second := a.join(driver.Exclusive), b.join(driver.Exclusive)
			s.Expire(s.T, b)
			a.watch(driver.Entry{}, gone(second)).wakes()
			a.gone(second)
			_, err := b.Ahead(s.ctx(), second, true)
			require.Error(s, err)
			require.NotEqual(s, driver.Closed, b.service.Outcome(err))
			a.remove(first)
			_, err = b.Ahead(s.ctx(), second, true)
			require.Error(s, err)
		}},
	{"ListLimit", "an observer of a leader with many candidates reads the leader", func(s *scene) {
		c := s.open()
		var order []string
		for range 5 {
			order = append(order, c.join(driver.Candidate).ID)
		}
		for _, limit := range []int{0, 1, 3, 5, 6} {
			v, err := c.List(s.ctx(), s.queue, limit)
			require.NoError(s, err)
			list := ids(v.Entries)
			require.Equal(s, order[:len(list)], list)
			if limit > 0 {
				require.GreaterOrEqual(s, len(list), min(limit, len(order)))
			} else {
				require.True(s, v.All)
			}
			if v.All {
				require.Len(s, list, len(order))
			}
			require.Equal(s, "drivertest", string(v.Entries[0].Value))
			require.Positive(s, v.Entries[0].Revision)
		}
		v, err := c.List(s.ctx(), s.queue+"-none", 3)
		require.NoError(s, err)
		require.Empty(s, v.Entries)
	}},
	{"ListNamesSessions", "an operator who ends the session of a stuck holder must not end another", func(s *scene) {
		a, b := s.pair()
		order := []driver.Entry{a.join(driver.Exclusive), b.join(driver.Exclusive), a.join(driver.Exclusive)}
		list := a.list(s.queue)
		require.Equal(s, ids(order), ids(list))
		if list[0].Session != "" { // sessions may have no names
			require.NotEmpty(s, list[1].Session)
			require.NotEqual(s, list[0].Session, list[1].Session)
		}
		require.Equal(s, list[0].Session, list[2].Session)
	}},
	{"FindGone", "a value that nothing stands behind any more misleads", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Candidate)
		found := b.find(e)
		require.NotZero(s, found.Version)
		require.Equal(s, found.Version, a.find(e).Version)
		a.remove(e)
		_, err := b.Find(s.ctx(), e)
		require.ErrorIs(s, err, driver.ErrGone)
	}},
}

// blockers returns what keeps e waiting, of what Ahead shows of that: for a permit, in a queue of that size.
func (c *client) blockers(e driver.Entry, size int64) (on []driver.Target) {
	c.s.Helper()
	v, err := c.Ahead(c.s.ctx(), e, true)
	require.NoError(c.s, err)
	if e.Kind == driver.Permit {
		require.Equal(c.s, "3 3", v.Register.Value)
	}
	room := size - e.Units
	for _, other := range slices.Backward(v.Entries) {
		switch {
		case e.Kind == driver.Read && other.Kind == driver.Read:
			continue
		case e.Kind == driver.Permit && other.Kind == driver.Permit && other.Units <= room:
			room -= other.Units
			on = append(on, gone(other))
			continue
		}
		return append(on, gone(other))
	}
	return nil
}

// bare returns the targets with nothing but the IDs of their entries.
func bare(on []driver.Target) []driver.Target {
	for i, t := range on {
		on[i] = gone(driver.Entry{ID: t.Entry.ID})
	}
	return on
}
