// Leader is a service of which one replica leads and the others wait. It answers the checks of a platform, tells who
// leads, and resigns at SIGTERM. Start it twice, with two addresses:
//
//	go run ./examples/small/leader locks.db localhost:8001
//
// Machines share a service in place of the file. docs/HEALTH.md says which check asks what.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/sqlite"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: leader FILE ADDRESS")
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func serve(file, address string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := sqlite.Open(ctx, file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	election := farsync.NewElection(store, "/leaders/reports")
	var working atomic.Pointer[farsync.Lease] // the lease that work runs under

	answer := func(w http.ResponseWriter, text string, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, text)
	}
	http.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { // let it fail several times before a restart
		if lease := working.Load(); lease != nil && lease.Err() != nil {
			answer(w, "", fmt.Errorf("the work goes on without its lease: %w", lease.Err()))
			return
		}
		answer(w, "alive", nil)
	})
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { // candidates are ready, too
		switch state := store.State(); {
		case ctx.Err() != nil:
			answer(w, "", errors.New("it was told to end"))
		case state != farsync.StateConnected && state != farsync.StateSuspended:
			answer(w, "", fmt.Errorf("the lock service is %v", state))
		default:
			answer(w, "ready", nil)
		}
	})
	http.HandleFunc("/leader", func(w http.ResponseWriter, r *http.Request) {
		leader, err := election.Leader(r.Context())
		answer(w, leader.Value, err)
	})
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second}
	fmt.Println("serves on", listener.Addr())
	go func() { _ = server.Serve(listener) }()
	defer server.Close()

	// At SIGTERM ctx is done. Lead then waits until work has returned, resigns, and returns nil.
	return election.Lead(ctx, "starting", func(ctx context.Context, lease *farsync.Lease) error {
		working.Store(lease)
		defer working.Store(nil)
		if err := election.Proclaim(ctx, lease, listener.Addr().String()); err != nil {
			return err
		}
		return work(ctx, lease)
	})
}

// work is what the leader does, until ctx is done: after a loss another replica may lead.
func work(ctx context.Context, lease *farsync.Lease) error {
	fmt.Println("leads, token", lease.Token())
	<-ctx.Done()
	return context.Cause(ctx)
}
