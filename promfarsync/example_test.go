package promfarsync_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/promfarsync"
	"github.com/farsync/farsync/sqlite"
)

func ExampleTrace() {
	directory, err := os.MkdirTemp("", "promfarsync")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(directory) }()

	registry := prometheus.NewRegistry() // a program has prometheus.DefaultRegisterer here
	trace, err := promfarsync.Trace(registry, nil)
	if err != nil {
		log.Print(err)
		return
	}
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(directory, "locks.db"), &sqlite.Options{
		Options: farsync.Options{Name: "locks", Trace: trace},
	})
	if err != nil {
		log.Print(err)
		return
	}
	err = farsync.NewMutex(store, "/billing").Do(ctx, func(context.Context, *farsync.Lease) error { return nil })
	if err = errors.Join(err, store.Close()); err != nil { // a Trace has been told everything when Close returns
		log.Print(err)
		return
	}
	families, err := registry.Gather()
	if err != nil {
		log.Print(err)
		return
	}
	for _, family := range families {
		fmt.Println(family.GetName())
	}
	// Output:
	// farsync_acquire_duration_seconds
	// farsync_hold_duration_seconds
	// farsync_leases_held
	// farsync_releases_unconfirmed_total
	// farsync_requests_waiting
	// farsync_session_losses_total
	// farsync_sessions
}
