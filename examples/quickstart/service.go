//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/embedtest"
)

// A service is the etcd of the show, and the path of the lock in it, which is new for each run.
type service struct {
	endpoints []string
	path      string
	ensemble  *embedtest.EtcdEnsemble // nil if it is the user's own
	client    *clientv3.Client        // to see what is left
}

// openService starts an etcd with its files in dir, or finds the one at the endpoints.
func openService(ctx context.Context, endpoints []string, dir string) (*service, error) {
	s := &service{endpoints: endpoints, path: "/farsync-quickstart/" + strings.ToLower(rand.Text()[:8])}
	if len(endpoints) == 0 {
		ensemble, err := embedtest.StartEtcd(ctx, dir, 1)
		if err != nil {
			return nil, err
		}
		s.ensemble, s.endpoints = ensemble, ensemble.Endpoints()
	} else if err := reachable(ctx, endpoints); err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: s.endpoints, DialTimeout: 5 * time.Second})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.client = client
	return s, nil
}

// reachable returns nil if somebody listens at one of the endpoints.
func reachable(ctx context.Context, endpoints []string) error {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	var errs []error
	for _, e := range endpoints {
		_, address, hasScheme := strings.Cut(e, "://")
		if !hasScheme {
			address = e
		}
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return connection.Close()
		}
		errs = append(errs, fmt.Errorf("no etcd at %s: %w", e, err))
	}
	return errors.Join(errs...)
}

// left counts the entries in the lock's queue. It waits until there are none, for as long as the time given: what a
// process that died has left stays for a TTL.
func (s *service) left(ctx context.Context, within time.Duration) (int64, error) {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for begun := time.Now(); ; {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		resp, err := s.client.Get(asking, s.path+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		cancel()
		if err != nil {
			return 0, fmt.Errorf("count what is left at %s: %w", s.path, err)
		}
		if resp.Count == 0 || time.Since(begun) > within {
			return resp.Count, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// close removes what a run that was broken off may have left in the user's etcd, or ends the one that was started.
func (s *service) close() error {
	if s.client != nil {
		if s.ensemble == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			// If it fails, the entries go with their sessions, one TTL later.
			_, _ = s.client.Delete(ctx, s.path+"/", clientv3.WithPrefix())
		}
		_ = s.client.Close()
	}
	if s.ensemble != nil {
		return s.ensemble.Close()
	}
	return nil
}
