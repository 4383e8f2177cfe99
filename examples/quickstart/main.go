//go:build unix

// Quickstart shows what a distributed lock is for, and what it takes to trust one.
//
//	go run ./examples/quickstart
//
// A number is kept in a file. Four processes add 1 to it, 250 times each: read, add, write, under one farsync.Mutex on
// an etcd that is started for the run. Nothing else protects the number: the file sits behind a small HTTP server,
// which serves a read and a write as two requests that have nothing to do with each other and never compares what is
// written with what was read. If ever two processes are between their read and their write at the same time, an add
// is lost.
//
// Then it gets rough:
//
//   - One process is killed while it holds the lock, has read and has not written. Nobody releases its lock; etcd gives
//     it to the next when the TTL has passed. A new process does the adds that were left.
//   - One process is stopped at the same point for longer than the TTL, and then goes on as if nothing had happened. By
//     then others have held the lock and added. Its late write would set the number back; no lock service can stop it,
//     for it is not asked. The server can: every request carries the fencing token of its lease, and the server refuses
//     a token lower than one it has seen. The process then finds that its lease is lost, and does that add again.
//
// In the end the number has to be 1000. The flags -no-lock and -no-fence leave out one protection each, to see what
// it is for: the number comes out too small.
//
// The file to imitate is worker.go. The server's half of the fence, a comparison of two integers, is in resource.go.
// The rest is the show.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/farsync/farsync/embedtest"
)

// The exit statuses.
const (
	allRight    = 0
	failed      = 1
	misused     = 2
	interrupted = 130
)

func main() {
	embedtest.Child() // the etcd server is this program once more: then this call does not return
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(workerMain(os.Args[2:]))
	}
	os.Exit(showMain(os.Args[1:]))
}

func showMain(args []string) int {
	options, err := parseOptions(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return allRight
	case err != nil:
		fmt.Fprintf(os.Stderr, "quickstart: %v\nTry -help.\n", err)
		return misused
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C is not waited for
	defer stop()

	screen := newScreen(os.Stdout)
	outcome, err := perform(ctx, options, screen)
	screen.clear()
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "quickstart: interrupted; no process and no file is left")
		return interrupted
	case err != nil:
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		return failed
	}
	fmt.Print(outcome.table())
	if len(outcome.problems()) > 0 {
		return failed
	}
	return allRight
}
