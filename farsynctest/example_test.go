package farsynctest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// Code that works under a lease has to stop when the lease is lost. In a bubble of testing/synctest such a test is exact to the instant:
// docs/TESTING.md has one.
func ExampleMem_Lose() {
	service := farsynctest.NewMem()
	store := service.Open(nil)
	defer store.Close()

	working, ended := make(chan struct{}), make(chan error)
	go func() {
		mu := farsync.NewMutex(store, "/locks/billing")
		ended <- mu.Do(context.Background(), func(ctx context.Context, _ *farsync.Lease) error {
			close(working)
			<-ctx.Done() // the work
			return ctx.Err()
		})
	}()

	<-working
	service.Lose(store)
	fmt.Println("lost:", errors.Is(<-ended, farsync.ErrLost))
	// Output:
	// lost: true
}

// Mem stands in for etcd or ZooKeeper in the tests of a program. Every Open is a process of its own, which can be cut off or
// lose its session.
func ExampleMem() {
	service := farsynctest.NewMem()
	one, two := service.Open(nil), service.Open(nil)
	defer one.Close()
	defer two.Close()

	ctx := context.Background()
	first, err := farsync.NewMutex(one, "/locks/billing").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = farsync.NewMutex(two, "/locks/billing").TryLock(ctx)
	fmt.Println("taken:", errors.Is(err, farsync.ErrLocked))

	service.Lose(one)
	second, err := farsync.NewMutex(two, "/locks/billing").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	<-first.Done()
	fmt.Println("the first is lost:", errors.Is(first.Err(), farsync.ErrLost))
	fmt.Println("the second holds, with a higher token:", second.Err() == nil && second.Token() > first.Token())
	fmt.Println(second.Release())
	// Output:
	// taken: true
	// the first is lost: true
	// the second holds, with a higher token: true
	// <nil>
}
