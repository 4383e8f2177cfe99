//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
)

// TestScripts runs testdata/script, each with a store of its own. Besides what testscript knows there are
//
//	exits CODE COMMAND…     runs it, and looks at its exit code
//	queue PATH COUNT        waits until so many hold PATH or wait for it; the call that waits may not have heard of it yet
//	appears FILE            waits until something is in FILE
func TestScripts(t *testing.T) { scripts(t, "testdata/script", func() string { return file(t) }) }

// scripts runs those of a folder, each with a store.
func scripts(t *testing.T, dir string, store func() string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			e.Setenv("FARSYNC_STORE", store())
			e.Setenv(race, raceOptions)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   exits,
			"queue":   queue,
			"appears": appears,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var failed *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &failed) {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, not %d", got, want)
	}
}

func queue(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: queue PATH COUNT")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	l, err := location.Parse(ts.Getenv("FARSYNC_STORE"))
	ts.Check(err)
	ctx := context.Background() // a script has none
	store, closed, err := l.Open(ctx, farsync.Options{})
	ts.Check(err)
	defer func() {
		ts.Check(store.Close())
		ts.Check(closed())
	}()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for limit := time.After(soon); ; {
		list, err := farsync.NewMutex(store, args[0]).Participants(ctx)
		ts.Check(err)
		if len(list) == want {
			return
		}
		select {
		case <-look.C:
		case <-limit:
			ts.Fatalf("%s has %d in its queue, not %d", args[0], len(list), want)
		}
	}
}

func appears(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: appears FILE")
	}
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for limit := time.After(soon); ; {
		if info, err := os.Stat(ts.MkAbs(args[0])); err == nil && info.Size() > 0 {
			return
		}
		select {
		case <-look.C:
		case <-limit:
			ts.Fatalf("there is nothing in %s", args[0])
		}
	}
}
