package farsync_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/storetest"
)

// An account is changed under its lock, by methods that call one another.
type account struct {
	mu      *farsync.ReentrantMutex
	balance int
}

func (a *account) deposit(ctx context.Context, amount int) error {
	lease, err := a.mu.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	a.balance += amount
	return nil
}

func (a *account) depositTwice(ctx context.Context, amount int) error {
	lease, err := a.mu.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	// No other caller comes in between, and deposit does not wait for us.
	return errors.Join(a.deposit(ctx, amount), a.deposit(ctx, amount))
}

func ExampleReentrantMutex() {
	store := storetest.NewMem().Open(nil)
	defer store.Close()

	a := &account{mu: farsync.NewReentrantMutex(store, "/locks/account")}
	fmt.Println(a.depositTwice(context.Background(), 50), a.balance)
	// Output:
	// <nil> 100
}

// Work that spreads over goroutines is one owner if they share the context that WithOwner made.
func ExampleWithOwner() {
	store := storetest.NewMem().Open(nil)
	defer store.Close()
	mu := farsync.NewReentrantMutex(store, "/locks/import")

	ctx := farsync.WithOwner(context.Background())
	lease, err := mu.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()

	var parts sync.WaitGroup
	parts.Go(func() {
		again, err := mu.Lock(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer again.Release()
		fmt.Println("the same hold:", again.Token() == lease.Token())
	})
	parts.Wait()

	parts.Go(func() {
		_, err := mu.TryLock(context.Background())
		fmt.Println("without the owner:", err)
	})
	parts.Wait()
	// Output:
	// the same hold: true
	// without the owner: farsync: try lock /locks/import: locked: held in this process, by "mem-1"
}
