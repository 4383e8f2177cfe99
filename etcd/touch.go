package etcd

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

// untouched is true while an entry has no turn.
func untouched(e driver.Entry) *pb.Compare { return createdAt(turnKey(e), 0) }

// untouchedSince is true while an entry has been given no turn after a revision.
func untouchedSince(e driver.Entry, at int64) *pb.Compare {
	return &pb.Compare{
		Result: pb.Compare_LESS, Target: pb.Compare_MOD, Key: []byte(turnKey(e)), TargetUnion: &pb.Compare_ModRevision{ModRevision: at + 1},
	}
}

// putTurn gives an entry its turn. That lives as long as the entry's session.
func putTurn(e driver.Entry, at int64, behind []driver.Entry) *pb.RequestOp {
	lease, _ := turnLease(e.ID)
	return putOp(turnKey(e), turnText(at, behind), lease)
}

// Touch gives the head of a queue its turn, whichever it is: the oldest entry of v, or of what a look shows. A head
// that has its turn is given it once more: it thereby knows that another entry has left since. If the head has gone
// meanwhile, or was given a turn that may have seen more, Touch returns a View with which it is to be called again.
//
// It may be called when the session has ended, for it needs none.
func (s *session) Touch(ctx context.Context, v driver.View) (driver.View, error) {
	queue, at, list := v.Self.Queue, v.Self.Revision, v.Entries
	if len(list) == 0 && v.Self.ID != "" {
		switch told, err := s.touchTold(ctx, v.Self); {
		case err != nil:
			return driver.View{}, s.over(err)
		case told:
			return driver.View{}, nil
		}
	}
	if len(list) == 0 {
		var err error
		if list, at, err = s.oldest(ctx, queue); err != nil {
			return driver.View{}, s.over(err)
		}
	}
	if len(list) > 0 && !plain(list[0]) {
		head := list[0]
		resp, err := s.transact(ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{own(head), untouchedSince(head, at)}, Success: []*pb.RequestOp{putTurn(head, at, list[1:])},
		})
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound): // a key that another program made: its name lies
		case err != nil:
			return driver.View{}, s.over(err)
		case !resp.Succeeded:
			return driver.View{Self: driver.Entry{Queue: queue}, Turn: true}, nil
		}
	}
	s.spare.paid(queue)
	return driver.View{}, nil
}

// touchTold gives a head its turn once more, for which a waiter has left, and reports whether there is a head that has
// its turn. That is found without the queue: it is the only one with a turn.
//
// It must be there still when the turn is put, and be the entry that was given the turn. Its key was made before that
// turn, then. An entry that was given its turn is the head for as long as it is there, so it was when the turns were
// read.
func (s *session) touchTold(ctx context.Context, left driver.Entry) (told bool, err error) {
	resp, err := s.attempt(ctx, clientv3.OpGet(prefix(left.Queue+turnSuffix), clientv3.WithPrefix(), clientv3.WithLimit(2)))
	page := resp.Get()
	if err != nil || len(page.Kvs) != 1 {
		return false, err
	}
	turn := page.Kvs[0]
	head := entryOfTurn(left.Queue, turn)
	if plain(head) {
		return false, nil
	}
	_, behind := parseTurn(left.Queue, turn)
	behind = slices.DeleteFunc(behind, func(e driver.Entry) bool { return e.ID == left.ID && e.Revision == left.Revision })
	older := createdAt(head.ID, turn.CreateRevision)
	older.Result = pb.Compare_LESS
	seen := &pb.Compare{
		Target: pb.Compare_MOD, Key: turn.Key, TargetUnion: &pb.Compare_ModRevision{ModRevision: turn.ModRevision},
	}
	got, err := s.transact(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{there(head), older, seen}, Success: []*pb.RequestOp{putTurn(head, page.Header.Revision, behind)},
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // a key that another program made: its name lies
		return false, nil
	}
	if told = err == nil && got.Succeeded; told {
		s.spare.paid(left.Queue)
	}
	return told, err
}

// oldest reads the oldest entries of a queue. It is no transaction: the server sorts for it. It shows a complete
// beginning of the queue, and not older than the call: a revision before the own delete would show what has left as the
// head.
func (s *session) oldest(ctx context.Context, queue string) (list []driver.Entry, at int64, err error) {
	read := func(limit int64) (*pb.RangeResponse, error) {
		resp, err := s.attempt(ctx, clientv3.OpGet(prefix(queue), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
			clientv3.WithLimit(limit), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)))
		return (*pb.RangeResponse)(resp.Get()), err
	}
	page, err := read(mostNext + 1)
	if err == nil && page.More && len(entriesOf(queue, page.Kvs)) == 0 {
		page, err = read(0) // keys of queues further down come first
	}
	return entriesOf(queue, page.GetKvs()), page.GetHeader().GetRevision(), err
}

// over returns why the session has ended, if it has, and otherwise err.
func (s *session) over(err error) error { return cmp.Or(s.ended(), err) }

// handOver gives turns to the heads of the queues in which entries of the session stood, may have stood, or were about
// to leave, when it was closed. To the others the end of a session looks like a death, which they notice when they look
// by themselves. It is one round for each head that has gone meanwhile.
func (s *session) handOver(ctx context.Context) {
	places := make(chan struct{}, mostTouches)
	var all sync.WaitGroup
	defer all.Wait()
	for _, queue := range s.spare.owed() {
		if take(ctx, places) != nil {
			return
		}
		all.Go(func() {
			defer func() { <-places }()
			v := driver.View{Self: driver.Entry{Queue: queue}, Turn: true}
			for err := error(nil); v.Turn && err == nil; {
				v, err = s.Touch(ctx, v)
			}
		})
	}
}
