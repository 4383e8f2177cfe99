package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/farsync/farsync/driver"
)

// outgoing returns ctx with the metadata of the driver's requests in place of the caller's. The caller's metadata is
// not meant for etcd, and the client would open a watch stream for each set of them.
//
// A member that has lost its leader refuses at once what requires one, and the next attempt goes to another member. It
// would not answer otherwise, and its watches would be silent.
func outgoing(ctx context.Context) context.Context { return metadata.NewOutgoingContext(ctx, header) }

var header = metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)

// A request is sent once at most. By itself clientv3 repeats a read that was not answered, and a write whose answer is
// Canceled or DeadlineExceeded while ctx lives, as the answer of a proxy in between may be, and returns the last answer
// alone.
//
// gRPC asks for the credentials of a call before each time it is sent, when it has chosen a member. So a request passes
// for its own credentials. There are none: it refuses them the second time, and where the member is to be avoided.
type request struct {
	*grpc.ClientConn
	avoids  func(member *peer.Peer) bool
	avoided bool                      // it was not sent, because the member is one to avoid. Invariant: !avoided if to is not nil
	to      atomic.Pointer[peer.Peer] // the member to which it was sent
}

// Invoke calls Invoke of the connection, with r as credentials.
func (r *request) Invoke(ctx context.Context, method string, in, out any, options ...grpc.CallOption) error {
	return r.ClientConn.Invoke(ctx, method, in, out, append(options, grpc.PerRPCCredentials(r))...)
}

// NewStream calls NewStream of the connection, with r as credentials.
func (r *request) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return r.ClientConn.NewStream(ctx, desc, method, append(options, grpc.PerRPCCredentials(r))...)
}

// GetRequestMetadata returns nothing once, and then an error.
//
// A request that was sent stays sent, whatever comes after. A member may begin to owe another answer between the first
// time and the second. The request must not count as avoided then, for deal would send it once more: the attempt would
// have been carried out twice, or once much later, and the caller would take it for an attempt that was answered.
func (r *request) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	to, ok := peer.FromContext(ctx)
	if !ok {
		to = new(peer.Peer)
	}
	if r.to.Load() != nil {
		return nil, errRepeated
	}
	if r.avoided = r.avoids != nil && r.avoids(to); r.avoided {
		return nil, errAvoided
	}
	if !r.to.CompareAndSwap(nil, to) {
		return nil, errRepeated
	}
	return nil, nil //nolint:nilnil // no metadata, no error
}

// RequireTransportSecurity returns false: there is nothing to be kept secret.
func (r *request) RequireTransportSecurity() bool { return false }

// deal has send make one attempt at a request, and returns the member to which it was sent, or nil if it was not. The
// client deals the members in turn to all that it sends. Where a member owes an answer the request is dealt to another,
// as often as there are members. Dealt once more only, it could come to the next member that owes an answer each time:
// an attempt of two requests takes three of three members, and the next attempt begins with the same. If all members
// owe an answer it is sent to any.
func (s *session) deal(send func(r *request) error) (to *peer.Peer, err error) {
	var r *request
	for n := 0; n == 0 || r.avoided && n < len(s.client.Endpoints()); n++ {
		r = &request{ClientConn: s.client.ActiveConnection(), avoids: s.owes}
		err = send(r)
	}
	if r.avoided {
		r = &request{ClientConn: s.client.ActiveConnection()}
		err = send(r)
	}
	return r.to.Load(), err
}

// owes reports whether a member owes an answer.
func (s *session) owes(member *peer.Peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.owing) > 0 && s.owing[address(member)]
}

// owe notes that a member owes an answer.
func (s *session) owe(member string) {
	if member == "" {
		return // it is not known, for an interceptor of the client's has dropped what tells
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owing[member] = true
}

// answered notes that a member has answered.
func (s *session) answered(member *peer.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.owing) > 0 {
		delete(s.owing, address(member))
	}
}

// address returns where a member is, or nothing for none.
func address(member *peer.Peer) string {
	if member == nil || member.Addr == nil {
		return ""
	}
	return member.Addr.String()
}

// mostWrites bounds the creates of a session that are under way, and the deletes. A server works on all that it has
// been sent, and answers all of it late: where thousands join at once a renewal must not stand behind them, nor the
// delete of a holder.
const mostWrites = 128

// mostLooks bounds the looks of watches in the same way: a crowd that joins must not have its creates stand behind
// them.
const mostLooks = 16

// take waits for a place among the places of a sort.
func take(ctx context.Context, places chan<- struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: so many others are under way", errUnsent)
	}
}

