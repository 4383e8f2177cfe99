package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

// The requests of entries that know turns are made of the messages themselves. A clientv3.Op is converted to them each
// time, and its comparisons are copied by reflection: a tenth of what a free lock costs its client. Where the client
// has a KV of its own, which takes an Op alone, there are no such entries.

// createdAt is true while a key is still the key that was made at that revision, or at revision 0 while there is none.
func createdAt(key string, revision int64) *pb.Compare {
	return &pb.Compare{
		Target: pb.Compare_CREATE, Key: []byte(key), TargetUnion: &pb.Compare_CreateRevision{CreateRevision: revision},
	}
}

// own is true while the entry's key is still the key that was made at its revision.
func own(e driver.Entry) *pb.Compare { return createdAt(e.ID, e.Revision) }

// there is true while a key belongs to an entry, whichever.
func there(e driver.Entry) *pb.Compare {
	as := createdAt(e.ID, 0)
	as.Result = pb.Compare_GREATER
	return as
}

// none is true while there is no key from `from` on and before end.
func none(from, end string) *pb.Compare {
	as := createdAt(from, 0)
	as.RangeEnd = []byte(end)
	return as
}

func putOp(key, value string, lease clientv3.LeaseID) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
		Key: []byte(key), Value: []byte(value), Lease: int64(lease),
	}}}
}

func deleteOp(key string, show bool) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{
		Key: []byte(key), PrevKv: show,
	}}}
}

func txnOp(txn *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: txn}}
}

// transact is attempt for a transaction of messages.
func (s *session) transact(ctx context.Context, txn *pb.TxnRequest) (resp *pb.TxnResponse, err error) {
	least := s.past.least()
	err = s.send(ctx, func(ctx context.Context, r *request) error {
		resp, err = pb.NewKVClient(r).Txn(ctx, txn)
		return clientv3.ContextError(ctx, err)
	})
	if err == nil {
		s.past.answered(resp.Header, least)
	}
	return resp, err
}
