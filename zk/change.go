package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/recipe"
)

// Change sets the data of the entry's node; or it makes a reader's node of a writer's, in one transaction: the new one
// has the old one's sequence, and with it its place, as in Curator since 5.5.
func (s *Store) Change(ctx context.Context, e recipe.Entry, k recipe.Kind, value []byte) (recipe.Entry, error) {
	if err := recipe.CheckValue(value); err != nil {
		return recipe.Entry{}, err
	}
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	current, err := s.sessionOf(in, e)
	if err != nil {
		return recipe.Entry{}, s.keeper.Verdict(ctx, err)
	}
	in, unbind := current.Bind(in)
	defer unbind()
	to := e
	if value != nil {
		to.Value = value
	}
	if k == e.Kind {
		_, _, err = retry(in, current, func(c *client.Conn) (*client.Stat, error) { return c.Set(e.ID, to.Value, -1) })
	} else {
		to.Kind, to.ID = k, readName(e.ID)
		err = s.replace(in, current, e, to)
	}
	switch over := current.Err(); {
	case err == nil:
		return to, nil
	case errors.Is(err, client.ErrNoNode):
		return recipe.Entry{}, recipe.ErrGone
	case refused(err):
		return recipe.Entry{}, err
	case over != nil:
		return recipe.Entry{}, s.keeper.Verdict(ctx, fmt.Errorf("%w: %w", recipe.ErrGone, over))
	default:
		return recipe.Entry{}, fmt.Errorf("%w: %w", recipe.ErrUnknown, s.keeper.Verdict(ctx, err))
	}
}

// readName returns the name of the reader's node that takes the place of a writer's. The same for each attempt.
func readName(path string) string {
	i := strings.LastIndex(path, nameWrite)
	return path[:i] + nameRead + path[i+len(nameWrite):]
}

// replace makes the one node and deletes the other. After an attempt whose outcome is unknown, finding the new node
// there and the old one gone means that it was made.
func (s *Store) replace(ctx context.Context, in *session, from, to recipe.Entry) error {
	making := start(in, func(c *client.Conn) (struct{}, error) {
		unknown := false
		for {
			_, err := c.Multi(
				&client.CreateRequest{Path: to.ID, Data: to.Value, Acl: s.acl(), Flags: client.FlagEphemeral},
				&client.DeleteRequest{Path: from.ID, Version: -1},
			)
			switch {
			case err == nil, errors.Is(err, client.ErrNodeExists) && unknown:
				return struct{}{}, nil
			case refused(err) || in.Err() != nil:
				return struct{}{}, err
			}
			unknown = true
			if recipe.Pause(in.wire.life, retryFirst) != nil {
				return struct{}{}, err
			}
		}
	})
	select {
	case a := <-making:
		return a.err
	case <-ctx.Done():
		// Whichever of the two is there is to go: nobody will know of the other.
		s.keeper.Behind(func(ctx context.Context) {
			<-making // at the latest when the session ends
			bound, cancel := in.Bind(ctx)
			defer cancel()
			s.deleteNode(bound, in, from.ID)
			s.deleteNode(bound, in, to.ID)
		})
		return context.Cause(ctx)
	}
}
