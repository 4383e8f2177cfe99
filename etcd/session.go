package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/recipe"
)

const (
	// openFor bounds one attempt to open a session.
	openFor = 5 * time.Second
	// After a lost session the next is opened after a random part of a time that doubles from reopenFirst to
	// reopenMost.
	reopenFirst = 50 * time.Millisecond
	reopenMost  = 2 * time.Second
)

// A session is an etcd lease and what is known of it.
type session struct {
	*recipe.Session
	id clientv3.LeaseID
}

// sessions hands the present session to those who need one.
type sessions struct {
	mu      sync.Mutex
	current *session      // nil while there is none
	changed chan struct{} // closed when current changes, and replaced
}

func (s *sessions) set(current *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = current
	close(s.changed)
	s.changed = make(chan struct{})
}

// get waits for a session that is alive.
func (s *sessions) get(ctx context.Context) (*session, error) {
	for {
		s.mu.Lock()
		current, changed := s.current, s.changed
		s.mu.Unlock()
		if current != nil && current.Err() == nil {
			return current, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errors.New("no session with etcd")
		}
	}
}

// openSession asks the server for a lease. The session's time counts from before the request was sent: the server
// cannot have begun to count earlier. If the answer is lost, a lease without keys runs out by itself.
func (s *Store) openSession(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, openFor)
	defer cancel()
	sent := time.Now()
	resp, err := s.client.Grant(ctx, int64((s.options.TTL+time.Second-1)/time.Second))
	if err != nil {
		return nil, err
	}
	ttl := time.Duration(resp.TTL) * time.Second
	return &session{recipe.NewSession(ttl, deadline(sent, ttl)), resp.ID}, nil
}

// deadline is until when a lease is certainly kept after a renewal that was sent then.
func deadline(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(ttl - recipe.Margin(ttl))
}

// keepSessions keeps the Store in a session until it is closed. It runs in one goroutine, which Close joins.
func (s *Store) keepSessions(current *session) {
	log := s.options.Logger
	for {
		s.sessions.set(current)
		s.announcer.Announce(recipe.Connected)
		log.Info("session open", "lease", current.id, "ttl", current.TTL())
		s.keepAlive(current)
		s.sessions.set(nil)
		if s.life.Err() != nil {
			current.End(context.Cause(s.life))
			s.unrevoked = s.revoke(current)
			return
		}
		s.announcer.Announce(recipe.Lost)
		log.Warn("session lost", "lease", current.id, "cause", current.Err())
		// The old lease is left to run out. To revoke it would take the time away from the holders that they have to
		// stop in.
		if current = s.reopen(); current == nil {
			return
		}
	}
}

// revoke ends the session at the server, after it has ended here.
func (s *Store) revoke(current *session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.life), current.TTL()/3)
	defer cancel()
	_, err := s.client.Revoke(ctx, current.id)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

// reopen tries until there is a session, or returns nil when the Store is closed.
func (s *Store) reopen() *session {
	for delay := reopenFirst; ; delay = min(2*delay, reopenMost) {
		if s.pause(s.life, rand.N(delay)) != nil {
			return nil
		}
		next, err := s.openSession(s.life)
		if err == nil {
			return next
		}
		s.options.Logger.Warn("no new session yet", "error", err)
	}
}

// keepAlive renews the session until it is over. One stream serves for as long as it works; a renewal that is not
// acknowledged within a third of the TTL ends the stream, and the next may come to another member.
func (s *Store) keepAlive(current *session) {
	ctx, cancel := current.Bind(s.life)
	defer cancel()
	for ctx.Err() == nil {
		err := s.renew(ctx, current)
		if ctx.Err() != nil {
			return
		}
		if s.announcer.Announce(recipe.Suspended) {
			s.options.Logger.Warn("session suspended", "lease", current.id, "error", err)
		}
		if s.pause(ctx, min(current.TTL()/20, time.Second)) != nil {
			return
		}
	}
}

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
		if s.announcer.Announce(recipe.Connected) {
			s.options.Logger.Info("session connected again", "lease", current.id)
		}
		if err := s.pause(ctx, current.TTL()/3); err != nil {
			return err
		}
		overdue.Reset(current.TTL() / 3)
	}
}

var errOverdue = errors.New("a renewal was not acknowledged within a third of the TTL")

// pause waits for d, or until ctx ends.
func (s *Store) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
