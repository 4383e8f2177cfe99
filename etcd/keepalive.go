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

// A keepalive is a stream of renewals. One request at a time is under way on it, so that an answer is never taken for that
// of a later request.
type keepalive struct {
	life   context.Context
	leave  context.CancelFunc
	stream pb.Lease_LeaseKeepAliveClient // nil until it is opened
	member string                        // its address
}

// Renew sends one request over the keepalive stream, which stays open for the next if it is answered. What that proves, it
// proves for every entry of the lease: only a leader that had a quorum of late answers for its leases.
func (s *session) Renew(ctx context.Context, _ []driver.Entry) error {
	if err := s.ended(); err != nil {
		return err
	}
	k, rested := s.take()
	// The stream outlives the call, so it has a context of its own, which ends with that of the caller while the call lasts.
	unbind := context.AfterFunc(ctx, k.leave)
	var err error
	if !rested {
		err = s.open(k)
	}
	sent := time.Now()
	var resp *pb.LeaseKeepAliveResponse
	if err == nil {
		s.asks(k)
		_ = k.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(s.lease)}) // if it fails, Recv says why
		resp, err = k.stream.Recv()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// An answer that comes together with the end of ctx counts, and the stream is lost with ctx. Of several calls at the same
	// time the first to be answered leaves its stream.
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
		s.asked = ""
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

// take returns the stream at rest, or one that is still to be opened.
func (s *session) take() (k *keepalive, rested bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.atRest == nil {
		k = &keepalive{}
		k.life, k.leave = context.WithCancel(s.life)
		return k, false
	}
	k, s.atRest = s.atRest, nil
	return k, true
}

// open opens k's stream. The client deals the members in turn to all that it sends, so a new stream may come to the member
// that has not answered the last renewal. Then the next one comes to another, if one is connected.
func (s *session) open(k *keepalive) (err error) {
	for range 2 {
		if k.stream != nil {
			_ = k.stream.CloseSend()
		}
		if k.stream, err = s.leases.LeaseKeepAlive(k.life); err != nil {
			return err
		}
		if to, ok := peer.FromContext(k.stream.Context()); ok {
			k.member = to.Addr.String()
		}
		if !s.asks(k) {
			break
		}
	}
	return nil
}

// asks notes the member that k asks, and reports whether it has not answered the last renewal.
func (s *session) asks(k *keepalive) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again, s.asked = k.member == s.asked, k.member
	return again
}
