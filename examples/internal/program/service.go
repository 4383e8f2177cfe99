//go:build unix

package program

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/sqlite"
	"github.com/farsync/farsync/zk"
)

// The stores.
const (
	Etcd      = "etcd"
	ZooKeeper = "zk"
	SQLite    = "sqlite"
)

// A Service says where the store of a show is. Workers are told as part of their part.
type Service struct {
	Kind      string   // Etcd, ZooKeeper or SQLite
	Endpoints []string // of the service, or the one file; none: start one
	Path      string   // of the lock or the election, new for each run
	TTL       time.Duration
}

// Flags adds the flags that say which service to use.
func (s *Service) Flags(flags *flag.FlagSet) {
	flags.StringVar(&s.Kind, "store", Etcd, "")
	flags.DurationVar(&s.TTL, "ttl", 2*time.Second, "")
	flags.Func("endpoints", "", func(list string) error {
		s.Endpoints = strings.Split(list, ",")
		return nil
	})
}

// Check says what is wrong with the flags.
func (s *Service) Check() error {
	switch {
	case s.Kind != Etcd && s.Kind != ZooKeeper && s.Kind != SQLite:
		return fmt.Errorf("-store %q: %s, %s or %s", s.Kind, Etcd, ZooKeeper, SQLite)
	case s.Kind == SQLite && len(s.Endpoints) > 1:
		return errors.New("-endpoints: SQLite has one file")
	case s.TTL < time.Second || s.TTL%time.Second != 0:
		return fmt.Errorf("-ttl %v: whole seconds, at least 1s", s.TTL)
	}
	for _, e := range s.Endpoints {
		if s.Kind != SQLite && !strings.Contains(e, ":") {
			return fmt.Errorf("-endpoints: %q is not host:port", e)
		}
	}
	return nil
}

// product is the name of the service, for people.
func (s *Service) product() string {
	switch s.Kind {
	case ZooKeeper:
		return "ZooKeeper"
	case SQLite:
		return "SQLite"
	default:
		return "etcd"
	}
}

// A Running service is there for the show.
type Running struct {
	Service
	// Store is the show's own, to look on.
	Store *farsync.Store
	leave func()       // ends Store
	end   func() error // of the service, if it was started
}

// Run starts the service with its files in dir, or finds the service that the user has named, and says so on the
// screen.
func (s *Service) Run(ctx context.Context, name, dir string, screen *Screen) (*Running, error) {
	r := &Running{Service: *s, end: func() error { return nil }}
	r.Path = "/farsync-" + name + "/" + strings.ToLower(rand.Text()[:8])
	whose := "yours"
	if len(r.Endpoints) == 0 {
		whose = "started for this run"
		if err := r.start(ctx, filepath.Join(dir, s.Kind)); err != nil {
			return nil, err
		}
	} else if err := r.reachable(ctx); err != nil {
		return nil, err
	}
	var err error
	if r.Store, r.leave, err = r.Open(ctx, name); err != nil {
		return nil, errors.Join(err, r.end())
	}
	screen.Fact(s.Kind, strings.Join(r.Endpoints, ",")+", "+whose)
	return r, nil
}

func (r *Running) start(ctx context.Context, dir string) error {
	switch r.Kind {
	case SQLite: // there is nothing to start: the first to open the file makes it
		r.Endpoints = []string{dir + ".db"}
		return nil
	case ZooKeeper:
		servers, err := embedtest.StartZooKeeper(ctx, dir, 1)
		if err != nil {
			return err
		}
		r.Endpoints, r.end = servers.Endpoints(), servers.Close
		return nil
	}
	servers, err := embedtest.StartEtcd(ctx, dir, 1)
	if err != nil {
		return err
	}
	r.Endpoints, r.end = servers.Endpoints(), servers.Close
	return nil
}

// reachable returns nil if a server listens at one of the endpoints.
func (r *Running) reachable(ctx context.Context) error {
	if r.Kind == SQLite {
		return nil // opening the file tells
	}
	dialer := net.Dialer{Timeout: 2 * time.Second}
	var errs []error
	for _, e := range r.Endpoints {
		_, address, hasScheme := strings.Cut(e, "://")
		if !hasScheme {
			address = e
		}
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return connection.Close()
		}
		errs = append(errs, fmt.Errorf("no %s at %s: %w", r.product(), e, err))
	}
	return errors.Join(errs...)
}

// Left counts the entries in the queue. It waits until there are none, for as long as twice the TTL: what a process that
// died has left stays for a TTL.
func (r *Running) Left(ctx context.Context) (int, error) {
	for begun := time.Now(); ; {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		list, err := r.Store.Participants(asking, r.Path) // of whatever kind
		cancel()
		if err != nil {
			return 0, fmt.Errorf("count what is left at %s: %w", r.Path, err)
		}
		if len(list) == 0 || time.Since(begun) > 2*r.TTL {
			return len(list), nil
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// Close ends the service if it was started.
func (r *Running) Close() error {
	r.leave()
	return r.end()
}

// Open opens a Store on the service, with a client of its own. The caller calls end when it needs them no more.
func (s *Service) Open(ctx context.Context, holder string) (store *farsync.Store, end func(), err error) {
	options := farsync.Options{TTL: s.TTL, Holder: holder}
	switch s.Kind {
	case SQLite:
		// The shows are about what happens on every store: a process that is killed keeps its lock for the TTL.
		if store, err = sqlite.Open(ctx, s.Endpoints[0], &sqlite.Options{Options: options, Linger: true}); err != nil {
			return nil, nil, err
		}
		return store, func() { _ = store.Close() }, nil
	case ZooKeeper:
		if store, err = zk.Open(ctx, s.Endpoints, &zk.Options{Options: options}); err != nil {
			return nil, nil, err
		}
		return store, func() { _ = store.Close() }, nil
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            s.Endpoints,
		DialKeepAliveTime:    5 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               zap.NewNop(), // what matters is told by the Store
	})
	if err != nil {
		return nil, nil, err
	}
	if store, err = etcd.Open(ctx, client, &etcd.Options{Options: options}); err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return store, func() {
		_ = store.Close()
		_ = client.Close()
	}, nil
}
