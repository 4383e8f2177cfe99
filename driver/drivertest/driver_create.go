package drivertest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
)

var createCases = []conformance{
	{"RevisionsIncrease", "a resource that checks fencing tokens refuses a holder whose revision went back", func(s *scene) {
		a, b := s.pair()
		var last int64
		for i := range 8 {
			c := []*client{a, b}[i%2]
			queue := []string{s.queue, s.queue + "-other"}[i/2%2]
			e, _ := c.create(c.entry(queue, driver.Exclusive))
			require.Greater(s, e.Revision, last)
			last = e.Revision
			if i%3 == 0 {
				c.remove(e) // an empty queue must not begin to count anew
			}
			if i == 4 {
				require.NoError(s, a.finish(s.ctx()))
				a = s.open() // nor a new session
			}
		}
	}},
	{"IDsAreNew", "an entry that is taken for another is removed in its place", func(s *scene) {
		a, b := s.pair()
		var all []string
		for i := range 500 {
			c := []*client{a, b}[i%2]
			all = append(all, c.NewID(s.queue, driver.Permit, int64(i/2+1)), c.NewID(s.queue, driver.Exclusive, 1))
		}
		slices.Sort(all)
		for i := range all[1:] {
			require.False(s, strings.HasPrefix(all[i+1], all[i]), "%q begins with %q, which is another", all[i+1], all[i])
		}
	}},
	{"OldestFirst", "two clients that see different orders both hold", func(s *scene) {
		a, b := s.pair()
		var want []string
		for i := range 6 {
			want = append(want, []*client{a, b, b}[i%3].join(driver.Exclusive).ID)
		}
		require.Equal(s, want, ids(a.in(s.queue)))
		require.Equal(s, want, ids(b.in(s.queue)))
		require.Equal(s, want, ids(a.list(s.queue)))
		list := b.list(s.queue)
		require.Equal(s, want, ids(list))
		require.True(s, slices.IsSortedFunc(list, func(x, y driver.Entry) int { return int(x.Revision - y.Revision) }))
	}},
	{"CreateShowsItself", "a lock that is free takes one request", func(s *scene) {
		c := s.open()
		e, ahead := c.create(c.entry(s.queue, driver.Exclusive))
		require.Empty(s, ahead)
		require.Equal(s, e.Revision, c.find(e).Revision)
	}},
	{"CreateAgain", "an answer that was lost must not leave two entries, of which one blocks the other", func(s *scene) {
		b := s.open()
		a := s.openIdle(farsynctest.Inject(s.Open(s.T), failOnce(farsynctest.Create, farsynctest.LoseReply)))
		e := a.entry(s.queue, driver.Exclusive)
		_, err := a.Create(s.ctx(), e, 0)
		require.Equal(s, driver.Unknown, a.service.Outcome(err))
		behind := b.join(driver.Exclusive)
		for attempt := range 3 {
			v, err := a.Create(s.ctx(), e, attempt+1)
			require.NoError(s, err)
			self, ahead := a.created(e, v)
			require.Empty(s, ahead)
			require.Less(s, self.Revision, behind.Revision, "it is the first attempt's entry")
			require.Equal(s, []string{self.ID, behind.ID}, ids(b.in(s.queue)))
		}
	}},
	{"CreateAgainAfterNothing", "a request that was lost has to be made once more", func(s *scene) {
		a := s.openIdle(farsynctest.Inject(s.Open(s.T), failOnce(farsynctest.Create, farsynctest.LoseRequest)))
		e := a.entry(s.queue, driver.Permit)
		_, err := a.Create(s.ctx(), e, 0)
		require.Equal(s, driver.Unknown, a.service.Outcome(err))
		require.Empty(s, a.in(s.queue))
		v, err := a.Create(s.ctx(), e, 1)
		require.NoError(s, err)
		self, _ := a.created(e, v)
		require.Equal(s, []string{self.ID}, ids(a.in(s.queue)))
	}},
	{"CreateLate", "an attempt may be carried out after a later one, and must not add an entry", func(s *scene) {
		if s.Ordered {
			s.Skip("the service carries out requests in order")
		}
		a := s.openIdle(farsynctest.Inject(s.Open(s.T), failOnce(farsynctest.Create, farsynctest.Late(2))))
		e := a.entry(s.queue, driver.Write)
		_, err := a.Create(s.ctx(), e, 0)
		require.Equal(s, driver.Unknown, a.service.Outcome(err))
		v, err := a.Create(s.ctx(), e, 1)
		require.NoError(s, err)
		made := a.find(v.Self)
		for range 3 {
			require.Equal(s, []string{v.Self.ID}, ids(a.in(s.queue)))
		}
		require.Equal(s, made, a.find(v.Self), "nor change the one that is there")
		a.remove(v.Self)
	}},
	{"RoundTrip", "what an entry asks for has to be understood by those behind it, in other processes", func(s *scene) {
		a, b := s.pair()
		for _, row := range []struct {
			kind  driver.Kind
			units int64
		}{
			{driver.Exclusive, 1}, {driver.Write, 1}, {driver.Read, 1}, {driver.Permit, 12}, {driver.Permit, 1 << 40},
			{driver.Candidate, 1},
		} {
			queue := s.queue + "-" + row.kind.String()
			e := a.permit(queue, row.kind, row.units)
			e.Value = []byte("who \x00 é /" + row.kind.String())
			made, _ := a.create(e)
			_, ahead := b.create(b.entry(queue, driver.Exclusive))
			read := map[string]driver.Entry{
				"List": b.list(queue)[0], "Find": b.find(made), "Ahead": ahead[0], "in": b.in(queue)[0], "own": made,
			}
			for name, got := range read {
				require.Equal(s, made.ID, got.ID, name)
				require.Equal(s, queue, got.Queue, name)
				require.Equal(s, row.kind, got.Kind, name)
				require.Equal(s, row.units, got.Units, name)
				if got.Revision != 0 {
					require.Equal(s, made.Revision, got.Revision, name)
				}
				if got.Value != nil {
					require.Equal(s, e.Value, got.Value, name)
				}
				if !got.Since.IsZero() {
					require.WithinDuration(s, time.Now(), got.Since, time.Hour, name)
				}
			}
			require.Equal(s, e.Value, read["List"].Value)
			require.Equal(s, e.Value, read["Find"].Value)
			require.Equal(s, made.Revision, read["List"].Revision)
			a.remove(made)
			b.remove(b.in(queue)[0])
		}
	}},
	{"EmptyValue", "an empty value is a value", func(s *scene) {
		a, b := s.pair()
		e := a.entry(s.queue, driver.Candidate)
		e.Value = []byte{}
		a.create(e)
		require.Empty(s, b.list(s.queue)[0].Value)
	}},
	{"BigValue", "a Store refuses what is longer than 64 KiB, and nothing that is shorter", func(s *scene) {
		a, b := s.pair()
		e := a.entry(s.queue, driver.Exclusive)
		e.Value = bytes.Repeat([]byte("x"), 64<<10) // as much as a Store allows
		made, _ := a.create(e)
		require.Equal(s, e.Value, b.find(made).Value)
		a.remove(made)
	}},
	{"QueuesApart", "a lock on /a that blocks /a/b, or is blocked by it, is another lock than it was asked for",
		func(s *scene) {
			a, b := s.pair()
			for _, queue := range []string{s.queue + "/b", s.queue, s.queue + "b", s.queue + "/b/exclusive-1"} {
				e, ahead := a.create(a.entry(queue, driver.Exclusive))
				require.Empty(s, ahead, queue)
				require.Equal(s, []string{e.ID}, ids(b.list(queue)), queue)
				require.Equal(s, []string{e.ID}, ids(b.in(queue)), queue)
			}
		}},
	{"ConcurrentCreates", "whatever order the service makes of creates at the same time, it has to be one", func(s *scene) {
		a, b := s.pair()
		entries, views := make([]driver.Entry, 40), make([]driver.View, 40)
		var g errgroup.Group
		for i := range entries {
			c := []*client{a, b}[i%2]
			ctx := s.ctx()
			g.Go(func() (err error) {
				e := c.entry(s.queue, driver.Exclusive)
				views[i], err = c.Create(ctx, e, 0)
				for err != nil && c.service.Outcome(err) == driver.NotDone && ctx.Err() == nil { // the service was too busy with the others
					views[i], err = c.Create(ctx, e, 0)
				}
				entries[i] = views[i].Self
				return err
			})
		}
		require.NoError(s, g.Wait())
		order := ids(a.in(s.queue))
		require.Equal(s, order, ids(b.in(s.queue)))
		require.Len(s, slices.Compact(slices.Sorted(slices.Values(order))), len(entries), "no two share an ID")
		for i, e := range entries {
			place := slices.Index(order, e.ID)
			require.GreaterOrEqual(s, place, 0)
			require.Equal(s, order[:place], ids(a.all(e)))
			if views[i].All {
				require.Equal(s, order[:place], ids(views[i].Entries), "nothing has left")
			}
		}
	}},
	{"Crowd", "a long queue is served in another way than a short one", func(s *scene) {
		a, b := s.pair()
		var order []string
		var last driver.Entry
		for range 130 {
			last = a.join(driver.Permit)
			order = append(order, last.ID)
		}
		e, ahead := b.create(b.entry(s.queue, driver.Permit))
		require.Equal(s, order, ids(ahead))
		b.remove(e)
		a.remove(last)
	}},
	{"ForeignCounts", "other programs stand in the same queue, and are entitled to their turn", func(s *scene) {
		c := s.open()
		foreign := s.Foreign(s.T, s.queue)
		e, ahead := c.create(c.entry(s.queue, driver.Exclusive))
		require.Equal(s, []string{foreign.ID}, ids(ahead))
		require.Equal(s, driver.Foreign, ahead[0].Kind)
		require.EqualValues(s, 1, ahead[0].Units)
		require.Equal(s, driver.Foreign, c.list(s.queue)[0].Kind)
		w := c.watch(e, gone(ahead[0]))
		s.Delete(s.T, foreign)
		w.wakes()
		require.Empty(s, c.all(e))
	}},
}

// failOnce gives the first request of a kind the fault.
func failOnce(kind farsynctest.OpKind, fault farsynctest.Fault) farsynctest.Injector {
	var done atomic.Bool
	return farsynctest.InjectorFunc(func(_ context.Context, op farsynctest.Op) farsynctest.Fault {
		if op.Kind != kind || done.Swap(true) {
			return farsynctest.None
		}
		return fault
	})
}
