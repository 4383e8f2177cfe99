package zk

import (
	"context"
	"errors"
	"fmt"

	client "github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/recipe"
)

// A strayError is that of a queue which is blocked by a node that no session will ever remove. It holds the path.
type strayError string

func (path strayError) Error() string {
	return fmt.Sprintf("node %q is not ephemeral: it would block the queue for ever; delete it if nobody needs it", string(path))
}

// errChanged ends a group of waits when one of them is over.
var errChanged = errors.New("changed")

// Wait reads the entries' nodes and watches them, in one request each: no moment lies between.
func (s *Store) Wait(ctx context.Context, anyOf ...recipe.Entry) error {
	if len(anyOf) == 1 {
		return s.wait(ctx, anyOf[0])
	}
	group, first := errgroup.WithContext(ctx)
	for _, e := range anyOf {
		group.Go(func() error {
			if err := s.wait(first, e); err != nil {
				return err
			}
			return errChanged
		})
	}
	if err := group.Wait(); !errors.Is(err, errChanged) {
		return s.keeper.Verdict(ctx, err)
	}
	return nil
}

// wait returns nil when the node is gone or may have changed. What a session cannot tell any more, the next is
// asked.
func (s *Store) wait(ctx context.Context, e recipe.Entry) error {
	if e.Kind == recipe.Foreign {
		s.options.Logger.Warn("waiting behind a node that is no entry", "node", e.ID)
	}
	return s.keeper.InSession(ctx, func(ctx context.Context, in *session) error {
		return in.wait(ctx, s.path(e.Queue), e)
	})
}

func (s *session) wait(ctx context.Context, queue string, e recipe.Entry) error {
	if e.Kind == recipe.Vacant {
		return s.waitVacant(ctx, queue)
	}
	w, err := s.watch(ctx, e.ID, getW(e.ID))
	switch {
	case errors.Is(err, client.ErrNoNode):
		return nil
	case err != nil:
		return err
	case e.Kind == recipe.Size && w.stat.Mzxid != e.Revision, e.Version != 0 && w.stat.Mzxid != e.Version:
		s.mind(w)
		return nil // it has changed since it was read
	case e.Kind != recipe.Size && w.stat.EphemeralOwner == 0:
		// Forgotten, so that whoever waits next reads the node anew: it may be gone by then, and this watch not tell so yet.
		s.forget(w)
		return strayError(e.ID)
	}
	return s.await(ctx, w)
}

// waitVacant waits until the queue has an entry. Children that are the nodes of other queues are none.
func (s *session) waitVacant(ctx context.Context, queue string) error {
	for {
		w, err := s.watch(ctx, queue+"/", childrenW(queue))
		if errors.Is(err, client.ErrNoNode) {
			w, err = s.watch(ctx, queue+"/?", existsW(queue))
			if err == nil && w.stat.Czxid != 0 {
				s.mind(w)
				continue // made meanwhile, and this watch does not tell of its children
			}
		}
		if err != nil {
			return err
		}
		if vacant, err := s.vacant(ctx, queue, w.names); !vacant || err != nil {
			s.mind(w)
			return err
		}
		if err := s.await(ctx, w); err != nil {
			return err
		}
	}
}

// vacant reports whether none of the queue's children is an entry, as Entries tells them.
func (s *session) vacant(ctx context.Context, queue string, names []string) (bool, error) {
	for _, n := range arrange(names, familyOf(names)) {
		if n.order <= lastSequence {
			return false, nil
		}
		stat, _, err := retry(ctx, s, func(c *client.Conn) (*client.Stat, error) {
			_, stat, err := c.Exists(queue + "/" + n.name)
			return stat, err
		})
		if err != nil {
			return false, err
		}
		if stat.EphemeralOwner != 0 {
			return false, nil
		}
	}
	return true, nil
}

// await waits for the watch to fire. The library sends an event and closes the channel, so that all who wait are told.
func (s *session) await(ctx context.Context, w *watch) error {
	select {
	case <-w.fired:
		s.forget(w)
		return nil
	case <-ctx.Done():
		s.mind(w)
		return context.Cause(ctx)
	}
}

// mind sees to it that a watch which nobody may be waiting for any more is forgotten when it fires.
func (s *session) mind(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.minded && s.watches[w.name] == w && !s.ending {
		w.minded = true
		s.calls.Go(func() { // ends at the latest with the session, when the library ends all watches
			<-w.fired
			s.forget(w)
		})
	}
}

func (s *session) forget(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[w.name] == w {
		delete(s.watches, w.name)
	}
}

// A setting is a request that sets a watch.
type setting func(*client.Conn) (*watch, error)

func getW(path string) setting {
	return func(c *client.Conn) (*watch, error) {
		data, stat, events, err := c.GetW(path)
		if err != nil {
			return nil, err
		}
		return &watch{fired: events, stat: *stat, data: data}, nil
	}
}

func childrenW(path string) setting {
	return func(c *client.Conn) (*watch, error) {
		names, _, events, err := c.ChildrenW(path)
		return &watch{fired: events, names: names}, err
	}
}

func existsW(path string) setting {
	return func(c *client.Conn) (*watch, error) {
		_, stat, events, err := c.ExistsW(path)
		if err != nil {
			return nil, err
		}
		return &watch{fired: events, stat: *stat}, nil
	}
}

// watch returns the session's watch of that name. There is one for all who wait for it, and it is there until it fires,
// also when everybody has gone: the library cannot take it back.
func (s *session) watch(ctx context.Context, name string, set setting) (*watch, error) {
	s.mu.Lock()
	w := s.watches[name]
	s.mu.Unlock()
	if w != nil {
		select {
		case <-w.fired:
			s.forget(w)
		default:
			return w, nil
		}
	}
	w, _, err := retry(ctx, s, func(c *client.Conn) (*watch, error) {
		w, err := set(c)
		if err != nil {
			return nil, err
		}
		w.name = name
		s.mu.Lock()
		s.watches[name] = w
		s.mu.Unlock()
		if ctx.Err() != nil {
			s.mind(w) // whoever asked for it has gone
		}
		return w, nil
	})
	return w, err
}
