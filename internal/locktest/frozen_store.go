package locktest

import (
	"context"
	"errors"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

// entered returns an entry at the head of the scene's queue that a client has made.
func (s *frozenScene) entered(c storetest.Client) recipe.Entry {
	s.Helper()
	return s.entry(c, recipe.Request{Queue: s.path, Kind: recipe.Write, Units: 1, Rule: recipe.ExclusiveRule()})
}

func (s *frozenScene) entry(c storetest.Client, r recipe.Request) recipe.Entry {
	s.Helper()
	e, _, err := c.Join(s.ctx(), r)
	if err != nil {
		s.Fatal(err)
	}
	return e
}

// joining is what a Store is asked for that is to join the scene's queue.
func (s *frozenScene) joining() recipe.Request {
	return recipe.Request{Queue: s.path, Kind: recipe.Exclusive, Units: 1, Rule: recipe.ExclusiveRule()}
}

// on is a call of the holders' Store, which has an entry in the queue, or of the callers' Store about it.
func on(call func(ctx context.Context, s *frozenScene, e recipe.Entry) error) func(*frozenScene) func(context.Context) error {
	return held(func(s *frozenScene) recipe.Entry { return s.entered(s.holders) }, call)
}

// frozenStoreRows are the calls of a Store.
var frozenStoreRows = []frozenRow{
	{name: "Store.Peek", want: late, prepare: on(func(ctx context.Context, s *frozenScene, _ recipe.Entry) error {
		_, err := s.callers.Peek(ctx, s.joining())
		return err
	})},
	{name: "Store.Join", want: late, prepare: on(func(ctx context.Context, s *frozenScene, _ recipe.Entry) error {
		_, _, err := s.callers.Join(ctx, s.joining())
		return err
	})},
	{name: "Store.Blockers", want: late, prepare: on(func(ctx context.Context, s *frozenScene, e recipe.Entry) error {
		_, err := s.holders.Blockers(ctx, e, recipe.ExclusiveRule())
		return err
	})},
	{name: "Store.Wait", want: late, prepare: on(func(ctx context.Context, s *frozenScene, e recipe.Entry) error {
		return s.callers.Wait(ctx, e)
	})},
	{name: "Store.Leave", want: late, prepare: on(func(ctx context.Context, s *frozenScene, e recipe.Entry) error {
		return s.holders.Leave(ctx, e)
	})},
	{name: "Store.Change", want: late, prepare: on(func(ctx context.Context, s *frozenScene, e recipe.Entry) error {
		_, err := s.holders.Change(ctx, e, recipe.Read, nil)
		return err
	})},
	{name: "Store.Resize", want: late, prepare: on(func(ctx context.Context, s *frozenScene, _ recipe.Entry) error {
		return s.callers.Resize(ctx, s.path+"-sized", 2, 3)
	})},
	{name: "Store.Size", want: late, prepare: on(func(ctx context.Context, s *frozenScene, _ recipe.Entry) error {
		_, _, err := s.callers.Size(ctx, s.path)
		return err
	})},
	{name: "Store.Entries", want: late, prepare: on(func(ctx context.Context, s *frozenScene, _ recipe.Entry) error {
		_, err := s.callers.Entries(ctx, s.path)
		return err
	})},
	{name: "Asker.Ask", want: late, prepare: on(func(ctx context.Context, s *frozenScene, e recipe.Entry) error {
		return s.callers.(recipe.Asker).Ask(ctx, e)
	})},
	{name: "Asker.Asked", want: late, prepare: on(func(ctx context.Context, s *frozenScene, e recipe.Entry) error {
		return s.holders.(recipe.Asker).Asked(ctx, e)
	})},
	{name: "Client.Close", bound: ofRelease, prepare: func(s *frozenScene) func(context.Context) error {
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
