package etcd

import (
	"context"
	"errors"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/farsync/farsync/driver"
)

// outgoing returns ctx with the metadata of the driver's requests in place of the caller's. Those are not meant for etcd,
// and the client would open a watch stream for each set of them.
//
// A member that has lost its leader refuses at once what requires one, and the next attempt goes to another member. It
// would not answer otherwise, and its watches would be silent.
func outgoing(ctx context.Context) context.Context { return metadata.NewOutgoingContext(ctx, header) }

var header = metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)

// A request is sent once at most. By itself clientv3 repeats a write whose answer is Canceled or DeadlineExceeded while
// ctx lives, as that of a proxy in between may be, and returns the last answer alone.
//
// gRPC asks for the credentials of a call before each time it is sent. So a request passes for its own credentials, of
// which there are none, and refuses them the second time.
type request struct {
	*grpc.ClientConn
	sent atomic.Bool
}

// Invoke is that of the connection, with r as credentials.
func (r *request) Invoke(ctx context.Context, method string, in, out any, options ...grpc.CallOption) error {
	return r.ClientConn.Invoke(ctx, method, in, out, append(options, grpc.PerRPCCredentials(r))...)
}

// GetRequestMetadata returns nothing once, and then an error.
func (r *request) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if r.sent.Swap(true) {
		return nil, errRepeated
	}
	return nil, nil //nolint:nilnil // no metadata, no error
}

// RequireTransportSecurity returns false: there is nothing to be kept secret.
func (r *request) RequireTransportSecurity() bool { return false }

// write makes one attempt at a request that may change something. A KV of the client's own kind, of package namespace for
// example, repeats as it likes.
//
// A request that was not asked for its credentials was not sent, and is certainly not done: most of those that are given up
// during an outage. That is known only once the credentials of another were asked for, since an interceptor of the
// client's may drop the options of a call.
func (s *session) write(ctx context.Context, do func(context.Context, clientv3.KV) error) error {
	if err := s.ended(); err != nil {
		return err
	}
	r := &request{ClientConn: s.client.ActiveConnection()}
	kv := s.client.KV
	if !s.wrapped {
		kv = clientv3.NewKVFromKVClient(pb.NewKVClient(r), s.client)
	}
	err := s.allowed(do(outgoing(ctx), kv))
	switch sent := r.sent.Load(); {
	case err == nil && sent:
		s.counts.Store(true)
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.end(errExpired) // what the server says of one request is true of all
	case err != nil && !sent && s.counts.Load() && s.Outcome(err) == driver.Unknown:
		err = outcomeError{err, driver.NotDone}
	}
	return err
}

// A txn is what a transaction consists of.
type txn struct {
	compare     []clientv3.Cmp
	then, other []clientv3.Op
	failed      error // what it means if a comparison is false; nil if that is an answer like any other
}

// commit makes one attempt to commit t.
func (s *session) commit(ctx context.Context, t txn) (resp *clientv3.TxnResponse, err error) {
	err = s.write(ctx, func(ctx context.Context, kv clientv3.KV) error {
		resp, err = kv.Txn(ctx).If(t.compare...).Then(t.then...).Else(t.other...).Commit()
		return err
	})
	if errors.Is(err, rpctypes.ErrNoSpace) && len(t.then) > 0 {
		// The transaction that exceeds the quota is carried out, and answered so all the same. Those after it are not. As
		// either is over, a look tells: what was carried out has made the comparisons false.
		look, lost := s.commit(ctx, txn{compare: t.compare, other: t.other})
		switch {
		case lost != nil:
			err = outcomeError{err, driver.Unknown}
		case !look.Succeeded:
			resp, err = look, nil
		}
	}
	if err == nil && !resp.Succeeded {
		err = t.failed
	}
	return resp, err
}

// answer returns what the i-th operation of a transaction, a read, has returned.
func answer(resp *clientv3.TxnResponse, i int) *pb.RangeResponse {
	return resp.Responses[i].GetResponseRange()
}

// created is true while the entry's key is the one that was made at its revision.
func created(e driver.Entry) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.ID), "=", e.Revision)
}

// get makes a linearizable read: it waits for a quorum, and sees every write that was answered before. The client may repeat
// it by itself, which does no harm.
func (s *session) get(ctx context.Context, key string, options ...clientv3.OpOption) (*pb.RangeResponse, error) {
	if err := s.ended(); err != nil {
		return nil, err
	}
	resp, err := s.client.Get(outgoing(ctx), key, options...)
	return (*pb.RangeResponse)(resp), s.allowed(err)
}

// first returns the only key of a read of one, and nil if there is none. The getters of nil return zeros.
func first(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}
