// Lostlease settles one account a minute, and stops when its lease is lost. The file to imitate is its test.
//
//	go run ./examples/small/lostlease locks.db
//	go test ./examples/small/lostlease
//
// docs/TESTING.md says what else a test can do to a lease.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/sqlite"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: lostlease FILE")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := sqlite.Open(ctx, file, nil)
	if err != nil {
		return err
	}
	err = Settle(ctx, store, func(account int) { fmt.Println("settled:", account) })
	if ctx.Err() != nil && !errors.Is(err, farsync.ErrLost) {
		err = nil // it was told to end
	}
	return errors.Join(err, store.Close())
}

// Settle settles accounts until ctx is done or its lease is lost.
func Settle(ctx context.Context, store *farsync.Store, settled func(account int)) error {
	return farsync.NewMutex(store, "/locks/settling").Do(ctx, func(ctx context.Context, _ *farsync.Lease) error {
		for account := 1; ; account++ {
			select {
			case <-time.After(time.Minute):
				settled(account)
			case <-ctx.Done():
				return context.Cause(ctx) // after a loss: why
			}
		}
	})
}
