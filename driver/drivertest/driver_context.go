package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

var contextCases = []conformance{
	{"EndedContext", "a caller that has given up gets its goroutine back, whatever the service does", func(s *scene) {
		a, b := s.pair()
		first := a.join(driver.Exclusive)
		second := b.join(driver.Write)
		for name, call := range b.calls(first, second) {
			err := s.prompt(func() error { return call(ended()) })
			require.Error(s, err, name)
			require.Contains(s, []driver.Outcome{driver.Unknown, driver.NotDone}, b.service.Outcome(err), name)
		}
		_, err := b.service.Open(ended(), s.TTL)
		require.Error(s, err)
		require.Contains(s, []driver.Outcome{driver.Unknown, driver.NotDone}, b.service.Outcome(err))
	}},
	{"SilentService", "a server that is stopped must not stop its clients", func(s *scene) {
		if s.Cut == nil {
			s.Skip("the backend has no Cut")
		}
		a, b := s.pair()
		first := a.join(driver.Exclusive)
		second := b.join(driver.Write)
		b.renewal()
		s.Cut(s.T, b.service, true)
		defer s.Cut(s.T, b.service, false)
		for name, call := range b.calls(first, second) {
			ctx, cancel := context.WithTimeout(s.ctx(), briefly)
			done := make(chan error, 1)
			go func() { done <- call(ctx) }()
			err := soon(s, done, wallAnswer)
			cancel()
			require.Error(s, err, name)
			require.Contains(s, []driver.Outcome{driver.Unknown, driver.NotDone}, b.service.Outcome(err), name)
		}
		ctx, cancel := context.WithTimeout(s.ctx(), briefly)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := b.service.Open(ctx, s.TTL)
			done <- err
		}()
		require.Error(s, soon(s, done, wallAnswer))
		go func() { done <- b.finish(ctx) }()
		require.Error(s, soon(s, done, wallAnswer))
	}},
	{"CancelledCreates", "what was certainly not done must not be done, and what may have been must be found", func(s *scene) {
		a, b := s.pair()
		for i := range 30 {
			ctx, cancel := context.WithCancel(s.ctx())
			e := a.entry(s.queue, driver.Exclusive)
			done := make(chan error, 1)
			go func() {
				_, err := a.Create(ctx, e, 0)
				done <- err
			}()
			if i%3 > 0 {
				require.NoError(s, a.requests())
			}
			cancel()
			err := soon(s, done, wallAnswer)
			var outcome driver.Outcome
			if err != nil {
				outcome = a.service.Outcome(err)
				require.Contains(s, []driver.Outcome{driver.Unknown, driver.NotDone}, outcome, err)
			}
			_, found, failed := a.Delete(s.ctx(), e)
			require.NoError(s, failed)
			require.False(s, found && outcome == driver.NotDone && err != nil, "it was done: %v", err)
			require.True(s, found || err != nil)
		}
		// A create that is carried out later is seen by Owned. Through a proxy that may be long after the client has let go of its connection.
		ctx := s.ctx()
		for list := b.in(s.queue); len(list) > 0; list = b.in(s.queue) {
			for _, e := range a.owned(s.queue) {
				a.remove(e)
			}
			require.NoError(s, pause.For(ctx, s.TTL/100), "still there: %s", ids(list))
		}
	}},
	{"Outcomes", "an outcome that is guessed strands a lock or gives one away", func(s *scene) {
		c := s.open()
		_ = c.service.Outcome(nil) // anything but a panic
		for _, err := range []error{io.EOF, context.Canceled, context.DeadlineExceeded, errors.New("a failure")} {
			require.Equal(s, driver.Unknown, c.service.Outcome(err), err)
			require.Equal(s, driver.Unknown, c.service.Outcome(fmt.Errorf("look: %w", err)), err)
		}
	}},
	{"ManyAtOnce", "one session is used by all goroutines of a process", func(s *scene) {
		a, b := s.pair()
		first := a.join(driver.Exclusive)
		ctx := s.ctx()
		done := make(chan error)
		for i := range 20 {
			c := []*client{a, b}[i%2]
			go func() {
				// A crowd may be told NotDone, as by a database whose rows were locked for too long. That is an answer, after which a Store
				// tries again. The case asks that all are served in the end, and not how soon.
				settle := func(attempt func() error) error {
					for {
						if err := attempt(); err == nil || c.service.Outcome(err) != driver.NotDone || ctx.Err() != nil {
							return err
						}
					}
				}
				var v driver.View
				err := settle(func() (err error) {
					v, err = c.Create(ctx, c.entry(s.queue, driver.Permit), 0)
					return err
				})
				for range 5 {
					if err == nil {
						err = settle(func() error {
							_, err := c.Ahead(ctx, v.Self, false)
							return err
						})
					}
					if err == nil {
						err = settle(func() error { return c.Renew(ctx, []driver.Entry{v.Self}) })
					}
					c.Granted()
				}
				if err == nil {
					err = settle(func() error {
						_, _, err := c.Delete(ctx, v.Self)
						return err
					})
				}
				done <- err
			}()
		}
		for range 20 {
			require.NoError(s, soon(s, done, wallAnswer))
		}
		require.Equal(s, []string{first.ID}, ids(b.in(s.queue)))
	}},
}

