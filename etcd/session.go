package etcd

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/recipe"
)

// openFor bounds one attempt to open a session.
const openFor = 5 * time.Second

// A session is an etcd lease and what is known of it.
type session struct {
	*recipe.Session
	id clientv3.LeaseID
}

// openSession asks the server for a lease. The session's time counts from before the request was sent: the server
// cannot have begun to count earlier. If the answer is lost, a lease without keys runs out by itself.
func (s *Store) openSession(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, openFor)
	defer cancel()
	sent := time.Now()
	resp, err := s.client.Grant(ctx, int64(s.options.TTL/time.Second))
	if err != nil {
		s.reconnect()
		return nil, err
	}
	ttl := time.Duration(resp.TTL) * time.Second
	return &session{recipe.NewSession(ttl, deadline(sent, ttl)), resp.ID}, nil
}

// deadline is until when a lease is certainly kept after a renewal that was sent then.
func deadline(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(ttl - recipe.Margin(ttl))
}

// revoke ends the session at the server, after it has ended here. It does not try for long on a client that is closed.
func (s *Store) revoke(current *session) error {
	ctx, cancel := context.WithTimeout(s.client.Ctx(), current.TTL()/3)
	defer cancel()
	_, err := s.client.Revoke(ctx, current.id)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

// keepAlive renews the session until it is over. One stream serves for as long as it works; a renewal that is not
// acknowledged within a third of the TTL ends the stream, and the next may come to another member.
func (s *Store) keepAlive(ctx context.Context, current *session) {
	ctx, cancel := current.Bind(ctx)
	defer cancel()
	for {
		err := s.renew(ctx, current)
		// The session first: ctx ends with it, but a moment later.
		if current.Err() != nil || ctx.Err() != nil {
			return
		}
		if s.keeper.Announce(recipe.Suspended) {
			s.options.Logger.Warn("session suspended", "lease", current.id, "error", err)
		}
		s.reconnect()
		if recipe.Pause(ctx, min(current.TTL()/20, time.Second)) != nil {
			return
		}
	}
}

// reconnect has gRPC connect now where it is not connected. By itself it waits longer after each attempt that fails,
// soon longer than what is left of the session when the server is back.
func (s *Store) reconnect() { s.client.ActiveConnection().ResetConnectBackoff() }

// renew renews the session over one stream until something fails.
func (s *Store) renew(ctx context.Context, current *session) error {
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	overdue := time.AfterFunc(current.TTL()/3, func() { cancel(errOverdue) })
	defer overdue.Stop()
	stream, err := s.leases.LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	for {
		// One request at a time, so that an answer is never taken for that of a later request.
		sent := time.Now()
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(current.id)}); err != nil {
			return err
		}
		resp, err := stream.Recv()
		if err != nil {
			return err
		}
		if !overdue.Stop() {
			return errOverdue
		}
		if resp.TTL <= 0 {
			current.End(errExpired)
			return errExpired
		}
		if !current.Extend(deadline(sent, time.Duration(resp.TTL)*time.Second)) {
			return current.Err()
		}
		if s.keeper.Announce(recipe.Connected) {
			s.options.Logger.Info("session connected again", "lease", current.id)
		}
		if err := recipe.Pause(ctx, current.TTL()/3); err != nil {
			return err
		}
		overdue.Reset(current.TTL() / 3)
	}
}

var errOverdue = errors.New("a renewal was not acknowledged within a third of the TTL")
