package farsync_test

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
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
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()

	a := &account{mu: farsync.NewReentrantMutex(store, "/locks/account")}
	fmt.Println(a.depositTwice(context.Background(), 50), a.balance)
	// Output:
	// <nil> 100
}

// Work under the lock spreads over goroutines, which enter it again by the context of the lease.
func ExampleReentrantMutex_context() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	ctx := context.Background()

	a := &account{mu: farsync.NewReentrantMutex(store, "/locks/account")}
	lease, err := a.mu.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = lease.Do(ctx, func(ctx context.Context, _ *farsync.Lease) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return a.deposit(ctx, 50) })
		group.Go(func() error {
			_, err := a.mu.TryLock(context.Background())
			fmt.Println("without the context:", err)
			return nil
		})
		return group.Wait()
	})
	fmt.Println(err, a.balance)
	// Output:
	// without the context: farsync: try lock /locks/account: locked: held in this process, by "mem-1"
	// <nil> 50
}
