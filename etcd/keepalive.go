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

// A keepalive is a stream of renewals, and the goroutine that serves it, which the end of the session joins. One request
// at a time is under way on it, so that an answer is never taken for that of a later request.
type keepalive struct {
	life   context.Context
	leave  context.CancelFunc
	ask    chan struct{} // has a value when a renewal is to be sent
	answer chan error    // has a value when it was answered, if that was awaited

	// Guarded by the session's mu.
	awaited bool
	member  string // its address
}

// Renew sends one request over the keepalive stream, which stays open for the next. What it proves, it proves for every
// entry of the lease: only a leader that had a quorum of late answers for its leases.
//
// If ctx ends first, the stream is put aside, and the next Renew opens one to another member, if there is one. An answer
// that still comes counts, from when its request was sent: a service that is slow, or slow to let a user in, loses no
// session that it keeps.
func (s *session) Renew(ctx context.Context, _ []driver.Entry) error {
	k, err := s.keepalive()
	if err != nil {
		return err
	}
	k.ask <- struct{}{}
	select {
	case err = <-k.answer:
	case <-ctx.Done():
		if member, awaited := s.putAside(k); awaited {
			err = fmt.Errorf("no answer from %q: %w", member, ctx.Err())
		} else {
			err = <-k.answer
		}
	}
	if err != nil {
		s.Reset()
	}
	return err
}

// keepalive returns the stream at rest, or a new one.
func (s *session) keepalive() (*keepalive, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ended(); err != nil {
		return nil, err
	}
	k := s.atRest
	s.atRest = nil
	if k == nil {
		k = &keepalive{ask: make(chan struct{}, 1), answer: make(chan error, 1)}
		k.life, k.leave = context.WithCancel(s.life)
		s.tasks.Go(func() { s.serve(k) })
	}
	k.awaited = true
	return k, nil
}

// mostAside is how many streams are kept that have not answered: more than a session has time for attempts.
const mostAside = 8

// putAside gives up waiting for k. It reports whether no answer has come until now.
func (s *session) putAside(k *keepalive) (member string, awaited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !k.awaited {
		return "", false
	}
	k.awaited = false
	if s.silent = k.member; len(s.aside) < mostAside {
		s.aside = append(s.aside, k)
	} else {
		k.leave()
	}
	return k.member, true
}

// serve sends a renewal whenever k is asked for one.
func (s *session) serve(k *keepalive) {
	defer k.leave()
	stream, err := s.open(k)
	for {
		select {
		case <-k.ask:
		case <-k.life.Done():
			err = k.life.Err()
		}
		var ttl int64
		sent := time.Now()
		if err == nil {
			_ = stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(s.lease)}) // if it fails, Recv says why
			var resp *pb.LeaseKeepAliveResponse
			resp, err = stream.Recv()
			ttl = resp.GetTTL()
		}
		if s.answered(k, sent, time.Duration(ttl)*time.Second, rpctypes.Error(err)) {
			return
		}
	}
}

// open opens k's stream. The client deals the members in turn to all that it sends, so a new stream may come to the member
// that has just been silent. Then the next one comes to another, if one is connected.
func (s *session) open(k *keepalive) (stream pb.Lease_LeaseKeepAliveClient, err error) {
	for range 2 {
		stream, err = s.leases.LeaseKeepAlive(k.life)
		if err != nil {
			return nil, err
		}
		to, ok := peer.FromContext(stream.Context())
		s.mu.Lock()
		again := ok && to.Addr.String() == s.silent
		if ok {
			k.member = to.Addr.String()
		}
		s.mu.Unlock()
		if !again {
			break
		}
		_ = stream.CloseSend()
	}
	return stream, nil
}

// answered notes what a renewal on k has come to, and reports whether k is over.
func (s *session) answered(k *keepalive, sent time.Time, ttl time.Duration, err error) (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case k.life.Err() != nil: // it was left, or the session has ended
		err = cmp.Or(s.ended(), err, k.life.Err())
	case err != nil:
		s.silent = k.member
	case ttl <= 0:
		err = errExpired
		s.end(err)
	case sent.After(s.from):
		s.ttl, s.from, s.silent = ttl, sent, ""
	}
	if k.awaited {
		k.awaited = false
		k.answer <- err
		if err == nil {
			s.probe()
		}
	}
	if err == nil { // the others are not needed any more
		for _, other := range s.aside {
			if other != k {
				other.leave()
			}
		}
		s.aside = nil
	}
	if err != nil || s.atRest != nil && s.atRest != k {
		return true
	}
	s.atRest = k
	return false
}
