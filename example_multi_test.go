package farsync_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// A transfer needs both accounts. The order in which they are named does not matter: two transfers in opposite
// directions do not wait for each other.
func ExampleMultiMutex() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	ctx := context.Background()

	from, to := farsync.NewMutex(store, "/accounts/7"), farsync.NewMutex(store, "/accounts/3")
	lease, err := farsync.NewMultiMutex(from, to).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("one token for each:", len(lease.Tokens()))
	_, err = farsync.NewMutex(store, "/accounts/3").TryLock(ctx)
	fmt.Println(err)
	fmt.Println(lease.Release())
	// Output:
	// one token for each: 2
	// farsync: try lock /accounts/3: locked: held in this process, by "mem-1"
	// <nil>
}

// Both accounts, or none: who finds one of them taken holds nothing, and does something else.
func ExampleMultiMutex_TryLock() {
	service := farsynctest.NewMem()
	here, there := service.Open(nil), service.Open(nil)
	defer here.Close()
	defer there.Close()
	ctx := context.Background()

	audit, err := farsync.NewMutex(there, "/accounts/7").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	both := farsync.NewMultiMutex(farsync.NewMutex(here, "/accounts/7"), farsync.NewMutex(here, "/accounts/3"))
	_, err = both.TryLock(ctx)
	fmt.Println("taken:", errors.Is(err, farsync.ErrLocked))
	fmt.Println(audit.Release())
	lease, err := both.TryLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(lease.Tokens()), lease.Release())
	// Output:
	// taken: true
	// <nil>
	// 2 <nil>
}

// A job that holds several locks gives way when it is asked for one of them.
func ExampleMultiLease_Asked() {
	service := farsynctest.NewMem()
	background, foreground := service.Open(nil), service.Open(nil)
	defer background.Close()
	defer foreground.Close()
	ctx := context.Background()

	lease, err := farsync.NewMultiMutex(
		farsync.NewMutex(background, "/index/a"), farsync.NewMutex(background, "/index/b"),
	).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	asked := lease.Asked()
	if err := foreground.Ask(ctx, "/index/b"); err != nil {
		fmt.Println(err)
		return
	}
	<-asked
	fmt.Println("asked to give way; still held:", lease.Err() == nil)
	fmt.Println(lease.Release())
	// Output:
	// asked to give way; still held: true
	// <nil>
}

// Three servers that fail independently: in production each Store is one of redis.Open, on a server of its own. One of them
// may be gone.
func ExampleQuorumMutex() {
	ctx := context.Background()
	var members []*farsync.Mutex
	for _, name := range []string{"east", "west", "north"} { // the same in all processes
		store := farsynctest.NewMem().Open(&farsynctest.MemOptions{Options: farsync.Options{Name: name}})
		defer store.Close()
		members = append(members, farsync.NewMutex(store, "/locks/billing"))
	}
	lease, err := farsync.NewQuorumMutex(members...).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, token := range lease.Tokens() {
		fmt.Println("the token of member", i, "fences:", token != 0)
	}
	fmt.Println(lease.Release())
	// Output:
	// the token of member 0 fences: true
	// the token of member 1 fences: false
	// the token of member 2 fences: true
	// <nil>
}

// A job in the background gives way when it is asked to.
func ExampleLease_Asked() {
	service := farsynctest.NewMem()
	background, foreground := service.Open(nil), service.Open(nil)
	defer background.Close()
	defer foreground.Close()
	ctx := context.Background()

	lease, err := farsync.NewMutex(background, "/locks/index").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() {
		<-lease.Asked() // or, between two pieces of work, in a select with a default
		fmt.Println("asked to give way")
		done <- lease.Release()
	}()

	mu := farsync.NewMutex(foreground, "/locks/index")
	if err := foreground.Ask(ctx, "/locks/index"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-done)
	urgent, err := mu.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(urgent.Release())
	// Output:
	// asked to give way
	// <nil>
	// <nil>
}
