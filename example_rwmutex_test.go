package farsync_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

func ExampleRWMutex() {
	service := farsynctest.NewMem()
	here, there := service.Open(nil), service.Open(nil)
	defer here.Close()
	defer there.Close()
	ctx := context.Background()

	one, err := farsync.NewRWMutex(here, "/locks/catalog").RLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	two, err := farsync.NewRWMutex(there, "/locks/catalog").RLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("both read:", one.Err() == nil && two.Err() == nil)

	_, err = farsync.NewRWMutex(there, "/locks/catalog").TryLock(ctx)
	fmt.Println(err)

	// A reader that asked to write would wait for itself.
	under, cancel := one.Context(ctx)
	defer cancel()
	_, err = farsync.NewRWMutex(here, "/locks/catalog").Lock(under)
	fmt.Println(err)
	fmt.Println("a mistake in this program:", errors.Is(err, farsync.ErrDeadlock))

	fmt.Println(one.Release(), two.Release())
	// Output:
	// both read: true
	// farsync: try lock /locks/catalog: locked: held by "mem-1"
	// farsync: lock /locks/catalog: it would wait for itself: a reader cannot become a writer
	// a mistake in this program: true
	// <nil> <nil>
}

// What was written is read back before another client can write.
func ExampleRWMutex_Downgrade() {
	service := farsynctest.NewMem()
	here, there := service.Open(nil), service.Open(nil)
	defer here.Close()
	defer there.Close()
	ctx := context.Background()

	rw, others := farsync.NewRWMutex(here, "/locks/catalog"), farsync.NewRWMutex(there, "/locks/catalog")
	lease, err := rw.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()
	token := lease.Token()
	if err := rw.Downgrade(ctx, lease); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("still held, with the same token:", lease.Err() == nil, lease.Token() == token)

	reader, err := others.RLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reader.Release()
	_, err = others.TryLock(ctx)
	fmt.Println("others read, and do not write:", errors.Is(err, farsync.ErrLocked))
	// Output:
	// still held, with the same token: true true
	// others read, and do not write: true
}