// do makes one attempt at a request. A KV of the client's own kind, of package namespace for example, repeats as it
// likes.
//
// A request that was not asked for its credentials was not sent, and is certainly not done. Most requests that are
// given up during an outage are of this kind. That is known only once the credentials of another were asked for, since
// an interceptor of the client's may drop the options of a call.
func (s *session) do(ctx context.Context, op clientv3.Op) (resp clientv3.OpResponse, err error) {
	if err := s.ended(); err != nil {
		return resp, err
	}
	resp, err = s.attempt(ctx, op)
	return resp, s.expired(err)
}

// expired ends the session if the server does not know its lease: what it says of one request is true of all.
func (s *session) expired(err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.end(errExpired)
	}
	return err
}

// attempt is do for a request that names no lease, or another's, and for a session that may have ended.
func (s *session) attempt(ctx context.Context, op clientv3.Op) (resp clientv3.OpResponse, err error) {
	least := s.past.least()
	err = s.send(ctx, func(ctx context.Context, r *request) (err error) {
		kv := s.client.KV
		if !s.wrapped {
			kv = clientv3.NewKVFromKVClient(pb.NewKVClient(r), s.client)
		}
		resp, err = kv.Do(ctx, op)
		return err
	})
	if err == nil {
		s.past.answered(headerOf(resp), least)
	}
	return resp, err
}

// headerOf returns the header of an answer.
func headerOf(resp clientv3.OpResponse) *pb.ResponseHeader {
	switch {
	case resp.Get() != nil:
		return resp.Get().Header
	case resp.Txn() != nil:
		return resp.Txn().Header
	case resp.Put() != nil:
		return resp.Put().Header
	default:
		return (*pb.DeleteRangeResponse)(resp.Del()).GetHeader()
	}
}

// send makes one attempt, and notes which member owes its answer.
func (s *session) send(ctx context.Context, ask func(ctx context.Context, r *request) error) error {
	ctx = outgoing(ctx)
	to, err := s.deal(func(r *request) error { return ask(ctx, r) })
	switch err = s.allowed(err); {
	case err == nil && to != nil:
		s.counts.Store(true)
		s.answered(to)
	case to != nil && (errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, rpctypes.ErrNoLeader)):
		s.owe(address(to))
	case err != nil && to == nil && s.counts.Load() && s.Outcome(err) == driver.Unknown:
		err = fmt.Errorf("%w: %w", errUnsent, err)
	}
	return err
}

// twice makes an attempt in half of the time that ctx has, and one in the rest of it if that was neither answered nor
// refused: a member that has not answered is not asked again where there is another.
func (s *session) twice(ctx context.Context, ask func(ctx context.Context, r *request) error) error {
	first, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		first, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
	}
	defer cancel()
	err := s.send(first, ask)
	if err != nil && s.Outcome(err) != driver.Refused {
		err = s.send(ctx, ask)
	}
	return err
}

// get makes a linearizable read: it waits for a quorum, and sees every write that was answered before.
func (s *session) get(ctx context.Context, key string, options ...clientv3.OpOption) (*pb.RangeResponse, error) {
	resp, err := s.do(ctx, clientv3.OpGet(key, options...))
	return (*pb.RangeResponse)(resp.Get()), err
}

// commit makes one attempt at a transaction. If a comparison is false nothing is carried out, and the error is failed.
func (s *session) commit(
	ctx context.Context, compare []clientv3.Cmp, failed error, then ...clientv3.Op,
) (*pb.TxnResponse, error) {
	return settle(failed, func(look bool) (*pb.TxnResponse, error) {
		if look {
			then = nil
		}
		resp, err := s.do(ctx, clientv3.OpTxn(compare, then, nil))
		return (*pb.TxnResponse)(resp.Txn()), err
	})
}

// settle asks for a transaction. The error is failed if a comparison was false. A look is the same without what it
// carries out.
func settle(failed error, ask func(look bool) (*pb.TxnResponse, error)) (*pb.TxnResponse, error) {
	resp, err := ask(false)
	if errors.Is(err, rpctypes.ErrNoSpace) {
		// The transaction that exceeds the quota is carried out, and answered so all the same. The transactions after it are
		// not. As either is over, a look tells: what was carried out has made the comparisons false.
		switch seen, look := ask(true); {
		case look == nil && seen.Succeeded:
		case look == nil:
			err = failed
		default:
			err = fmt.Errorf("no space, and not known whether it was carried out: %v", look) //nolint:errorlint // nor is its outcome that of the look
		}
	}
	if err == nil && !resp.Succeeded {
		err = failed
	}
	return resp, err
}

// created is true while the entry's key is still the key that was made at its revision.
func created(e driver.Entry) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.ID), "=", e.Revision)
}

// first returns the only key of a read of one, and nil if there is none. The getters of nil return zeros.
func first(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}
