package main

import (
	"context"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/redis"
)

var redisStore = store{
	open: func(ctx context.Context, on *stage, o farsync.Options) (*farsync.Store, error) {
		return redis.Open(ctx, &goredis.UniversalOptions{Addrs: on.at}, &redis.Options{Options: o, Fresh: true})
	},
	service: func(on *stage) (driver.Service, error) {
		return redis.NewService(&goredis.UniversalOptions{Addrs: on.at}, &redis.Options{Fresh: true})
	},
}

func redisClient(on *stage) *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: on.at[0]})
	on.onClose(func() { _ = client.Close() })
	return client
}

// rueidisLocks are with their defaults, three keys, or with as many as make a majority.
func rueidisLocks(name string, majority int32, shared bool) peer {
	return peer{name, func(_ context.Context, on *stage, n int) (team, error) {
		var mu rueidislock.Locker
		return gather(n, func(i int) (body, error) {
			if i == 0 || !shared {
				var err error
				mu, err = rueidislock.NewLocker(rueidislock.LockerOption{
					ClientOption: rueidis.ClientOption{InitAddress: on.at}, KeyMajority: majority,
				})
				if err != nil {
					return nil, err
				}
				on.onClose(mu.Close)
			}
			mu := mu
			return func(ctx context.Context) error {
				_, release, err := mu.WithContext(ctx, on.path)
				if err == nil {
					release()
				}
				return err
			}, nil
		})
	}}
}

var redsyncs = peer{"redsync", func(_ context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		sync := redsync.New(redsyncredis.NewPool(redisClient(on)))
		return func(ctx context.Context) error {
			mu := sync.NewMutex(on.path, redsync.WithTries(1<<20))
			if err := mu.LockContext(ctx); err != nil {
				return err
			}
			_, err := mu.UnlockContext(context.WithoutCancel(ctx))
			return err
		}, nil
	})
}}

var redislocks = peer{"redislock, asking every 100 ms", func(_ context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		locker := redislock.New(redisClient(on))
		return func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Hour) // without a deadline it gives up after its TTL
			defer cancel()
			lock, err := locker.Obtain(ctx, on.path, 10*time.Second, &redislock.Options{
				RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
			})
			if err != nil {
				return err
			}
			return lock.Release(context.WithoutCancel(ctx))
		}, nil
	})
}}

var redisPairs = peer{"set + del", func(_ context.Context, on *stage, n int) (team, error) {
	return gather(n, func(i int) (body, error) {
		client, key := redisClient(on), fmt.Sprint(on.path, "-", i)
		return func(ctx context.Context) error {
			if err := client.SetNX(ctx, key, "", time.Minute).Err(); err != nil {
				return err
			}
			return client.Del(ctx, key).Err()
		}, nil
	})
}}

func redisGuard(_ context.Context, on *stage) (func(context.Context, *farsync.Lease) error, error) {
	client, write := redisClient(on), redis.Guard("", "return redis.call('SET', KEYS[1], ARGV[1])")
	return func(ctx context.Context, lease *farsync.Lease) error {
		_, err := write.Run(ctx, client, lease, []string{on.path + "-row"}, 1)
		return err
	}, nil
}
