package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/recipe"
)

// Change puts the entry's key once more: its create revision, and with it its place, stays. A writer's key that was put
// again is a reader's from then on.
func (s *Store) Change(ctx context.Context, e recipe.Entry, k recipe.Kind, value []byte) (recipe.Entry, error) {
	if err := e.Session.Err(); err != nil {
		return recipe.Entry{}, s.keeper.Verdict(ctx, fmt.Errorf("%w: %w", recipe.ErrGone, err))
	}
	if err := recipe.CheckValue(value); err != nil {
		return recipe.Entry{}, err
	}
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	in, unbind := e.Session.Bind(in)
	defer unbind()
	put := clientv3.OpPut(e.ID, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
	if value != nil {
		put = clientv3.OpPut(e.ID, makeValue(e.Kind, value, e.Since), clientv3.WithIgnoreLease())
	}
	made := false
	_, err := s.retry(in, func(ctx context.Context) error {
		// The comparison keeps a late attempt from making the key again after it was deleted.
		resp, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(e.ID), "=", e.Revision)).Then(put).Commit()
		if err == nil {
			made = resp.Succeeded
		}
		return err
	})
	switch over := e.Session.Err(); {
	case err != nil && refused(err):
		return recipe.Entry{}, err
	case err != nil && over == nil:
		return recipe.Entry{}, fmt.Errorf("%w: %w", recipe.ErrUnknown, s.keeper.Verdict(ctx, err))
	case err != nil:
		return recipe.Entry{}, s.keeper.Verdict(ctx, fmt.Errorf("%w: %w", recipe.ErrGone, over))
	case !made:
		return recipe.Entry{}, recipe.ErrGone
	}
	e.Kind = k
	if value != nil {
		e.Value = value
	}
	return e, nil
}

// parseSize returns the declared and the current size of a queue of permits: the two numbers in the value of the key
// that is the queue's path.
func parseSize(kvs []*mvccpb.KeyValue) (declared, current int64, err error) {
	if len(kvs) == 0 {
		return 0, 0, errUndeclared
	}
	value := string(kvs[0].Value)
	n, err := fmt.Sscanf(value, "%d %d", &declared, &current)
	if err != nil || n != 2 || value != makeSize(declared, current) || declared < 1 || current < 1 {
		return 0, 0, notSizeError(kvs[0].Key)
	}
	return declared, current, nil
}

func makeSize(declared, current int64) string { return fmt.Sprintf("%d %d", declared, current) }

// declaredIs is true if that size is declared. The server orders values as bytes: between the declared size with a blank
// behind it and the same with the next higher byte lie the values that begin with it.
func declaredIs(queue string, size int64) []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(queue), ">", fmt.Sprintf("%d ", size)),
		clientv3.Compare(clientv3.Value(queue), "<", fmt.Sprintf("%d!", size)),
	}
}

// declare makes sure that the queue has the declared size. One that was declared before is declared anew if nobody is in
// the queue.
func (s *Store) declare(ctx context.Context, queue string, declared int64) error {
	return s.setSize(ctx, queue, declared, 0)
}

// Resize puts the key that holds the size. Those who wait for it watch it.
func (s *Store) Resize(ctx context.Context, queue string, declared, size int64) error {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	if err := s.setSize(in, queue, declared, size); err != nil {
		return s.keeper.Verdict(ctx, err)
	}
	return nil
}

// Size reads the key that holds the size.
func (s *Store) Size(ctx context.Context, queue string) (declared, current int64, err error) {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	resp, err := s.get(in, queue)
	if err == nil {
		declared, current, err = parseSize(resp.Kvs)
	}
	if errors.Is(err, errUndeclared) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, s.keeper.Verdict(ctx, err)
	}
	return declared, current, nil
}

// setSize declares the size, and sets the current one unless it is 0.
func (s *Store) setSize(ctx context.Context, queue string, declared, current int64) error {
	for {
		resp, err := s.get(ctx, queue)
		if err != nil {
			return err
		}
		var compare []clientv3.Cmp
		next := declared
		was, is, err := parseSize(resp.Kvs)
		switch {
		case errors.Is(err, errUndeclared):
			compare = append(compare, clientv3.Compare(clientv3.CreateRevision(queue), "=", 0))
		case err != nil:
			return err
		case was == declared && (current == 0 || current == is):
			return nil
		case was == declared:
			compare = append(compare, clientv3.Compare(clientv3.ModRevision(queue), "=", resp.Kvs[0].ModRevision))
		default:
			// The second is true of a range without keys only. It costs the server time in proportion to the queue, but is
			// asked only where two sizes meet.
			compare = append(compare, clientv3.Compare(clientv3.ModRevision(queue), "=", resp.Kvs[0].ModRevision),
				clientv3.Compare(clientv3.CreateRevision(prefix(queue)), "=", 0).WithPrefix())
		}
		if current != 0 {
			next = current
		}
		var answer *clientv3.TxnResponse
		_, err = s.retry(ctx, func(ctx context.Context) (err error) {
			answer, err = s.client.Txn(ctx).If(compare...).
				Then(clientv3.OpPut(queue, makeSize(declared, next))).
				Else(clientv3.OpGet(queue, clientv3.WithKeysOnly())).Commit()
			return err
		})
		if err != nil || answer.Succeeded {
			return err
		}
		now := answer.Responses[0].GetResponseRange().Kvs
		if len(compare) > 1 && len(now) > 0 && now[0].ModRevision == resp.Kvs[0].ModRevision {
			return recipe.SizeError(was, declared) // it is the queue that is not empty
		}
		// Somebody else was quicker, or an attempt of ours was. Look again.
	}
}
