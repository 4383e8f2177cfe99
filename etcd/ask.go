package etcd

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/recipe"
)

// askKey is where an entry is asked for: <queue>!ask/<kind>-<id>, outside of the queue, in which everything counts.
func askKey(e recipe.Entry) string {
	return e.Queue + "!ask/" + strings.TrimPrefix(e.ID, prefix(e.Queue))
}

// Ask makes a key that the holder watches, in the session of whoever asks.
func (s *Store) Ask(ctx context.Context, e recipe.Entry) error {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	current, err := s.keeper.Session(in)
	if err != nil {
		return s.keeper.Verdict(ctx, err)
	}
	asked := false
	_, err = s.retry(in, func(ctx context.Context) error {
		resp, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(e.ID), "=", e.Revision)).
			Then(clientv3.OpPut(askKey(e), s.options.Holder, clientv3.WithLease(current.id))).
			Commit()
		if err == nil {
			asked = resp.Succeeded
		}
		return err
	})
	switch {
	case err != nil:
		return s.keeper.Verdict(ctx, err)
	case !asked:
		return recipe.ErrGone
	default:
		return nil
	}
}

// Asked waits until the key is there.
func (s *Store) Asked(ctx context.Context, e recipe.Entry) error {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	err := s.wait(in, watching{key: askKey(e), exact: true, options: []clientv3.OpOption{clientv3.WithFilterDelete()}})
	if err != nil {
		return s.keeper.Verdict(ctx, err)
	}
	return nil
}
