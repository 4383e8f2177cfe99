//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/torture/history"
	"github.com/farsync/farsync/redis"
)

// councilKinds are the services that a QuorumMutex has its members on, in the order of the members.
var councilKinds = []string{onRedis, onPostgres, onRedis}

// A site is a service that has a queue.
type site struct {
	store     string
	endpoints []string
}

// sites returns the services that have the queues of a store: the services of the members of a QuorumMutex, or a single
// service.
func sites(store string, endpoints []string) (list []site) {
	if store != onQuorum {
		return []site{{store, endpoints}}
	}
	for i, kind := range councilKinds {
		list = append(list, site{kind, endpoints[i : i+1]})
	}
	return list
}

// startCouncil starts a server of each kind. The Redis servers lose their data now and then. A QuorumMutex has to bear
// each such loss after which the server is silent.
func startCouncil(ctx context.Context, dir string, settings campaign) (*service, error) {
	s := &service{}
	var closers []func() error
	s.close = func() error {
		var all error
		for _, one := range closers {
			all = errors.Join(all, one())
		}
		return all
	}
	for i, kind := range councilKinds {
		settings.Store = kind
		one, err := startService(ctx, filepath.Join(dir, fmt.Sprint("member-", i)), settings)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		closers = append(closers, one.close)
		s.endpoints, s.members = append(s.endpoints, one.endpoints...), append(s.members, one.members...)
	}
	// A fault may happen to one server while another is gone, so that no majority is left.
	s.rows = []nodes{{apart, []int{0, 2}}, {single, []int{1}}}
	return s, nil
}

// introduce makes the namespace known to a Redis server that has never had another. No other Store has the option
// Fresh, so when the server has lost its data it is silent, as a server in use must be.
func introduce(ctx context.Context, endpoint string, settings campaign) error {
	store, err := redis.Open(ctx, &goredis.UniversalOptions{Addrs: []string{endpoint}},
		&redis.Options{Options: farsync.Options{TTL: settings.TTL}, Fresh: true})
	if err != nil {
		return err
	}
	return store.Close()
}

// A council is a client of several services: a Store of each, and a QuorumMutex for each queue, which the goroutines
// share.
type council struct {
	part
	stores  []*farsync.Store
	leave   []func()
	quorums map[string]*farsync.QuorumMutex
}

func openCouncil(ctx context.Context, p part) (locker, error) {
	c := &council{part: p, quorums: map[string]*farsync.QuorumMutex{}}
	for i, at := range sites(p.Store, p.Endpoints) {
		store, leave, err := openStore(ctx, at.store, at.endpoints, farsync.Options{
			TTL: p.TTL, Holder: p.Process, Name: fmt.Sprint("member-", i), Lazy: true,
		})
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.stores, c.leave = append(c.stores, store), append(c.leave, leave)
	}
	halves := queuesOf(p.Paths, p.Primitives, quorum)
	for _, path := range slices.Concat(halves[0], halves[1]) {
		var members []*farsync.Mutex
		for _, store := range c.stores {
			members = append(members, farsync.NewMutex(store, path))
		}
		c.quorums[path] = farsync.NewQuorumMutex(members...)
	}
	return c, nil
}

// Close closes the Stores.
func (c *council) Close() (err error) {
	for i, store := range c.stores {
		err = errors.Join(err, store.Close())
		c.leave[i]()
	}
	return err
}

func (c *council) lock(random *rand.Rand, primitive string) lock {
	queue := c.queueOf(random, primitive)
	taking := func(call func(context.Context) (*farsync.MultiLease, error)) func(context.Context) (held, error) {
		return func(ctx context.Context) (held, error) {
			lease, err := call(ctx)
			if err != nil {
				return nil, err
			}
			return quorumHeld{lease}, nil
		}
	}
	q := c.quorums[queue]
	return lock{kind: history.Quorum, queue: queue, units: 1, take: taking(q.Lock), try: taking(q.TryLock)}
}

type quorumHeld struct{ *farsync.MultiLease }

// Token is none: there is one of each member.
func (quorumHeld) Token() farsync.Token { return 0 }

// tokensOf returns the tokens of the members of a quorum, nil of any other lock.
func tokensOf(h held) (list []int64) {
	if q, ok := h.(quorumHeld); ok {
		for _, token := range q.Tokens() {
			list = append(list, int64(token))
		}
	}
	return list
}
