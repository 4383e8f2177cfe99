package zk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/recipe"
)

// The size of a queue of permits is in the data of the queue's node, as two numbers: the declared and the current one.
// It lasts as long as the node, which the server removes when it has been empty for a while.

func makeSize(declared, current int64) []byte { return fmt.Appendf(nil, "%d %d", declared, current) }

// parseSize undoes makeSize. A node that was made by somebody else is empty, or holds an address: then there is no size.
func parseSize(data []byte) (declared, current int64, ok bool) {
	n, err := fmt.Sscanf(string(data), "%d %d", &declared, &current)
	ok = err == nil && n == 2 && string(makeSize(declared, current)) == string(data) && declared > 0 && current > 0
	return declared, current, ok
}

// A sizeData is what a queue's node holds.
type sizeData struct {
	data []byte
	stat *client.Stat
}

func (s *Store) sizeData(ctx context.Context, in *session, queue string) (sizeData, error) {
	d, _, err := retry(ctx, in, func(c *client.Conn) (sizeData, error) {
		data, stat, err := c.Get(s.path(queue))
		return sizeData{data, stat}, err
	})
	return d, err
}

// size returns the queue's current size, as what a permit waits for.
func (s *Store) size(ctx context.Context, in *session, queue string) (recipe.Entry, error) {
	d, err := s.sizeData(ctx, in, queue)
	if err != nil {
		return recipe.Entry{}, err
	}
	_, current, ok := parseSize(d.data)
	if !ok {
		return recipe.Entry{}, notSizeError(s.path(queue))
	}
	return recipe.Entry{
		Queue: queue, ID: s.path(queue), Kind: recipe.Size, Units: current, Revision: d.stat.Mzxid,
	}, nil
}

// declare makes sure that the queue has the declared size, and the current one unless that is 0. A size that was
// declared before is declared anew if nobody is in the queue but own entries of the caller's, of which there are so many
// among names.
func (s *Store) declare(
	ctx context.Context, in *session, queue string, declared, current int64, names []string, own int,
) error {
	if slices.Contains(names, "leases") || slices.Contains(names, "locks") {
		return curatorError(s.path(queue))
	}
	for {
		d, err := s.sizeData(ctx, in, queue)
		if err != nil {
			return err
		}
		was, now, ok := parseSize(d.data)
		next := declared
		switch {
		case ok && was == declared && (current == 0 || current == now):
			return nil
		case ok && was != declared && len(names) > own:
			return recipe.SizeError(was, declared)
		}
		if current != 0 {
			next = current
		}
		_, unknown, err := retry(ctx, in, func(c *client.Conn) (*client.Stat, error) {
			return c.Set(s.path(queue), makeSize(declared, next), d.stat.Version)
		})
		if err == nil || !errors.Is(err, client.ErrBadVersion) && !unknown {
			return err
		}
		// Somebody else was quicker, or an attempt of ours was. Look again.
	}
}

// Resize sets the data of the queue's node. Those who wait for it watch it.
func (s *Store) Resize(ctx context.Context, queue string, declared, size int64) error {
	names, current, err := s.look(ctx, queue)
	if err != nil {
		return err
	}
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	in, unbind := current.Bind(in)
	defer unbind()
	err = s.declare(in, current, queue, declared, size, names, 0)
	if errors.Is(err, client.ErrNoNode) {
		if err = s.makeParents(in, current, s.path(queue)); err == nil {
			err = s.declare(in, current, queue, declared, size, names, 0)
		}
	}
	if err != nil {
		return s.keeper.Verdict(ctx, err)
	}
	return nil
}

// Size reads the data of the queue's node.
func (s *Store) Size(ctx context.Context, queue string) (declared, current int64, err error) {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	now, err := s.keeper.Session(in)
	if err != nil {
		return 0, 0, s.keeper.Verdict(ctx, err)
	}
	bound, unbind := now.Bind(in)
	defer unbind()
	d, err := s.sizeData(bound, now, queue)
	switch {
	case errors.Is(err, client.ErrNoNode):
		return 0, 0, nil
	case err != nil:
		return 0, 0, s.keeper.Verdict(ctx, err)
	}
	declared, current, ok := parseSize(d.data)
	if !ok && len(d.data) > 0 {
		return 0, 0, notSizeError(s.path(queue))
	}
	return declared, current, nil
}

// A notSizeError is that of a queue of permits whose node holds something else than its size. It holds the path.
type notSizeError string

func (path notSizeError) Error() string {
	return fmt.Sprintf("node %q is in the place of a semaphore's size, and holds none", string(path))
}

// A curatorError is that of a path that Curator's InterProcessSemaphoreV2 uses. It holds the path.
type curatorError string

func (path curatorError) Error() string {
	return fmt.Sprintf("node %q has children of Curator's InterProcessSemaphoreV2, which counts in another way: "+
		"use another path", string(path))
}
