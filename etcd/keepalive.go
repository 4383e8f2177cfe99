package etcd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/peer"

	"github.com/farsync/farsync/driver"
)

// A keepalive is a stream of renewals. One request at a time is under way on it, so that an answer is never taken for
// the answer to a later request.
type keepalive struct {
	life   context.Context
	leave  context.CancelFunc
	stream pb.Lease_LeaseKeepAliveClient // nil until it is opened
	member string                        // its address
}

// Renew sends one request over the keepalive stream, which stays open for the next if it is answered. The answer proves
// the same for every entry of the lease: only a leader that had a quorum of late answers for its leases.
func (s *session) Renew(ctx context.Context, _ []driver.Entry) error {
	if err := cmp.Or(s.ended(), ctx.Err()); err != nil {
		return err
	}
	s.mu.Lock()
	k := s.atRest
	s.atRest = nil
	s.mu.Unlock()
	rested := k != nil
	if !rested {
		k = &keepalive{}
		k.life, k.leave = context.WithCancel(s.life)
	}
	// The stream outlives the call, so its context is its own. It ends with the caller's while the call lasts.
	unbind := context.AfterFunc(ctx, k.leave)
	least := s.past.leastRenewed()
	resp, sent, err := s.ask(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	// An answer that comes together with the end of ctx counts, and the stream is lost with ctx. Of several calls at the
	// same time the first to be answered leaves its stream.
	usable := unbind() && s.atRest == nil
	switch over := s.ended(); {
	case over != nil:
		err = over
	case err != nil:
		err = fmt.Errorf("no renewal by %q: %w", k.member, cmp.Or(ctx.Err(), rpctypes.Error(err)))
	case resp.TTL <= 0: // so the server answers for a lease that it does not know
		err = errExpired
		s.end(err)
	default:
		delete(s.owing, k.member)
		if s.past.renewed(resp.Header, least) || !rested {
			s.streams.Go(func() { s.versions.look(s.life, s.client, s.client.Endpoints()...) }) // joined by Drop
		}
		// Not every answer is the latest: renewals may overtake one another on their streams.
		if sent.After(s.from) {
			s.ttl, s.from = time.Duration(resp.TTL)*time.Second, sent
		}
		if rested { // else it may be one of many answers that a server gives at once when it is back
			s.probe()
		}
	}
	if err == nil && usable {
		s.atRest = k
	} else {
		k.leave()
	}
	return err
}

// ask sends one request over k's stream, which it opens first if need be.
func (s *session) ask(k *keepalive) (resp *pb.LeaseKeepAliveResponse, sent time.Time, err error) {
	if k.stream == nil {
		var to *peer.Peer
		to, err = s.deal(func(r *request) (err error) {
			k.stream, err = pb.NewLeaseClient(r).LeaseKeepAlive(k.life)
			return err
		})
		k.member = address(to)
	}
	if err != nil {
		return nil, sent, err
	}
	s.owe(k.member)
	sent = time.Now()
	_ = k.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(s.lease)}) // if it fails, Recv says why
	resp, err = k.stream.Recv()
	return resp, sent, err
}
