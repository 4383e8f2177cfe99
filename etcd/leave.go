package etcd

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/recipe"
)

// lookAgainFor is how long a key is looked for whose making had an unknown outcome. A request that a client gave up
// may wait in the network or in a server's queue, and be carried out seconds later, after the key was removed.
const lookAgainFor = 15 * time.Second

// Leave deletes the entry's key. The key is no other entry's, so it needs no comparison.
func (s *Store) Leave(ctx context.Context, e recipe.Entry) error {
	if err := e.Session.Err(); err != nil {
		return s.keeper.Verdict(ctx, fmt.Errorf("%w: %w", recipe.ErrGone, err))
	}
	if ctx.Err() != nil {
		s.removeBehind(e, false)
		return s.keeper.Verdict(ctx, nil)
	}
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	var deleted int64
	attempts, err := s.retry(in, func(ctx context.Context) error {
		resp, err := s.client.Delete(ctx, e.ID)
		if err == nil {
			deleted = resp.Deleted
		}
		return err
	})
	if err != nil {
		s.removeBehind(e, false)
		return s.keeper.Verdict(ctx, err)
	}
	if _, suspect := s.suspects.LoadAndDelete(e.ID); suspect {
		s.removeBehind(e, true)
	}
	if deleted == 0 && attempts == 1 {
		return recipe.ErrGone
	}
	return nil
}

// removeBehind deletes the entry's key in the background, until that is confirmed or its session is over: the key goes
// with it. With again it goes on looking for a while, for the request that was to make the key may still be under way.
func (s *Store) removeBehind(e recipe.Entry, again bool) {
	if _, suspect := s.suspects.LoadAndDelete(e.ID); suspect {
		again = true
	}
	begun := time.Now()
	s.keeper.Behind(func(ctx context.Context) {
		ctx, cancel := e.Session.Bind(ctx)
		defer cancel()
		looking := false
		for delay := retryFirst; ; delay = min(2*delay, retryMost) {
			_, err := s.retry(ctx, func(ctx context.Context) error {
				if looking {
					// A delete is a write for the whole cluster even if there is nothing to delete.
					resp, err := s.client.Get(ctx, e.ID, clientv3.WithKeysOnly())
					if err != nil || len(resp.Kvs) == 0 {
						return err
					}
				}
				_, err := s.client.Delete(ctx, e.ID)
				return err
			})
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				s.options.Logger.Error("entry not removed: it stays until the session ends", "key", e.ID, "error", err)
				return
			}
			if !again || time.Since(begun) > lookAgainFor || recipe.Pause(ctx, delay) != nil {
				return
			}
			looking = true
		}
	})
}
