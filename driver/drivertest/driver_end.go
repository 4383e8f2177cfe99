package drivertest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

var endCases = []conformance{
	{"EndRemoves", "what a process has lost, and a late renewal keeps, has others wait for a TTL though nobody holds it", func(s *scene) {
		a, b := s.openIdle(s.Open(s.T)), s.open()
		name := a.named()
		first, second := a.join(driver.Exclusive), b.join(driver.Exclusive)
		w := b.watch(second, gone(first))
		a.release(a.Drop)
		a.endBy(a.service, name)
		require.Empty(s, b.all(second), "at once")
		require.NoError(s, soon(s, w.done, wallAnswer).err)
		require.NoError(s, b.Renew(s.ctx(), []driver.Entry{second}), "others are left alone")
		require.Equal(s, []string{second.ID}, ids(b.in(s.queue)))
	}},
	{"EndAgain", "a caller that was not answered asks again, and may have come too late the first time", func(s *scene) {
		b := s.open()
		for how, before := range map[string]func(a *client){
			"ended":       func(a *client) { a.release(a.Drop); a.endBy(a.service, a.Name()) },
			"closed":      func(a *client) { require.NoError(s, a.finish(s.ctx())) },
			"run out":     func(a *client) { s.Expire(s.T, a) },
			"never used":  func(a *client) { a.release(a.Drop) },
			"not dropped": func(*client) {},
		} {
			a := s.openIdle(s.Open(s.T))
			name := a.named()
			if how != "never used" {
				a.join(driver.Exclusive)
			}
			before(a)
			for range 3 {
				a.endBy(a.service, name)
				require.Empty(s, b.in(s.queue), how)
			}
		}
	}},
	{"EndThenLate", "a request that lay in a server which hung is carried out when its client has long given up", func(s *scene) {
		a, b := s.openIdle(s.Open(s.T)), s.open()
		name := a.named()
		e := a.join(driver.Exclusive)
		a.endBy(a.service, name) // its client is still there to ask
		a.untilExpired(func() error {
			_, err := a.Create(s.ctx(), a.entry(s.queue, driver.Exclusive), 0)
			return err
		})
		require.Empty(s, b.in(s.queue))
		a.untilExpired(func() error { return a.Renew(s.ctx(), []driver.Entry{e}) })
		a.untilExpired(func() error { return a.Renew(s.ctx(), nil) })
		a.untilExpired(func() error {
			_, err := a.Create(s.ctx(), a.entry(s.queue, driver.Permit), 1)
			return err
		})
		require.Empty(s, b.in(s.queue))
		a.endBy(a.service, name)
		require.Empty(s, b.in(s.queue))
	}},
	{"EndAmongLate", "what has arrived with the end is carried out before it or after it, and leaves nothing either way", func(s *scene) {
		a, b := s.openIdle(s.Open(s.T)), s.open()
		name := a.named()
		ctx := s.ctx()
		begun := make(chan struct{})
		var once sync.Once
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for {
					_, err := a.Create(ctx, a.entry(s.queue, driver.Permit), 0)
					once.Do(func() { close(begun) })
					if err == nil {
						err = a.Renew(ctx, nil)
					}
					if err != nil && a.service.Outcome(err) == driver.Expired || ctx.Err() != nil {
						return
					}
				}
			})
		}
		<-begun
		a.endBy(a.service, name)
		all.Wait()
		require.NoError(s, ctx.Err(), "the session is over, and its requests are told so")
		require.Empty(s, b.in(s.queue))
	}},
	{"EndOfOne", "a process has another session by the time at which the one before is ended", func(s *scene) {
		service := s.Open(s.T)
		a := s.openIdle(service)
		ttl, _ := a.Granted()
		next := s.openIn(service, ttl)
		name := a.named()
		require.NotEqual(s, name, next.Name())
		require.Equal(s, name, a.Name())
		a.join(driver.Exclusive)
		e := next.join(driver.Exclusive)
		a.release(a.Drop)
		require.Equal(s, name, a.Name(), "also of a session that was dropped")
		a.endBy(service, name)
		require.Empty(s, next.all(e))
		require.NoError(s, next.Renew(s.ctx(), []driver.Entry{e}))
		require.Equal(s, []string{e.ID}, ids(next.in(s.queue)))
		a.endBy(service, next.Name())
		next.release(next.Drop)
		s.openIn(service, ttl).untilEmpty()
	}},
	{"EndGivenUp", "a caller that gives up must not have kept what it was to end", func(s *scene) {
		b := s.open()
		began := time.Now()
		first := s.openIdle(s.Open(s.T))
		first.named()
		first.endBy(first.service, first.Name())
		took := time.Since(began)
		a := s.openBrief(s.Open(s.T))
		a.join(driver.Exclusive)
		err := s.prompt(func() error { return a.service.End(ended(), a.Name()) })
		require.Error(s, err)
		const attempts = 20
		for i := range attempts {
			ctx, cancel := context.WithTimeout(s.ctx(), took/attempts*time.Duration(i)/2)
			if err := s.prompt(func() error { return a.service.End(ctx, a.Name()) }); err != nil {
				require.Contains(s, []driver.Outcome{driver.Unknown, driver.NotDone}, a.service.Outcome(err), err)
			} else {
				require.Empty(s, b.in(s.queue))
			}
			cancel()
		}
		b.untilEmpty() // by one of them, or by itself
	}},
	{"EndInSilence", "a process that closes does not wait for a service that is silent", func(s *scene) {
		if s.Cut == nil {
			s.Skip("the backend has no Cut")
		}
		a, b := s.openIdle(s.Open(s.T)), s.open()
		name := a.named()
		a.join(driver.Exclusive)
		a.release(a.Drop)
		s.Cut(s.T, a.service, true)
		ctx, cancel := context.WithTimeout(s.ctx(), briefly)
		defer cancel()
		err := s.prompt(func() error { return a.service.End(ctx, name) })
		require.Error(s, err)
		require.Contains(s, []driver.Outcome{driver.Unknown, driver.NotDone}, a.service.Outcome(err), err)
		s.Cut(s.T, a.service, false)
		a.endBy(a.service, name)
		require.Empty(s, b.in(s.queue))
	}},
}

// named returns the name of the session. The case is skipped if it has none.
func (c *client) named() string {
	c.s.Helper()
	name := c.Name()
	if name == "" {
		c.s.Skip("the driver does not end sessions by their names")
	}
	return name
}

// endBy ends a session by its name, as a Store does: after an attempt with an unknown outcome it makes another.
func (c *client) endBy(service driver.Service, name string) {
	c.s.Helper()
	for ctx := c.s.ctx(); ; {
		err := service.End(ctx, name)
		if err == nil {
			return
		}
		require.Contains(c.s, []driver.Outcome{driver.Unknown, driver.NotDone}, service.Outcome(err), err)
		require.NoError(c.s, pause.For(ctx, c.s.TTL/100), "not ended: %v", err)
	}
}
