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
func (s *service) outgoing(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, s.header)
}

// header returns the metadata of all requests.
func header() metadata.MD {
	return metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
}

// A request counts how often the client sends it. By itself clientv3 repeats a write whose answer is Canceled or
// DeadlineExceeded while ctx lives, as that of a proxy in between may be, and returns the last answer alone.
//
// gRPC asks for the credentials of a call once for each stream that it is sent on, before anything is sent. So a request
// passes for its own credentials, of which there are none.
type request struct {
	*service
	*grpc.ClientConn
	sent atomic.Int32
}

// Invoke is that of the connection, with r as credentials.
func (r *request) Invoke(ctx context.Context, method string, in, out any, options ...grpc.CallOption) error {
	return r.ClientConn.Invoke(ctx, method, in, out, append(options, grpc.PerRPCCredentials(r))...)
}

// GetRequestMetadata counts.
func (r *request) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	r.sent.Add(1)
	return nil, nil //nolint:nilnil // no metadata, no error
}

// RequireTransportSecurity returns false: there is nothing to be kept secret.
func (r *request) RequireTransportSecurity() bool { return false }

// KV returns a KV that counts for r, unless the client has one of its own kind, which cannot be counted.
func (r *request) KV() clientv3.KV {
	if r.wrapped {
		return r.client.KV
	}
	return clientv3.NewKVFromKVClient(pb.NewKVClient(r), r.client)
}

// result returns err, with what is known of its outcome from how often r was sent.
func (r *request) result(err error) error {
	err = r.allowed(err)
	switch n := r.sent.Load(); {
	case err == nil:
		if n > 0 {
			r.counts.Store(true)
		}
		return nil
	case n == 0 && !r.wrapped && r.counts.Load() && r.Outcome(err) == driver.Unknown:
		return outcomeError{err, driver.NotDone}
	case n > 1:
		// Whatever the last answer was, it says nothing of those before it.
		return outcomeError{err, driver.Unknown}
	default:
		return err
	}
}

// resent reports whether r was sent more than once.
func (r *request) resent() bool { return r.sent.Load() > 1 }

// request begins a request of the session, and fails if the session has ended.
func (s *session) request(ctx context.Context) (context.Context, *request, error) {
	return s.outgoing(ctx), &request{service: s.service, ClientConn: s.client.ActiveConnection()}, s.ended()
}

// get makes a linearizable read: it waits for a quorum, and sees every write that was answered before.
func (s *session) get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, r, err := s.request(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := r.KV().Get(ctx, key, options...)
	return resp, r.result(err)
}

// key reads one key, and returns nil if there is none.
func (s *session) key(ctx context.Context, key string) (*mvccpb.KeyValue, error) {
	resp, err := s.get(ctx, key)
	if err != nil {
		return nil, err
	}
	return first(resp.Kvs), nil
}

// first returns the only key of a read of one, and nil if there is none. The getters of nil return zeros.
func first(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	for _, kv := range kvs {
		return kv
	}
	return nil
}

// A txn is what a transaction consists of.
type txn struct {
	compare     []clientv3.Cmp
	then, other []clientv3.Op
	failed      error // what it means if the comparisons are false; nil if that is an answer like any other
}

// An answer is that of a txn.
type answer struct {
	*clientv3.TxnResponse
	resent bool // the request was sent more than once
}

// read returns what the i-th operation, a read, has returned.
func (a answer) read(i int) *pb.RangeResponse { return a.Responses[i].GetResponseRange() }

// commit makes one attempt to commit t.
func (s *session) commit(ctx context.Context, t txn) (answer, error) {
	ctx, r, err := s.request(ctx)
	if err != nil {
		return answer{}, err
	}
	resp, err := r.KV().Txn(ctx).If(t.compare...).Then(t.then...).Else(t.other...).Commit()
	err = r.result(err)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.end(errExpired) // what the server says of one request is true of all
	}
	if err == nil && !resp.Succeeded {
		err = t.failed
	}
	return answer{resp, r.resent()}, err
}

// created is true while the entry's key is the one that was made at its revision.
func created(e driver.Entry) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.ID), "=", e.Revision)
}
