package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

// A session is an etcd lease.
type session struct {
	*service
	lease clientv3.LeaseID
	turns bool            // its mutexes know turns
	life  context.Context // done when the session or the client is, with the cause
	end   context.CancelCauseFunc

	past  past
	spare *spare
	long  long
	made  atomic.Uint64 // mutexes that know turns
	// Creates, deletes and looks of watches that are under way hold one each.
	joins, leaves, looks chan struct{}

	mu       sync.Mutex
	ttl      time.Duration
	from     time.Time      // Invariant: it never moves back.
	atRest   *keepalive     // between two renewals
	watching *stream        // on which watches are set up
	streams  sync.WaitGroup // their goroutines, and a look at versions

	// owing has the addresses of members that owe an answer: to the last renewal sent there, or to a request that was
	// given up; or that have no leader. The next request is sent to another member. Any answer of theirs takes them out.
	owing map[string]bool
}

var _ driver.Session = (*session)(nil)

func newSession(s *service, lease clientv3.LeaseID, ttl time.Duration, sent time.Time) *session {
	in := &session{
		service: s, lease: lease, ttl: ttl, from: sent, spare: newSpare(), owing: map[string]bool{},
		joins: make(chan struct{}, mostWrites), leaves: make(chan struct{}, mostWrites), looks: make(chan struct{}, mostLooks),
	}
	in.life, in.end = context.WithCancelCause(outgoing(s.client.Ctx()))
	in.watching = newStream(in.life, 0)
	return in
}

// ended is nil while the session is alive, as far as is known here.
func (s *session) ended() error { return context.Cause(s.life) }

// NewID returns a key that was never used, or a key that may be used again.
func (s *session) NewID(queue string, k driver.Kind, units int64) string {
	begin := beginOf(queue, k, units)
	if s.turns && k == driver.Exclusive {
		if key := s.spare.take(begin + turnsOf(s.lease)); key != "" {
			return key
		}
		return begin + turnID(s.lease, s.made.Add(1))
	}
	if key := s.spare.take(begin); key != "" {
		return key
	}
	return begin + newID(k)
}

// Granted returns the TTL of the last answer, and when its request was sent.
func (s *session) Granted() (ttl time.Duration, from time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ttl, s.from
}

// Over is closed when the lease is known to be over, and when the client is closed: nothing would ever answer again.
func (s *session) Over() <-chan struct{} { return s.life.Done() }

// Name is the lease, as etcdctl shows it.
func (s *session) Name() string { return strconv.FormatInt(int64(s.lease), 16) }

// History names the cluster, its term, and how often answers have shown an earlier state.
func (s *session) History() string { return s.past.name() }

// Outlast has nothing to do: the lease stays until it runs out, whoever granted it.
func (*session) Outlast(context.Context) error { return nil }

// Silence is over: the service grants from when it serves.
func (*session) Silence() (until time.Time, why string) { return until, "" }

// Reset gives up a watch stream on which nothing has been heard since a watch was begun, unless that was a moment ago:
// then it is another request that is late. A stream on which other watches were set up meanwhile is slow, and is kept.
//
// It also has gRPC connect now where it is not connected. By itself it waits longer after each attempt that fails, soon
// longer than what is left of the session when the server is back. Connections that stand are the user's.
func (s *session) Reset() {
	s.client.ActiveConnection().ResetConnectBackoff()
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.watching
	on.mu.Lock()
	defer on.mu.Unlock()
	if on.pending > 0 && !on.silent.IsZero() && time.Since(on.silent) >= min(s.ttl/24, time.Second/2) {
		s.abandon()
	}
}

// Close ends everything here, and then revokes the lease, which deletes its keys. Waiters in their queues are then
// given their turns, so it is asked twice where the first is not answered: what is not known to be gone has no next. A
// lease that is not found was revoked before, or has run out.
func (s *session) Close(ctx context.Context) error {
	s.Drop()
	if err := s.client.Ctx().Err(); err != nil {
		return fmt.Errorf("the etcd client was closed: %w", err) // it would ask itself until ctx ends
	}
	err := s.twice(ctx, func(ctx context.Context, r *request) error {
		_, err := pb.NewLeaseClient(r).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(s.lease)})
		if err = rpctypes.Error(err); errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return nil
		}
		return err
	})
	if err == nil {
		s.handOver(ctx)
	}
	return err
}

// Drop ends all streams and calls of the session, and waits for the goroutines of its watch streams, and for the
// goroutine that asks the members for their versions. It has no others: a renewal runs in the goroutine of its caller.
func (s *session) Drop() {
	s.mu.Lock() // with which they are started
	s.end(errEnded)
	s.mu.Unlock()
	s.streams.Wait()
}

// Owned asks which keys are attached to the lease. The leader answers, when it has carried out all that was committed,
// so it knows every key that any member has confirmed. The entries have no revision: the answer has none.
func (s *session) Owned(ctx context.Context, queues []string) ([]driver.Entry, error) {
	keys, err := s.attached(ctx)
	if err != nil {
		return nil, err
	}
	var list []driver.Entry
	for _, key := range keys {
		queue := queueOf(string(key))
		if queues == nil && !beside(queue) || slices.Contains(queues, queue) {
			e, _ := parseEntry(queue, &mvccpb.KeyValue{Key: key})
			list = append(list, e)
		}
	}
	return list, nil
}

// attached returns the keys that are attached to the lease.
func (s *session) attached(ctx context.Context) ([][]byte, error) {
	if err := s.ended(); err != nil {
		return nil, err
	}
	resp, err := s.client.TimeToLive(outgoing(ctx), s.lease, clientv3.WithAttachedKeys())
	if err != nil {
		return nil, err
	}
	if resp.TTL < 0 {
		s.end(errExpired)
		return nil, errExpired
	}
	return resp.Keys, nil
}
