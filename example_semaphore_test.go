package farsync_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

func ExampleSemaphore() {
	service := farsynctest.NewMem()
	here, there := service.Open(nil), service.Open(nil)
	defer here.Close()
	defer there.Close()
	ctx := context.Background()

	// Ten connections for all processes together.
	lease, err := farsync.NewSemaphore(here, "/limits/connections", 10).Acquire(ctx, 7)
	if err != nil {
		fmt.Println(err)
		return
	}
	others := farsync.NewSemaphore(there, "/limits/connections", 10)
	_, err = others.TryAcquire(ctx, 4)
	fmt.Println(err)
	_, err = others.Acquire(ctx, 11)
	fmt.Println(err)
	_, err = farsync.NewSemaphore(there, "/limits/connections", 20).Acquire(ctx, 1)
	fmt.Println("another size:", errors.Is(err, farsync.ErrSize))

	fmt.Println(lease.Release())
	// Output:
	// farsync: try acquire /limits/connections: locked: held by "mem-1"
	// farsync: acquire /limits/connections: more units than the semaphore has: 11 of 10
	// another size: true
	// <nil>
}

// More units wake the waiters.
func ExampleSemaphore_Resize() {
	service := farsynctest.NewMem()
	here, there := service.Open(nil), service.Open(nil)
	defer here.Close()
	defer there.Close()
	ctx := context.Background()

	semaphore := farsync.NewSemaphore(here, "/limits/connections", 2)
	lease, err := semaphore.Acquire(ctx, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()

	acquired := make(chan error)
	go func() {
		lease, err := farsync.NewSemaphore(there, "/limits/connections", 2).Acquire(ctx, 1)
		if err == nil {
			defer lease.Release()
		}
		acquired <- err
	}()
	fmt.Println(semaphore.Resize(ctx, 3))
	fmt.Println(<-acquired)
	// Output:
	// <nil>
	// <nil>
}

// Size is what counts for all users, also for those that declare another size.
func ExampleSemaphore_Size() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	ctx := context.Background()

	semaphore := farsync.NewSemaphore(store, "/limits/connections", 2)
	fmt.Println(semaphore.Size(ctx)) // nobody has used it
	fmt.Println(semaphore.Resize(ctx, 3))
	fmt.Println(semaphore.Size(ctx))
	// Output:
	// 2 <nil>
	// <nil>
	// 3 <nil>
}

// At most two of the tasks run at a time, in all processes that use the semaphore.
func ExamplePool() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()

	pool := farsync.NewPool(context.Background(), farsync.NewSemaphore(store, "/limits/downloads", 2))
	sizes := make([]int, 5)
	for i, name := range []string{"a", "bb", "ccc", "dddd", "eeeee"} {
		pool.Go(func(ctx context.Context) error {
			sizes[i] = len(name)
			return nil
		})
	}
	fmt.Println(pool.Wait(), sizes)
	// Output:
	// <nil> [1 2 3 4 5]
}
