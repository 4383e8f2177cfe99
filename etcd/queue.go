package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/recipe"
)

// pageSize is how many keys the limited reads ask for: enough to show a short queue whole, little enough that it
// costs the server the same however long the queue is.
const pageSize = 16

// Join makes the entry's key in one transaction, which also shows the beginning of the queue in key order. If that is
// all there is, no further read is needed to know what is ahead. If the session ends meanwhile, Join begins again in
// the next: what it made went with the session.
func (s *Store) Join(ctx context.Context, r recipe.Request) (recipe.Entry, []recipe.Entry, error) {
	if err := recipe.CheckValue(r.Value); err != nil {
		return recipe.Entry{}, nil, err
	}
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	for {
		current, err := s.keeper.Session(in)
		if err != nil {
			return recipe.Entry{}, nil, s.keeper.Verdict(ctx, err)
		}
		bound, unbind := current.Bind(in)
		e, blockers, err := s.join(bound, r, current)
		unbind()
		switch {
		case err == nil:
			return e, blockers, nil
		case in.Err() != nil || current.Err() == nil:
			return recipe.Entry{}, nil, s.keeper.Verdict(ctx, err)
		}
	}
}

func (s *Store) join(ctx context.Context, r recipe.Request, in *session) (recipe.Entry, []recipe.Entry, error) {
	now := time.Now()
	value := r.Value
	if value == nil {
		value = []byte(s.options.Holder)
	}
	e := recipe.Entry{
		Queue: r.Queue, ID: newKey(r.Queue, r.Kind, r.Units), Kind: r.Kind, Units: r.Units,
		Value: value, Since: now, Session: in.Session,
	}
	page := clientv3.OpGet(prefix(r.Queue), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(pageSize))
	txn := func(ctx context.Context) (resp *clientv3.TxnResponse, err error) {
		// The comparison makes it safe to send again: whichever attempt arrives first makes the key, and the others,
		// finding it, tell that it is there.
		return s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(e.ID), "=", 0)).
			Then(clientv3.OpPut(e.ID, makeValue(r.Kind, value, now), clientv3.WithLease(in.id)), page).
			Else(clientv3.OpGet(e.ID, clientv3.WithKeysOnly())).
			Commit()
	}
	var resp *clientv3.TxnResponse
	attempts, err := s.retry(ctx, func(ctx context.Context) (err error) {
		resp, err = txn(ctx)
		return err
	})
	if err != nil {
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			in.End(errExpired)
		}
		if attempts > 1 || !refused(err) {
			s.removeBehind(e, true)
		}
		return recipe.Entry{}, nil, err
	}
	if attempts > 1 {
		s.suspects.Store(e.ID, time.Now())
	}
	var blockers []recipe.Entry
	if resp.Succeeded {
		e.Revision = resp.Header.Revision
		rest := resp.Responses[1].GetResponseRange()
		if !rest.More {
			return e, r.Rule.Blockers(e, ahead(e, rest.Kvs)), nil
		}
		blockers, err = s.blockers(ctx, e, r.Rule)
	} else {
		e.Revision = resp.Responses[0].GetResponseRange().Kvs[0].CreateRevision
		blockers, err = s.blockers(ctx, e, r.Rule)
	}
	if err != nil {
		s.removeBehind(e, attempts > 1)
		return recipe.Entry{}, nil, err
	}
	return e, blockers, nil
}

// ahead returns the entries among the keys that were made before e, oldest first.
func ahead(e recipe.Entry, kvs []*mvccpb.KeyValue) []recipe.Entry {
	var list []recipe.Entry
	for _, kv := range kvs {
		if kv.CreateRevision >= e.Revision {
			continue
		}
		if other, ok := parseEntry(e.Queue, kv); ok {
			list = append(list, other)
		}
	}
	sortByRevision(list)
	return list
}

