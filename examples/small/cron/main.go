// Cron is a job that every machine starts at the same time and one of them runs. Start it twice:
//
//	go run ./examples/small/cron locks.db
//
// Machines share a service in place of the file: see docs/CRON.md, which also says what the times are for.
package main

import (
	"context"
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
		log.Fatal("usage: cron FILE")
	}
	if err := once(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func once(file string) error {
	told, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := sqlite.Open(told, file, &sqlite.Options{Options: farsync.Options{TTL: 45 * time.Second}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(told, 10*time.Minute) // how long the job may work
	defer cancel()
	ran, err := farsync.NewMutex(store, "/cron/billing").TryDo(ctx, 30*time.Second, bill)
	if told.Err() == nil { // else the 30 seconds are not over, and Close would let another machine run the job again
		_ = store.Close()
	}
	if err == nil && !ran {
		log.Print("another machine runs it, or has just run it")
	}
	return err
}

func bill(ctx context.Context, lease *farsync.Lease) error {
	fmt.Println("the job, token", lease.Token())
	return nil
}
