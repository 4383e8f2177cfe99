package drivertest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/pause"
)

var sessionCases = []conformance{
	{"Granted", "a lease must end before the service can give the lock away", func(s *scene) {
		before := time.Now()
		c := s.openBrief(s.Open(s.T))
		ttl, from := c.Granted()
		require.Positive(s, ttl)
		require.False(s, from.After(time.Now()), "from a request that was made")
		require.False(s, from.Before(before), "from a request of this session")
		begun := time.Now()
		for range 4 {
			require.NoError(s, pause.For(s.ctx(), ttl/6))
			require.NoError(s, c.Renew(s.ctx(), []driver.Entry{c.join(driver.Exclusive)}))
			again, now := c.Granted()
			require.Equal(s, ttl, again)
			require.False(s, now.Before(from), "it never moves back")
			require.False(s, now.After(time.Now()))
			from = now
		}
		require.False(s, from.Before(begun), "renewals that were answered move it")
	}},
	{"GrantedFromTheSending", "the server counts from when a request arrives, which is before the answer does", func(s *scene) {
		if s.Cut == nil {
			s.Skip("the backend has no Cut")
		}
		c := s.openBrief(s.Open(s.T))
		e := c.join(driver.Exclusive)
		require.NoError(s, c.Renew(s.ctx(), []driver.Entry{e}))
		ttl, _ := c.Granted()
		require.NoError(s, pause.For(s.ctx(), ttl/20))
		s.Cut(s.T, c.service, true)
		done := make(chan error, 1)
		ctx := s.ctx()
		go func() { done <- c.Renew(ctx, []driver.Entry{e}) }()
		require.NoError(s, pause.For(s.ctx(), ttl/8))
		healed := time.Now()
		require.NoError(s, pause.For(s.ctx(), ttl/8))
		s.Cut(s.T, c.service, false)
		if err := soon(s, done, wallAnswer); err == nil {
			_, from := c.Granted()
			require.Less(s, from, healed, "the request was sent before")
		}
	}},
	{"RenewsOverlap", "a service that is slow must not lose a session that it keeps", func(s *scene) {
		if s.Cut == nil {
			s.Skip("the backend has no Cut")
		}
		c := s.openBrief(s.Open(s.T))
		prove := []driver.Entry{c.join(driver.Exclusive)}
		require.NoError(s, c.Renew(s.ctx(), prove))
		_, from := c.Granted()
		s.Cut(s.T, c.service, true)
		late, ctx := make(chan error, 1), s.ctx()
		go func() { late <- c.Renew(ctx, prove) }()
		brief, cancel := context.WithTimeout(s.ctx(), briefly)
		defer cancel()
		require.Error(s, c.Renew(brief, prove))
		_, now := c.Granted()
		require.Equal(s, from, now, "only an answer moves it")
		s.Cut(s.T, c.service, false)
		if err := soon(s, late, wallAnswer); err != nil {
			require.Contains(s, []driver.Outcome{driver.Unknown, driver.NotDone}, c.service.Outcome(err), err)
		}
		_, now = c.Granted()
		require.False(s, now.Before(from), "it never moves back")
	}},
	{"GrantedOutlivesLoss", "an answer that did not come proves nothing", func(s *scene) {
		a := s.openBrief(farsynctest.Inject(s.Open(s.T), farsynctest.InjectorFunc(func(_ context.Context, op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Renew {
				return farsynctest.LoseRequest
			}
			return farsynctest.None
		})))
		ttl, from := a.Granted()
		require.NoError(s, pause.For(s.ctx(), ttl/10))
		require.Error(s, a.Renew(s.ctx(), nil))
		_, now := a.Granted()
		require.Equal(s, from, now)
	}},
	{"RenewKeeps", "a holder that is well keeps its lock", func(s *scene) {
		a, b := s.briefPair()
		e := a.join(driver.Exclusive)
		ttl, _ := a.Granted()
		require.NoError(s, pause.For(s.ctx(), ttl*3/2))
		require.Empty(s, a.all(e))
		require.Equal(s, []string{e.ID}, ids(b.in(s.queue)))
		if over := a.Over(); over != nil {
			select {
			case <-over:
				require.Fail(s, "the session is alive")
			default:
			}
		}
	}},
	{"RunsOut", "the locks of a process that died are free after the TTL, and not before", func(s *scene) {
		b := s.open()
		a := s.openBrief(s.Open(s.T))
		e := a.join(driver.Exclusive)
		ttl, from := a.Granted()
		w := b.watch(driver.Entry{}, gone(e))
		soon(s, w.done, 4*ttl+wallAnswer)
		for _, err := b.Ahead(s.ctx(), e, true); err == nil; _, err = b.Ahead(s.ctx(), e, true) {
			require.Less(s, time.Since(from), 4*ttl+wallAnswer)
			require.NoError(s, pause.For(s.ctx(), ttl/20)) // the Watch was early
		}
		require.GreaterOrEqual(s, time.Since(from), ttl, "the session was granted for longer")
		a.untilExpired(func() error { return a.Renew(s.ctx(), nil) })
	}},
	{"Expired", "an entry that is created in a session that is over would never be removed", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		s.Expire(s.T, a)
		b.watch(driver.Entry{}, gone(e)).wakes()
		a.untilExpired(func() error {
			_, err := a.Create(s.ctx(), a.entry(s.queue, driver.Exclusive), 0)
			return err
		})
		a.untilExpired(func() error { return a.Renew(s.ctx(), []driver.Entry{e}) })
		a.untilExpired(func() error { return a.Renew(s.ctx(), nil) })
		require.Empty(s, b.in(s.queue))
		if over := a.Over(); over != nil {
			soon(s, over, 3*s.TTL+wallAnswer)
		}
	}},
	{"ExpiredCreate", "the driver may not know yet that its session is over", func(s *scene) {
		a := s.openBrief(s.Open(s.T))
		b := s.open()
		a.join(driver.Exclusive)
		s.Expire(s.T, a)
		a.untilExpired(func() error {
			_, err := a.Create(s.ctx(), a.entry(s.queue, driver.Exclusive), 0)
			return err
		})
		b.untilEmpty()
	}},
	{"ExpiryIsOnesOwn", "the loss of one client's session is nothing to the others", func(s *scene) {
		a, b := s.pair()
		first, second := a.join(driver.Exclusive), b.join(driver.Exclusive)
		s.Expire(s.T, a)
		b.watch(second, gone(first)).wakes()
		require.NoError(s, b.Renew(s.ctx(), []driver.Entry{second}))
		require.Equal(s, []string{second.ID}, ids(b.in(s.queue)))
	}},
	{"ExpiryOfMany", "the entries of a dead session go one after the other: each view of them has to be true", func(s *scene) {
		a, b := s.pair()
		var all []driver.Entry
		for range 20 {
			all = append(all, a.join(driver.Permit))
		}
		e := b.join(driver.Permit)
		s.Expire(s.T, a)
		for _, other := range []driver.Entry{all[19], all[0], all[10]} {
			got := soon(s, b.watch(e, gone(other)).done, wallAnswer)
			require.NoError(s, got.err)
			if got.proof != nil {
				require.NotContains(s, ids(got.proof.Entries), other.ID)
			}
		}
		for list := b.all(e); len(list) > 0; list = b.all(e) {
			b.watch(e, gone(list[0])).wakes()
			require.NoError(s, pause.For(s.ctx(), s.TTL/100))
		}
	}},
	{"ExpiryOfItsOwnWaiters", "of a session that ends, an entry that is about to go must not be granted what another has left",
		func(s *scene) {
			a, b := s.pair()
			var all []driver.Entry
			for range 12 {
				all = append(all, a.join(driver.Permit))
			}
			var waits []*waiting
			for _, e := range all[1:] {
				waits = append(waits, a.watch(e, gone(all[0])))
			}
			behind := b.join(driver.Permit)
			s.Expire(s.T, a)
			for _, w := range waits {
				if got := soon(s, w.done, wallAnswer); got.err == nil {
					require.Nil(s, got.proof, "it is gone with the one ahead")
				}
			}
			for list := b.all(behind); len(list) > 0; list = b.all(behind) {
				b.watch(behind, gone(list[0])).wakes()
				require.NoError(s, pause.For(s.ctx(), s.TTL/100))
			}
		}},
	{"RanOutBlocksNoTry", "where only a waiter ends a session that has run out, a program that only tries finds the lock taken for ever",
		func(s *scene) {
			for name, look := range map[string]func(c *client, ctx context.Context) (driver.View, error){
				"Ahead": func(c *client, ctx context.Context) (driver.View, error) {
					return c.Ahead(ctx, driver.Entry{Queue: s.queue, Kind: driver.Exclusive, Units: 1}, true)
				},
				"List": func(c *client, ctx context.Context) (driver.View, error) { return c.List(ctx, s.queue, 0) },
			} {
				a := s.openBrief(s.Open(s.T))
				dead := a.join(driver.Exclusive)
				ttl, _ := a.Granted()
				require.NoError(s, pause.For(s.ctx(), ttl*3/4))
				// From now on there are no renewals, and nothing is opened while this session lives.
				b := s.openBrief(s.Open(s.T))
				for ctx := s.ctx(); ; {
					v, err := look(b, ctx)
					if err != nil && b.service.Outcome(err) == driver.Expired {
						b = s.openBrief(s.Open(s.T))
						continue
					}
					require.NoError(s, err, name)
					if len(v.Entries) == 0 {
						break
					}
					require.Equal(s, []string{dead.ID}, ids(v.Entries), name)
					require.NoError(s, pause.For(ctx, ttl/20), "still there: %s", name)
				}
				c := s.open()
				_, ahead := c.create(c.entry(s.queue, driver.Exclusive))
				require.Empty(s, ahead, name)
				require.NoError(s, c.finish(s.ctx()))
			}
		}},
	{"CloseRemoves", "what a process held is free when it has stopped in order, not a TTL later", func(s *scene) {
		a, b := s.pair()
		first, second := a.join(driver.Exclusive), b.join(driver.Exclusive)
		w := b.watch(second, gone(first))
		ttl, _ := a.Granted()
		closed := time.Now()
		require.NoError(s, a.finish(s.ctx()))
		require.Empty(s, b.all(second), "at once")
		require.NoError(s, soon(s, w.done, wallAnswer).err)
		require.Less(s, time.Since(closed), ttl, "in less time than it takes to run out")
	}},
	{"OutlastIsTheSessions", "a job that must not run again keeps its lock for the session, and no longer", func(s *scene) {
		a, b := s.pair()
		first, second := a.join(driver.Exclusive), b.join(driver.Exclusive)
		for range 2 {
			require.NoError(s, a.Outlast(s.ctx()))
			require.NoError(s, a.Renew(s.ctx(), []driver.Entry{first}))
			require.Equal(s, []string{first.ID}, ids(b.all(second)))
		}
		require.NoError(s, a.finish(s.ctx()))
		require.Empty(s, b.all(second), "at once")
	}},
	{"OutlastExpired", "a session that is over keeps nothing", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		s.Expire(s.T, a)
		b.watch(driver.Entry{}, gone(e)).wakes()
		if err := a.Outlast(s.ctx()); err != nil {
			require.Contains(s, []driver.Outcome{driver.Expired, driver.Closed}, a.service.Outcome(err), err)
		}
		require.Empty(s, b.in(s.queue))
	}},
	{"CloseExpired", "the end of a session that is over must not be waited for", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		s.Expire(s.T, a)
		b.watch(driver.Entry{}, gone(e)).wakes()
		_ = a.finish(s.ctx()) // confirmed, or found to be over
	}},
	{"CloseUnconfirmed", "a process that must stop at once does not wait for a service", func(s *scene) {
		a, b := s.briefPair()
		e := a.join(driver.Exclusive)
		ttl, _ := a.Granted()
		require.Error(s, s.prompt(func() error { return a.finish(ended()) }))
		got := soon(s, b.watch(driver.Entry{}, gone(e)).done, 4*ttl+wallAnswer)
		require.NoError(s, got.err)
		b.untilEmpty()
	}},
	{"DropRemovesNothing", "the holders of a session that is given up need the time that is left to stop in", func(s *scene) {
		a, b := s.briefPair()
		e := a.join(driver.Exclusive)
		w := b.watch(driver.Entry{}, gone(e))
		require.NoError(s, s.prompt(func() error { a.release(a.Drop); return nil }))
		ttl, from := a.Granted()
		require.Equal(s, []string{e.ID}, ids(b.in(s.queue)))
		require.NoError(s, soon(s, w.done, 4*ttl+wallAnswer).err)
		b.untilEmpty()
		require.GreaterOrEqual(s, time.Since(from), ttl)
	}},
	{"Reset", "a connection that does not answer is replaced, and nothing is lost with it", func(s *scene) {
		a, b := s.pair()
		e := a.join(driver.Exclusive)
		w := a.watch(driver.Entry{}, gone(b.join(driver.Exclusive)))
		a.Reset()
		until := time.Now().Add(wallAnswer)
		for err := a.Renew(s.ctx(), nil); err != nil; err = a.Renew(s.ctx(), nil) {
			require.NotEqual(s, driver.Refused, a.service.Outcome(err), err)
			require.NotEqual(s, driver.Expired, a.service.Outcome(err), err)
			require.Less(s, time.Now(), until)
			require.NoError(s, pause.For(s.ctx(), s.TTL/20))
		}
		require.Empty(s, a.all(e))
		for _, other := range b.in(s.queue)[1:] {
			b.remove(other)
		}
		soon(s, w.done, wallAnswer) // woken, or with an error of the connection
	}},
}

// untilEmpty waits until the scene's queue has no entries.
func (c *client) untilEmpty() {
	c.s.Helper()
	ctx := c.s.ctx()
	for {
		list := c.in(c.s.queue)
		if len(list) == 0 {
			return
		}
		_, err := c.Watch(ctx, driver.Entry{}, []driver.Target{gone(list[0])}, func() {})
		require.NoError(c.s, err, "still there: %s", ids(list))
		require.NoError(c.s, pause.For(ctx, c.s.TTL/100)) // it may have been early
	}
}
