package zk

import (
	"context"
	"errors"
	"strings"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/recipe"
)

// Leave deletes the entry's node. The node is no other entry's, so its version does not matter: a Curator client may
// have written to it, to ask for the lock back.
func (s *Store) Leave(ctx context.Context, e recipe.Entry) error {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	current, err := s.sessionOf(in, e)
	if err != nil {
		return s.keeper.Verdict(ctx, err)
	}
	if ctx.Err() != nil {
		s.removeBehind(current, e.ID)
		return s.keeper.Verdict(ctx, nil)
	}
	in, unbind := current.Bind(in)
	defer unbind()
	_, unknown, err := retry(in, current, deletion(e.ID))
	switch over := current.Err(); {
	case err != nil && over != nil && !errors.Is(err, client.ErrNoNode):
		return s.keeper.Verdict(ctx, nil) // gone with its session
	case errors.Is(err, client.ErrNoNode) && unknown:
		return nil // by an earlier attempt
	case errors.Is(err, client.ErrNoNode):
		return recipe.ErrGone
	case err != nil:
		s.removeBehind(current, e.ID)
		return s.keeper.Verdict(ctx, err)
	default:
		return nil
	}
}

func deletion(path string) func(*client.Conn) (struct{}, error) {
	return func(c *client.Conn) (struct{}, error) { return struct{}{}, c.Delete(path, -1) }
}

// removeBehind deletes a node in the background, until that is confirmed or its session is over: the node goes with it.
// The path may be one without a sequence, of a create whose outcome is not known.
func (s *Store) removeBehind(in *session, path string) {
	s.keeper.Behind(func(ctx context.Context) {
		ctx, cancel := in.Bind(ctx)
		defer cancel()
		name := nameOf(path)
		if !strings.HasSuffix(name, "-") && !strings.HasSuffix(name, "__") {
			s.deleteNode(ctx, in, path)
			return
		}
		found, _, err := s.search(ctx, in, parentOf(path), name)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.options.Logger.Error("entry not looked for: if it was made, it stays until the session ends",
				"node", path, "error", err)
		case found != "":
			s.deleteNode(ctx, in, found)
		}
	})
}

func (s *Store) deleteNode(ctx context.Context, in *session, path string) {
	_, _, err := retry(ctx, in, deletion(path))
	if err != nil && ctx.Err() == nil && !errors.Is(err, client.ErrNoNode) {
		s.options.Logger.Error("entry not removed: it stays until the session ends", "node", path, "error", err)
	}
}
