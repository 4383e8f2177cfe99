package zk

import (
	"context"
	"errors"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/recipe"
)

// revoke is what Curator's Revoker writes to a node to ask for it back.
const revoke = "__REVOKE__"

// Ask writes Curator's word to the entry's node. A holder of Curator's that has made its lock revocable is told by it.
func (s *Store) Ask(ctx context.Context, e recipe.Entry) error {
	return s.keeper.InSession(ctx, func(ctx context.Context, in *session) error {
		_, _, err := retry(ctx, in, func(c *client.Conn) (*client.Stat, error) { return c.Set(e.ID, []byte(revoke), -1) })
		if errors.Is(err, client.ErrNoNode) {
			return recipe.ErrGone
		}
		return err
	})
}

// Asked waits until Curator's word is in the entry's node.
func (s *Store) Asked(ctx context.Context, e recipe.Entry) error {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	for {
		current, err := s.sessionOf(in, e)
		if err != nil {
			return s.keeper.Verdict(ctx, err)
		}
		asked, err := s.asked(in, current, e)
		if asked || err != nil {
			return s.keeper.Verdict(ctx, err)
		}
	}
}

// asked looks once, and waits for a change if it did not find the word.
func (s *Store) asked(ctx context.Context, in *session, e recipe.Entry) (bool, error) {
	ctx, unbind := in.Bind(ctx)
	defer unbind()
	w, err := in.watch(ctx, e.ID, getW(e.ID))
	if errors.Is(err, client.ErrNoNode) {
		return false, recipe.ErrGone
	}
	if err != nil {
		return false, err
	}
	if string(w.data) == revoke {
		in.mind(w)
		return true, nil
	}
	return false, in.await(ctx, w)
}
