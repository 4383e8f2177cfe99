package locktest

import (
	"context"
	"errors"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/recipe"
)

// on is a call about a queue in which the holders' Store has an entry.
func on(
	call func(ctx context.Context, q recipe.Queue, e driver.Entry) error,
) func(*frozenScene) func(context.Context) error {
	return held(func(s *frozenScene) driver.Entry {
		s.take(s.rw(s.holders).Lock)
		return s.until(s.callers, 1)[0]
	}, func(ctx context.Context, s *frozenScene, e driver.Entry) error {
		return call(ctx, recipe.Queue{Store: beneath.Store(s.callers), Path: s.path}, e)
	})
}

// frozenStoreRows are the calls of a Store, and of a Queue of one.
var frozenStoreRows = []frozenRow{
	{name: "Queue.List", want: late, prepare: on(func(ctx context.Context, q recipe.Queue, _ driver.Entry) error {
		_, _, err := q.List(ctx, 0)
		return err
	})},
	{name: "Queue.Listing", want: late, prepare: on(func(ctx context.Context, q recipe.Queue, _ driver.Entry) error {
		_, err := q.Listing(ctx, 0)
		return err
	})},
	{name: "Queue.Size", want: late, prepare: on(func(ctx context.Context, q recipe.Queue, _ driver.Entry) error {
		_, err := q.Size(ctx)
		return err
	})},
	{name: "Queue.Wait", want: late, prepare: on(func(ctx context.Context, q recipe.Queue, e driver.Entry) error {
		return q.Wait(ctx, driver.Target{Entry: e})
	})},
	{name: "Queue.Resize", want: late, prepare: on(func(ctx context.Context, q recipe.Queue, _ driver.Entry) error {
		_, err := recipe.Queue{Store: q.Store, Path: q.Path + "-sized"}.Resize(ctx, 2, 3)
		return err
	})},
	{name: "Queue.Ask", want: late, prepare: on(func(ctx context.Context, q recipe.Queue, e driver.Entry) error {
		return q.Ask(ctx, e)
	})},
	{name: "Queue.AskTurn", want: late, prepare: on(func(ctx context.Context, q recipe.Queue, e driver.Entry) error {
		return q.AskTurn(ctx, e, 0)
	})},
	{name: "Queue.Break", want: late, prepare: on(func(ctx context.Context, q recipe.Queue, e driver.Entry) error {
		return q.Break(ctx, e, 0, "stuck", false)
	})},
	{name: "Queue.Break, remove", want: late, prepare: on(func(ctx context.Context, q recipe.Queue, e driver.Entry) error {
		return q.Break(ctx, e, 0, "stuck", true)
	})},
	{name: "Store.Participants", want: late, prepare: by(mutexLock, func(ctx context.Context, s *frozenScene) error {
		_, err := s.callers.Participants(ctx, s.path)
		return err
	})},
	{name: "Store.Participants of a semaphore", want: late, prepare: by(acquireAll, func(ctx context.Context, s *frozenScene) error {
		_, err := s.callers.Participants(ctx, s.path)
		return err
	})},
	{name: "Store.Ask", want: late, prepare: by(mutexLock, func(ctx context.Context, s *frozenScene) error {
		return s.callers.Ask(ctx, s.path)
	})},
	{name: "Store.Break", want: late, prepare: held(
		func(s *frozenScene) *farsync.Lease { return s.take(mutexLock(s, s.holders)) },
		func(ctx context.Context, s *frozenScene, lease *farsync.Lease) error {
			return s.callers.Break(ctx, s.path, lease.Token(), nil)
		})},
	{name: "Store.Survey", want: late, prepare: by(mutexLock, func(ctx context.Context, s *frozenScene) (err error) {
		for _, err = range s.callers.Survey(ctx, s.path) {
		}
		return err
	})},
	{name: "Store.Close", bound: ofRelease, prepare: func(s *frozenScene) func(context.Context) error {
		c := s.short()
		lease := s.lock(s.mutex(c))
		return func(context.Context) error {
			err := c.Close()
			for _, ended := range []error{lease.Err(), lease.Release()} {
				if !errors.Is(ended, farsync.ErrClosed) && !errors.Is(ended, farsync.ErrLost) {
					s.Errorf("a lease of a closed store says %v", ended)
				}
			}
			return err
		}
	}},
}
