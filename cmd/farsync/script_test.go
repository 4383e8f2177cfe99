//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
)

// TestScripts runs testdata/script, each with a store of its own. Besides what testscript knows there are
//
//	exits CODE COMMAND…     runs it, and looks at its exit code
//	outwaits CODE COMMAND…  the same for a COMMAND that waits for WAIT seconds, or WAITms, long enough to find the lock taken
//	queue PATH COUNT        waits until so many hold PATH or wait for it; the call that waits may not have heard of it yet
//	appears FILE            waits until something is in FILE
func TestScripts(t *testing.T) {
	scripts(t, "testdata/script", installed(t), func() string { return file(t) })
}

// scripts runs those of a folder, each with a store. The command is program, by its path or from PATH, where it is
// this executable.
func scripts(t *testing.T, dir, program string, store func() string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			if filepath.IsAbs(program) {
				e.Setenv("PATH", filepath.Dir(program)+string(os.PathListSeparator)+e.Getenv("PATH"))
			}
			e.Setenv("FARSYNC_STORE", store())
			e.Setenv(race, raceOptions)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":    exits,
			"outwaits": outwaits,
			"queue":    queue,
			"appears":  appears,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := code(ts, args[1:]); got != want {
		ts.Fatalf("exit code %d, not %d", got, want)
	}
}

// outwaits is exits of a COMMAND that waits for a lock for a while, WAIT seconds or WAITms, and finds it taken. Where the time passes
// before the service has said anything, which is 69, it is tried with twice the time.
func outwaits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: outwaits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		command := slices.Clone(args[1:])
		for i, arg := range command {
			arg = strings.ReplaceAll(arg, "WAITms", fmt.Sprintf("%dms", wait.Milliseconds()))
			command[i] = strings.ReplaceAll(arg, "WAIT", strconv.FormatFloat(wait.Seconds(), 'f', -1, 64))
		}
		got := code(ts, command)
		switch {
		case got == want:
			return
		case got != codeUnavailable, wait > soon:
			ts.Fatalf("exit code %d, not %d, after %v", got, want, wait)
		}
	}
}

// code runs a command, and returns its exit code.
func code(ts *testscript.TestScript, command []string) int {
	err := ts.Exec(command[0], command[1:]...)
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode()
	}
	ts.Check(err)
	return 0
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
		list, err := store.Participants(ctx, args[0])
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
