package storetest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/storetest"
)

// Mem stands in for etcd or ZooKeeper in the tests of a program. Every Open is a process of its own, which can be cut off or
// lose its session.
func ExampleMem() {
	service := storetest.NewMem()
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

	service.Expire(one)
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
