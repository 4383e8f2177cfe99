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

// pageSize is how many keys a join is shown: enough for the whole of most queues, so that no further read is needed to
// know what is ahead, and few enough that a long queue does not hold up the server's writes.
const pageSize = 128

// Join makes the entry's key in one transaction, which also shows the beginning of the queue in key order. If that is
// all there is, no further read is needed to know what is ahead. If the session ends meanwhile, Join begins again in
// the next: what it made went with the session.
func (s *Store) Join(ctx context.Context, r recipe.Request) (recipe.Entry, []recipe.Entry, error) {
	if err := recipe.CheckValue(r.Value); err != nil {
		return recipe.Entry{}, nil, err
	}
	var e recipe.Entry
	var blockers []recipe.Entry
	err := s.keeper.InSession(ctx, func(ctx context.Context, in *session) (err error) {
		e, blockers, err = s.join(ctx, r, in)
		return err
	})
	return e, blockers, err
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
	txn := joinTxn(e, r, makeValue(r.Kind, value, now), in.id)
	var resp *clientv3.TxnResponse
	attempts, err := s.retry(ctx, func(ctx context.Context) (err error) {
		resp, err = s.client.Txn(ctx).If(txn.compare...).Then(txn.make...).Else(txn.look...).Commit()
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
	var size []*mvccpb.KeyValue // of a queue of permits
	if r.Kind == recipe.Permit {
		size = resp.Responses[len(resp.Responses)-1].GetResponseRange().Kvs
	}
	shown := resp.Responses[0].GetResponseRange() // if the key was there, itself
	switch {
	case resp.Succeeded:
		e.Revision = resp.Header.Revision
		shown = resp.Responses[1].GetResponseRange()
	case len(shown.Kvs) > 0:
		e.Revision = shown.Kvs[0].CreateRevision
	default:
		// The queue has no size yet or another, so nothing was made; but an earlier attempt may find it with ours, later.
		if attempts > 1 {
			s.removeBehind(e, true)
		}
		return s.joinAnew(ctx, r, in)
	}
	var blockers []recipe.Entry
	if resp.Succeeded && !shown.More {
		blockers, err = apply(e, r.Rule, ahead(e, shown.Kvs), size)
	} else {
		blockers, err = s.blockers(ctx, e, r.Rule)
	}
	if err != nil {
		s.removeBehind(e, attempts > 1)
		return recipe.Entry{}, nil, err
	}
	return e, blockers, nil
}

// A txn is what a transaction consists of.
type txn struct {
	compare    []clientv3.Cmp
	make, look []clientv3.Op
}

// joinTxn makes e's key, and shows the beginning of the queue and the size of one of permits. The comparison makes it
// safe to send again: whichever attempt arrives first makes the key, and the others, finding it, tell that it is
// there.
func joinTxn(e recipe.Entry, r recipe.Request, value string, lease clientv3.LeaseID) txn {
	t := txn{
		compare: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.ID), "=", 0)},
		make: []clientv3.Op{
			clientv3.OpPut(e.ID, value, clientv3.WithLease(lease)),
			clientv3.OpGet(prefix(r.Queue), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(pageSize)),
		},
		look: []clientv3.Op{clientv3.OpGet(e.ID, clientv3.WithKeysOnly())},
	}
	if r.Kind == recipe.Permit {
		t.compare = append(t.compare, declaredIs(r.Queue, r.Size)...)
		t.make = append(t.make, clientv3.OpGet(r.Queue))
		t.look = append(t.look, clientv3.OpGet(r.Queue))
	}
	return t
}

// joinAnew declares the size of the queue and joins again.
func (s *Store) joinAnew(ctx context.Context, r recipe.Request, in *session) (recipe.Entry, []recipe.Entry, error) {
	if err := s.declare(ctx, r.Queue, r.Size); err != nil {
		return recipe.Entry{}, nil, err
	}
	return s.join(ctx, r, in)
}

// apply applies the rule: that of permits with the size of their queue.
func apply(e recipe.Entry, r recipe.Rule, list []recipe.Entry, size []*mvccpb.KeyValue) ([]recipe.Entry, error) {
	if e.Kind != recipe.Permit {
		return r.Blockers(e, list), nil
	}
	_, current, err := parseSize(size)
	if err != nil {
		return nil, err
	}
	return recipe.Sized(e, list, recipe.Entry{
		Queue: e.Queue, ID: e.Queue, Kind: recipe.Size, Units: current, Revision: size[0].ModRevision,
	})
}

// ahead returns the entries among the keys that were made before e, oldest first. If the keys are all those of the
// queue, Ahead is what it says; if only the nearest, it is 0.
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
	for i := range list {
		list[i].Ahead = i
	}
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
			return decide(e, r, resp.Kvs, list, nil)
		}
		// The nearest key is not an entry of this queue. The nearest that is may be anywhere.
	}
	if e.Kind != recipe.Permit {
		resp, err := s.get(ctx, prefix(e.Queue), options...)
		if err != nil {
			return nil, err
		}
		return decide(e, r, resp.Kvs, ahead(e, resp.Kvs), nil)
	}
	var resp *clientv3.TxnResponse
	_, err := s.retry(ctx, func(ctx context.Context) (err error) {
		// One that only reads is not written to the log.
		resp, err = s.client.Txn(ctx).
			Then(clientv3.OpGet(prefix(e.Queue), options...), clientv3.OpGet(e.Queue)).Commit()
		return err
	})
	if err != nil {
		return nil, err
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	return decide(e, r, kvs, ahead(e, kvs), resp.Responses[1].GetResponseRange().Kvs)
}

// decide applies the rule if e itself is among the keys that were read.
func decide(
	e recipe.Entry, r recipe.Rule, kvs []*mvccpb.KeyValue, list []recipe.Entry, size []*mvccpb.KeyValue,
) ([]recipe.Entry, error) {
	for _, kv := range kvs {
		if string(kv.Key) == e.ID && kv.CreateRevision == e.Revision {
			return apply(e, r, list, size)
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
	e := recipe.Entry{Queue: r.Queue, Kind: r.Kind, Units: r.Units}
	if r.Kind != recipe.Permit {
		return r.Rule.Blockers(e, list), nil
	}
	size, err := s.get(in, r.Queue)
	if err != nil {
		return nil, s.keeper.Verdict(ctx, err)
	}
	if declared, _, err := parseSize(size.Kvs); err != nil || declared != r.Size {
		return nil, nil // Join sees to it
	}
	return apply(e, r.Rule, list, size.Kvs)
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
		e.Version = kv.ModRevision
		list = append(list, e)
	}
	sortByRevision(list)
	return list, resp.More, nil
}
