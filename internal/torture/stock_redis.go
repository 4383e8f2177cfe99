//go:build unix

package main

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redisclient "github.com/redis/go-redis/v9"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/torture/history"
)

// redsyncLocker makes locks of redsync, used as its documentation shows: Lock, work, Unlock. It has no sessions: a lock
// is held for a time that is set before, and nothing tells its holder that this is over but the clock and Unlock.
type redsyncLocker struct {
	part
	client *redisclient.Client
	sync   *redsync.Redsync
}

func newRedsync(p part) locker {
	client := redisclient.NewClient(&redisclient.Options{Addr: p.Endpoints[0]})
	return redsyncLocker{p, client, redsync.New(goredis.NewPool(client))}
}

func (r redsyncLocker) lock(random *rand.Rand, _ string) lock {
	queue := r.queueOf(random, mutex)
	take := func(how func(*redsync.Mutex, context.Context) error) func(context.Context) (held, error) {
		return func(ctx context.Context) (held, error) {
			mu := r.sync.NewMutex(queue, redsync.WithExpiry(r.TTL))
			if err := how(mu, ctx); err != nil {
				return nil, err
			}
			return redsyncHeld{mu}, nil
		}
	}
	return lock{
		kind: history.Exclusive, queue: queue, units: 1,
		take: take((*redsync.Mutex).LockContext), try: take((*redsync.Mutex).TryLockContext),
	}
}

func (r redsyncLocker) Close() error { return r.client.Close() }

type redsyncHeld struct{ mutex *redsync.Mutex }

// Token is none: redsync has no fencing tokens.
func (redsyncHeld) Token() farsync.Token  { return 0 }
func (redsyncHeld) Done() <-chan struct{} { return nil }

// Err is nil: there is nothing to ask.
func (redsyncHeld) Err() error { return nil }

func (h redsyncHeld) Release() error {
	ok, err := h.mutex.Unlock()
	if err == nil && !ok {
		err = errors.New("not unlocked")
	}
	return err
}
