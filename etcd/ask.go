package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

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
	for {
		current, err := s.keeper.Session(in)
		if err != nil {
			return s.keeper.Verdict(ctx, err)
		}
		bound, unbind := current.Bind(in)
		asked := false
		_, err = s.retry(bound, func(ctx context.Context) error {
			resp, err := s.client.Txn(ctx).
				If(clientv3.Compare(clientv3.CreateRevision(e.ID), "=", e.Revision)).
				Then(clientv3.OpPut(askKey(e), s.options.Holder, clientv3.WithLease(current.id))).
				Commit()
			if err == nil {
				asked = resp.Succeeded
			}
			return err
		})
		unbind()
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			current.End(errExpired)
		}
		switch {
		case err == nil && asked:
			return nil
		case err == nil:
			return recipe.ErrGone
		case in.Err() != nil || current.Err() == nil:
			return s.keeper.Verdict(ctx, err)
		}
		// The session ended meanwhile, and with it what was made. Ask again in the next.
	}
}

// Asked waits until the key is there, or the entry's is not.
func (s *Store) Asked(ctx context.Context, e recipe.Entry) error {
	if err := e.Session.Err(); err != nil {
		return s.keeper.Verdict(ctx, fmt.Errorf("%w: %w", recipe.ErrGone, err))
	}
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	bound, unbind := e.Session.Bind(in)
	defer unbind()
	group, first := errgroup.WithContext(bound)
	until := func(w watching, over error) {
		group.Go(func() error {
			if err := s.wait(first, w); err != nil {
				return err
			}
			return over
		})
	}
	until(watching{key: askKey(e), options: []clientv3.OpOption{clientv3.WithFilterDelete()}}, errChanged)
	until(watching{
		key: e.ID, entries: map[string]recipe.Entry{e.ID: e}, options: []clientv3.OpOption{clientv3.WithFilterPut()},
	}, recipe.ErrGone)
	err := group.Wait()
	switch over := e.Session.Err(); {
	case errors.Is(err, errChanged):
		return nil
	case over != nil:
		err = fmt.Errorf("%w: %w", recipe.ErrGone, over)
	}
	return s.keeper.Verdict(ctx, err)
}