// calls returns every request of a session. No request ends by itself: first belongs to another session, own to this.
func (c *client) calls(first, own driver.Entry) map[string]func(context.Context) error {
	queue := c.s.queue
	calls := map[string]func(context.Context) error{
		"Renew": func(ctx context.Context) error { return c.Renew(ctx, []driver.Entry{own}) },
		"Create": func(ctx context.Context) error {
			_, err := c.Create(ctx, c.entry(queue+"-other", driver.Exclusive), 0)
			return err
		},
		"Create again": func(ctx context.Context) error {
			_, err := c.Create(ctx, c.entry(queue+"-other", driver.Exclusive), 1)
			return err
		},
		"Ahead":     func(ctx context.Context) error { _, err := c.Ahead(ctx, own, true); return err },
		"Ahead all": func(ctx context.Context) error { _, err := c.Ahead(ctx, own, false); return err },
		"List":      func(ctx context.Context) error { _, err := c.List(ctx, queue, 0); return err },
		"Find":      func(ctx context.Context) error { _, err := c.Find(ctx, own); return err },
		"Replace":   func(ctx context.Context) error { _, err := c.Replace(ctx, own, driver.Read, nil); return err },
		"Delete":    func(ctx context.Context) error { _, _, err := c.Delete(ctx, own); return err },
		"Delete unsure": func(ctx context.Context) error {
			_, _, err := c.Delete(ctx, c.entry(queue, driver.Read))
			return err
		},
		"Register": func(ctx context.Context) error { _, err := c.Register(ctx, queue); return err },
		"SetRegister": func(ctx context.Context) error {
			_, err := c.SetRegister(ctx, queue, "5 5", 0, own)
			return err
		},
		"Owned": func(ctx context.Context) error { _, err := c.Owned(ctx, []string{queue}); return err },
	}
	for name, on := range map[string][]driver.Target{
		"gone": {gone(first)}, "changed": {changed(first)}, "several": {gone(first), changed(own)},
		"joined": {joined(queue + "-none")}, "registered": {written(queue, 0)}, "told": {told(own)},
	} {
		calls["Watch "+name] = func(ctx context.Context) error { _, err := c.Watch(ctx, own, on, func() {}); return err }
	}
	c.optional(calls, own)
	return calls
}

// optional adds the requests that a driver need not support.
func (c *client) optional(calls map[string]func(context.Context) error, own driver.Entry) {
	c.s.Helper()
	if c.Outlast(ended()) != nil { // otherwise there is nothing to do
		calls["Outlast"] = c.Outlast
	}
	for name, call := range map[string]func(context.Context) error{
		"Tell":   func(ctx context.Context) error { _, err := c.Tell(ctx, own, "x"); return err },
		"Heard":  func(ctx context.Context) error { _, err := c.Heard(ctx, own); return err },
		"Survey": func(ctx context.Context) error { _, err := c.Survey(ctx, c.s.queue, "", 1); return err },
	} {
		if errors.Is(call(ended()), errors.ErrUnsupported) {
			delete(calls, "Watch told")
			continue
		}
		calls[name] = call
	}
}
