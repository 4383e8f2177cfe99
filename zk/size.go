package zk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// lookAgain is how often, and lookAgainAfter after which time each, a size that differs is read again.
const (
	lookAgain      = 3
	lookAgainAfter = 30 * time.Millisecond
)

// declare makes sure that the queue has the declared size, and the current one unless that is 0. A size that was
// declared before is declared anew by whoever has nobody ahead in the queue. names are all the children.
//
// That somebody is ahead does not tell that the size is in use: it may have joined just now, and be about to declare the
// size anew, or to find that it cannot and leave.
func (s *Store) declare(
	ctx context.Context, in *session, queue string, declared, current int64, names []string, ahead int,
) error {
	if slices.Contains(names, "leases") || slices.Contains(names, "locks") {
		return curatorError(s.path(queue))
	}
	for looks := 0; ; {
		d, err := s.sizeData(ctx, in, queue)
		if err != nil {
			return err
		}
		was, now, ok := parseSize(d.data)
		next := declared
		switch {
		case ok && was == declared && (current == 0 || current == now):
			return nil
		case ok && was != declared && ahead > 0:
			if looks++; looks > lookAgain {
				return recipe.SizeError(was, declared)
			}
			if err := recipe.Pause(ctx, lookAgainAfter); err != nil {
				return err
			}
			continue
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
	return s.keeper.InSession(ctx, func(ctx context.Context, in *session) error {
		names, err := s.look(ctx, in, queue)
		if err != nil {
			return err
		}
		ahead := len(queuedOf(names, recipe.Permit))
		err = s.declare(ctx, in, queue, declared, size, names, ahead)
		if errors.Is(err, client.ErrNoNode) {
			if err = s.makeParents(ctx, in, s.path(queue)); err == nil {
				err = s.declare(ctx, in, queue, declared, size, names, ahead)
			}
		}
		return err
	})
}

// Size reads the data of the queue's node.
func (s *Store) Size(ctx context.Context, queue string) (declared, current int64, err error) {
	err = s.keeper.InSession(ctx, func(ctx context.Context, in *session) error {
		d, err := s.sizeData(ctx, in, queue)
		switch {
		case errors.Is(err, client.ErrNoNode):
			return nil
		case err != nil:
			return err
		}
		var ok bool
		declared, current, ok = parseSize(d.data)
		if !ok && len(d.data) > 0 {
			return notSizeError(s.path(queue))
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
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
