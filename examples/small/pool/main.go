// Pool does a job for each of its arguments, at most three at a time, however many processes do such jobs:
//
//	go run ./examples/small/pool locks.db a b c d e f
//
// Machines share a service in place of the file.
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
	if len(os.Args) < 3 {
		log.Fatal("usage: pool FILE JOB...")
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(file string, jobs []string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := sqlite.Open(ctx, file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	pool := farsync.NewPool(ctx, farsync.NewSemaphore(store, "/pools/thumbnails", 3))
	for _, name := range jobs {
		pool.Go(func(ctx context.Context) error { return job(ctx, name) }) // waits until there is room
	}
	return pool.Wait() // the first error of a job: no job is begun after it
}

// job stops when ctx is done: another job has failed, the process is to end, or its place in the pool is lost.
func job(ctx context.Context, name string) error {
	select {
	case <-time.After(100 * time.Millisecond): // the work
		fmt.Println("done:", name)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s is not done: %w", name, context.Cause(ctx))
	}
}
