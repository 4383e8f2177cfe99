//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	zkclient "github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/torture/history"
)

// openStock returns the locks that come with the client library of etcd or ZooKeeper, or that are in use on Redis. They
// are used as their documentation shows, and believed to be held for as long as they let a holder believe it.
func openStock(ctx context.Context, p part) (locker, error) {
	switch p.Store {
	case onEtcd:
		c, err := newEtcd(p.Endpoints)
		if err != nil {
			return nil, err
		}
		return &etcdLocker{part: p, client: c, sessions: map[*rand.Rand]*concurrency.Session{}}, nil
	case onZooKeeper:
		conn, _, err := zkclient.Connect(p.Endpoints, p.TTL, zkclient.WithLogInfo(false), zkclient.WithLogger(silent{}),
			zkclient.WithEventCallback(func(zkclient.Event) {}))
		if err != nil {
			return nil, err
		}
		return zkLocker{p, conn}, ctx.Err()
	case onRedis:
		return newRedsync(p), ctx.Err()
	default:
		return nil, fmt.Errorf("no lock comes with the client of %s", p.Store)
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// etcdLocker makes locks of concurrency.Mutex, and elections of concurrency.Election. Each goroutine has a session of
// its own, for two locks of one session do not exclude each other.
type etcdLocker struct {
	part
	client *clientv3.Client

	mu       sync.Mutex
	sessions map[*rand.Rand]*concurrency.Session // by the goroutine's random numbers
}

func (e *etcdLocker) lock(random *rand.Rand, primitive string) lock {
	queue := e.queueOf(random, primitive)
	if primitive == election {
		return e.election(random, queue)
	}
	take := func(how func(*concurrency.Mutex, context.Context) error) func(context.Context) (held, error) {
		return func(ctx context.Context) (held, error) {
			session, err := e.session(ctx, random)
			if err != nil {
				return nil, err
			}
			mu := concurrency.NewMutex(session, queue)
			if err := how(mu, ctx); err != nil {
				return nil, err
			}
			return etcdHeld{session, mu}, nil
		}
	}
	return lock{
		kind: history.Exclusive, queue: queue, units: 1,
		take: take((*concurrency.Mutex).Lock), try: take((*concurrency.Mutex).TryLock),
	}
}

// election returns one of concurrency.Election, whose leader is whom it shows, and leads for as long as its session
// lasts.
func (e *etcdLocker) election(random *rand.Rand, queue string) lock {
	return lock{
		kind: history.Lead, queue: queue, units: 1,
		take: func(ctx context.Context) (held, error) {
			session, err := e.session(ctx, random)
			if err != nil {
				return nil, err
			}
			election := concurrency.NewElection(session, queue)
			if err := election.Campaign(ctx, e.Process); err != nil {
				return nil, err
			}
			return etcdLeads{etcdHeld{session: session}, election}, nil
		},
		observe: func(ctx context.Context) (int64, error) {
			session, err := e.session(ctx, random)
			if err != nil {
				return 0, err
			}
			leader, err := concurrency.NewElection(session, queue).Leader(ctx)
			switch {
			case errors.Is(err, concurrency.ErrElectionNoLeader):
				return 0, nil
			case err != nil:
				return 0, err
			}
			return leader.Kvs[0].CreateRevision, nil
		},
	}
}

// session returns the goroutine's session, or a new one if that is over.
func (e *etcdLocker) session(ctx context.Context, random *rand.Rand) (*concurrency.Session, error) {
	e.mu.Lock()
	s := e.sessions[random]
	e.mu.Unlock()
	if s != nil {
		select {
		case <-s.Done():
		default:
			return s, nil
		}
	}
	grant, cancel := context.WithTimeout(ctx, e.TTL)
	defer cancel()
	lease, err := e.client.Grant(grant, int64(e.TTL/time.Second))
	if err == nil {
		s, err = concurrency.NewSession(e.client, concurrency.WithLease(lease.ID))
	}
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.sessions[random] = s
	e.mu.Unlock()
	return s, nil
}

func (e *etcdLocker) Close() error {
	for _, s := range e.sessions {
		_ = s.Close()
	}
	return e.client.Close()
}

type etcdHeld struct {
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func (h etcdHeld) Token() farsync.Token  { return farsync.Token(h.mutex.Header().Revision) }
func (h etcdHeld) Done() <-chan struct{} { return h.session.Done() }

func (h etcdHeld) Err() error {
	select {
	case <-h.session.Done():
		return farsync.ErrLost
	default:
		return nil
	}
}

func (h etcdHeld) Release() error {
	if err := h.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return h.mutex.Unlock(ctx)
}

type etcdLeads struct {
	etcdHeld
	election *concurrency.Election
}

func (l etcdLeads) Token() farsync.Token { return farsync.Token(l.election.Rev()) }

func (l etcdLeads) Release() error {
	if err := l.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return l.election.Resign(ctx)
}

// zkLocker makes locks of zk.Lock.
type zkLocker struct {
	part
	conn *zkclient.Conn
}

func (z zkLocker) lock(random *rand.Rand, _ string) lock {
	queue := z.queueOf(random, mutex)
	return lock{kind: history.Exclusive, queue: queue, units: 1, take: func(ctx context.Context) (held, error) {
		l := zkclient.NewLock(z.conn, queue, zkclient.WorldACL(zkclient.PermAll))
		got := make(chan error, 1)
		go func() { got <- l.Lock() }() // it knows no context, and ends when it will
		select {
		case err := <-got:
			if err != nil {
				return nil, err
			}
			return zkHeld{z.conn, z.conn.SessionID(), l}, nil
		case <-ctx.Done():
			go func() {
				if <-got == nil {
					_ = l.Unlock()
				}
			}()
			return nil, ctx.Err()
		}
	}}
}

func (z zkLocker) Close() error {
	z.conn.Close()
	return nil
}

type zkHeld struct {
	conn    *zkclient.Conn
	session int64
	lock    *zkclient.Lock
}

// Token is none: zk.Lock has no fencing tokens.
func (h zkHeld) Token() farsync.Token  { return 0 }
func (h zkHeld) Done() <-chan struct{} { return nil }

// Err is all that a holder can ask: whether the connection stands, in the same session.
func (h zkHeld) Err() error {
	if h.conn.State() != zkclient.StateHasSession || h.conn.SessionID() != h.session {
		return farsync.ErrLost
	}
	return nil
}

func (h zkHeld) Release() error {
	return errors.Join(h.Err(), h.lock.Unlock())
}
