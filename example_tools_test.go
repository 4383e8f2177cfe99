package farsync_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// Participants shows who holds a lock and who waits for it, in the order of the queue, whatever primitive they use.
func ExampleStore_Participants() {
	service := farsynctest.NewMem()
	store := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: "web-1"}})
	defer store.Close()

	ctx := context.Background()
	lease, err := farsync.NewSemaphore(store, "/imports", 3).Acquire(ctx, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()

	list, err := store.Participants(ctx, "/imports") // by another process, for example
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range list {
		fmt.Println(p.Holder, p.Held, p.Kind, p.Units, p.ID == lease.ID())
	}
	// Output:
	// web-1 true permit 2 true
}

// The ID tells which of the participants a lease is. A token does not: while a lock is handed on within a process,
// others may see the token of the turn before.
func ExampleLease_ID() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	mu := farsync.NewMutex(store, "/locks/billing")
	ctx := context.Background()

	lease, err := mu.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()
	list, err := store.Participants(ctx, "/locks/billing")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range list {
		fmt.Println("this one:", p.ID == lease.ID())
	}
	// Output:
	// this one: true
}

// Ask asks the holder to give the lock back. A holder that listens to Asked does so when it can.
func ExampleStore_Ask() {
	service := farsynctest.NewMem()
	here, there := service.Open(nil), service.Open(nil)
	defer here.Close()
	defer there.Close()

	ctx := context.Background()
	lease, err := farsync.NewMutex(here, "/locks/index").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() { // a long job that can stop between two steps
		<-lease.Asked()
		done <- lease.Release()
	}()

	if err := there.Ask(ctx, "/locks/index"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("given back:", <-done)
	next, err := farsync.NewMutex(there, "/locks/index").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", next.Err() == nil)
	fmt.Println("released:", next.Release())
	// Output:
	// given back: <nil>
	// held: true
	// released: <nil>
}

// Break ends a lease that its holder does not give back. The token names that lease, and no later one.
func ExampleStore_Break() {
	service := farsynctest.NewMem()
	here, there := service.Open(nil), service.Open(nil)
	defer here.Close()
	defer there.Close()

	ctx := context.Background()
	lease, err := farsync.NewMutex(here, "/locks/index").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := there.Participants(ctx, "/locks/index")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = there.Break(ctx, "/locks/index", list[0].Token, &farsync.BreakOptions{Reason: "stuck since noon"})
	fmt.Println(err)
	<-lease.Done()
	fmt.Println(errors.Is(lease.Err(), farsync.ErrBroken))

	err = there.Break(ctx, "/locks/index", list[0].Token, nil)
	fmt.Println(errors.Is(err, farsync.ErrReleased)) // nobody has that token any more
	// Output:
	// <nil>
	// true
	// true
}

// Survey finds the locks that have users.
func ExampleStore_Survey() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()

	ctx := context.Background()
	billing, err := farsync.NewMutex(store, "/jobs/billing").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer billing.Release()
	imports, err := farsync.NewSemaphore(store, "/jobs/imports", 3).Acquire(ctx, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer imports.Release()

	for lock, err := range store.Survey(ctx, "/jobs/") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(lock.Path, lock.Size, lock.Participants[0].Kind)
	}
	// Output:
	// /jobs/billing 0 exclusive
	// /jobs/imports 3 permit
}

// A leader changes what the others see of it while it leads.
func ExampleElection_Proclaim() {
	service := farsynctest.NewMem()
	leader, other := service.Open(nil), service.Open(nil)
	defer leader.Close()
	defer other.Close()

	ctx := context.Background()
	election := farsync.NewElection(leader, "/leader/relay")
	lease, err := election.Campaign(ctx, "starting")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()
	if err := election.Proclaim(ctx, lease, "ready at 10.0.0.7:8080"); err != nil {
		fmt.Println(err)
		return
	}

	seen, err := farsync.NewElection(other, "/leader/relay").Leader(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(seen.Value)
	// Output:
	// ready at 10.0.0.7:8080
}

// OnState hears of the session: what a health check or a page of the operator shows.
func ExampleOptions_onState() {
	service := farsynctest.NewMem()
	states := make(chan farsync.State, 8)
	store := service.Open(&farsynctest.MemOptions{Options: farsync.Options{
		TTL:     time.Second,
		OnState: func(s farsync.State) { states <- s },
	}})
	await := func(state farsync.State) { // others may come before: on a slow machine a renewal is late
		for s := range states {
			if s == state {
				fmt.Println(s)
				return
			}
		}
	}

	await(farsync.StateConnected)
	service.Partition(store, true) // the network fails
	await(farsync.StateSuspended)  // a renewal is overdue; leases are still held
	await(farsync.StateLost)       // the TTL has passed; every lease has ended with ErrLost
	service.Partition(store, false)
	await(farsync.StateConnected) // a new session: locks can be had again
	fmt.Println(store.Close())
	// Output:
	// connected
	// suspended
	// lost
	// connected
	// <nil>
}
