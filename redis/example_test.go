package redis_test

import (
	"context"
	"errors"
	"fmt"

	client "github.com/redis/go-redis/v9"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/redis"
)

func Example() {
	ctx := context.Background()
	store, err := redis.Open(ctx, &client.UniversalOptions{Addrs: []string{"localhost:6379"}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	lease, err := farsync.NewMutex(store, "/locks/billing").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()
	fmt.Println("held, with token", lease.Token())
}

func ExampleGuard() {
	withdraw := redis.Guard("", "return redis.call('DECRBY', KEYS[1], ARGV[1])") // once, for all leases
	ctx := context.Background()
	to := &client.UniversalOptions{Addrs: []string{"localhost:6379"}}
	store, err := redis.Open(ctx, to, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	lease, err := farsync.NewMutex(store, "/locks/billing").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()
	data := client.NewUniversalClient(to)
	defer func() { _ = data.Close() }()
	left, err := withdraw.Run(ctx, data, lease, []string{"balance"}, 100)
	switch {
	case errors.Is(err, farsync.ErrLost):
		fmt.Println("another may hold the lock, and nothing was withdrawn")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println("left:", left)
	}
}
