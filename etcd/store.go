package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/recipe"
)

// A Store is a recipe.Store on etcd: what the constructors of package farsync are given. It has one etcd lease, one
// keepalive stream and one watch stream, however many locks are made on it. When its lease is lost, everything held
// under it is lost, and the Store goes on with a new one by itself.
type Store struct {
	client  *clientv3.Client
	leases  pb.LeaseClient
	options Options
	keeper  recipe.Keeper[*session]

	// suspects are keys of ours that a request of unknown outcome may make once more after they were deleted.
	suspects sync.Map
}

const (
	// A call that may be made again is, after a random part of a time that doubles from retryFirst to retryMost.
	retryFirst = 20 * time.Millisecond
	retryMost  = time.Second
)

var _ interface {
	recipe.Store
	recipe.Named
	recipe.Asker
} = (*Store)(nil)

// Open opens a session with the etcd that client is connected to, and returns the Store in it. The client remains the
// caller's: close the Store first, then the client. ctx is for Open alone.
//
// It fails if etcd cannot be reached within ctx, or 5 seconds, or refuses; and if an option is not valid.
func Open(ctx context.Context, client *clientv3.Client, options *Options) (*Store, error) {
	s, err := open(ctx, client, options)
	if err != nil {
		return nil, fmt.Errorf("farsync: open etcd: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, client *clientv3.Client, options *Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("nil client")
	}
	resolved, err := options.resolve()
	if err != nil {
		return nil, err
	}
	if client.Ctx().Err() != nil {
		return nil, errClientClosed
	}
	if client.ActiveConnection() == nil {
		return nil, errors.New("a client without a connection")
	}
	s := &Store{client: client, leases: clientv3.RetryLeaseClient(client), options: resolved}
	s.keeper.Open, s.keeper.Keep, s.keeper.Finish = s.openSession, s.keepAlive, s.revoke
	s.keeper.Log, s.keeper.OnState = resolved.Logger, resolved.OnState
	if err := s.keeper.Start(ctx); err != nil {
		return nil, err
	}
	s.warnOfOldServer(ctx)
	// A client that is closed first takes the Store with it: nothing would ever answer again.
	s.keeper.Behind(func(life context.Context) {
		select {
		case <-client.Ctx().Done():
			s.keeper.End(errClientClosed)
		case <-life.Done():
		}
	})
	return s, nil
}

// warnOfOldServer tells the logger of a server that can let an old leader revoke live leases.
func (s *Store) warnOfOldServer(ctx context.Context) {
	endpoints := s.client.Endpoints()
	if s.options.Logger.Handler() == slog.DiscardHandler || len(endpoints) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, err := s.client.Status(ctx, endpoints[0])
	if err == nil && revokesLive(status.Version) {
		s.options.Logger.Warn("this etcd can let an old leader revoke live leases: upgrade to 3.5.13, 3.4.31 or later",
			"version", status.Version)
	}
}

// revokesLive reports whether servers of that version lack the fix of etcd's issue 15247.
func revokesLive(version string) bool {
	var major, minor, patch int
	if n, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n != 3 || err != nil {
		return false
	}
	switch {
	case major != 3:
		return major < 3
	case minor == 4:
		return patch < 31
	case minor == 5:
		return patch < 13
	default:
		return minor < 4
	}
}

// Name returns the Name option.
func (s *Store) Name() string { return s.options.Name }

// Close ends all leases and all waiting on this Store with ErrClosed, and returns when everything that it started has
// ended. Then it revokes the session, which frees what was held and takes what waited out of the queues. If etcd does
// not confirm that within a third of the TTL, it says so: the session ends by itself, one TTL later.
//
// A second Close does nothing.
func (s *Store) Close() error {
	if err := s.keeper.Close(); err != nil {
		return fmt.Errorf("farsync: close etcd: %w", err)
	}
	return nil
}

// retry makes the call until it is answered, refused or ctx ends, and returns the last error that tells something.
// Each attempt has a deadline of its own, for a connection whose other end went away silently never fails by itself.
// attempts is how many calls have been made: after more than one, an earlier one may have been carried out too.
func (s *Store) retry(ctx context.Context, call func(context.Context) error) (attempts int, err error) {
	for delay := retryFirst; ; delay = min(2*delay, retryMost) {
		// A member that has lost its leader says so at once, and the next attempt goes to another.
		attempt, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.options.TTL/3)
		last := call(attempt)
		cancel()
		attempts++
		if last == nil || refused(last) {
			return attempts, last
		}
		if err == nil || ctx.Err() == nil {
			err = last
		}
		if recipe.Pause(ctx, delay/2+rand.N(delay/2)) != nil {
			return attempts, err
		}
	}
}