func sortByRevision(list []recipe.Entry) {
	slices.SortFunc(list, func(a, b recipe.Entry) int {
		// No two keys of a queue share a create revision unless one transaction of somebody else's made both.
		if a.Revision != b.Revision {
			return int(min(max(a.Revision-b.Revision, -1), 1))
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
}

// Blockers reads what is ahead of e and e itself in one request, outside of any transaction: the server sorts for it,
// which must not hold up its writes.
func (s *Store) Blockers(ctx context.Context, e recipe.Entry, r recipe.Rule) ([]recipe.Entry, error) {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	if err := e.Session.Err(); err != nil {
		return nil, s.keeper.Verdict(ctx, fmt.Errorf("%w: %w", recipe.ErrGone, err))
	}
	in, unbind := e.Session.Bind(in)
	defer unbind()
	list, err := s.blockers(in, e, r)
	if over := e.Session.Err(); over != nil {
		err = fmt.Errorf("%w: %w", recipe.ErrGone, over)
	}
	if err != nil {
		return nil, s.keeper.Verdict(ctx, err)
	}
	return list, nil
}

func (s *Store) blockers(ctx context.Context, e recipe.Entry, r recipe.Rule) ([]recipe.Entry, error) {
	options := []clientv3.OpOption{
		clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(e.Revision),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend),
	}
	if r.Nearest() {
		resp, err := s.get(ctx, prefix(e.Queue), append(options, clientv3.WithLimit(2))...)
		if err != nil {
			return nil, err
		}
		list := ahead(e, resp.Kvs)
		if len(resp.Kvs) < 2 || len(list) > 0 {
			return decide(e, r, resp.Kvs, list)
		}
		// The nearest key is not an entry of this queue. The nearest that is may be anywhere.
	}
	resp, err := s.get(ctx, prefix(e.Queue), options...)
	if err != nil {
		return nil, err
	}
	return decide(e, r, resp.Kvs, ahead(e, resp.Kvs))
}

// decide applies the rule if e itself is among the keys that were read.
func decide(e recipe.Entry, r recipe.Rule, kvs []*mvccpb.KeyValue, list []recipe.Entry) ([]recipe.Entry, error) {
	for _, kv := range kvs {
		if string(kv.Key) == e.ID && kv.CreateRevision == e.Revision {
			return r.Blockers(e, list), nil
		}
	}
	return nil, recipe.ErrGone
}

// get reads until it is answered. Reads are linearizable: they wait for a quorum, and see every write that was
// acknowledged before.
func (s *Store) get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	var resp *clientv3.GetResponse
	_, err := s.retry(ctx, func(ctx context.Context) (err error) {
		resp, err = s.client.Get(ctx, key, options...)
		return err
	})
	return resp, err
}

// Peek reads one key of the queue, which is all there is to know for a rule that any entry blocks.
func (s *Store) Peek(ctx context.Context, r recipe.Request) ([]recipe.Entry, error) {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	list, more, err := s.list(in, r.Queue, clientv3.WithLimit(1))
	if err == nil && more && (len(list) == 0 || !r.Rule.Nearest()) {
		// What was shown belongs to another queue, or does not decide.
		list, _, err = s.list(in, r.Queue)
	}
	if err != nil {
		return nil, s.keeper.Verdict(ctx, err)
	}
	return r.Rule.Blockers(recipe.Entry{Queue: r.Queue, Kind: r.Kind, Units: r.Units}, list), nil
}

// Entries reads the queue whole, with values.
func (s *Store) Entries(ctx context.Context, queue string) ([]recipe.Entry, error) {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	list, _, err := s.list(in, queue)
	if err != nil {
		return nil, s.keeper.Verdict(ctx, err)
	}
	return list, nil
}

// list reads entries of the queue, oldest first. It refuses a queue with a key that would block it for ever.
func (s *Store) list(ctx context.Context, queue string, options ...clientv3.OpOption) (list []recipe.Entry, more bool, err error) {
	resp, err := s.get(ctx, prefix(queue), append(options, clientv3.WithPrefix())...)
	if err != nil {
		return nil, false, err
	}
	for _, kv := range resp.Kvs {
		e, ok := parseEntry(queue, kv)
		if !ok {
			continue
		}
		if kv.Lease == 0 {
			return nil, false, leaselessError(e.ID)
		}
		list = append(list, e)
	}
	sortByRevision(list)
	return list, resp.More, nil
}
