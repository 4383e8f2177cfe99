//go:build unix

// Package program is what the example programs have in common: their main, their processes, their service and their
// screen. Nothing in it has to do with locks; that is in the examples.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/farsync/farsync/embedtest"
)

// The exit statuses.
const (
	AllRight    = 0
	Failed      = 1
	Misused     = 2
	Interrupted = 130
)

// workerRole is the first argument of a worker's process.
const workerRole = "worker"

// A Program is a show that is played by several processes, all of them this executable.
type Program struct {
	Name  string
	Usage string
	// Parse returns what to do, or says what is wrong with the arguments.
	Parse func(args []string) (Play, error)
	// Work is what a worker's process does, with its part in JSON. The context is done when the show is over.
	Work func(part json.RawMessage) error
}

// A Play is what a show does. Its files are in dir, which goes when it is over. It returns when no process is left.
type Play func(ctx context.Context, screen *Screen, dir string) (Outcome, error)

// An Outcome is what a show has come to.
type Outcome interface {
	// Table is all figures, for people.
	Table() string
	// Problems says what is not as it must be.
	Problems() []string
}

// Main is the main of the program. It does not return.
func (p Program) Main() {
	embedtest.Child() // the etcd server is this program once more: then this call does not return
	if len(os.Args) > 1 && os.Args[1] == workerRole {
		os.Exit(p.worker(os.Args[2:]))
	}
	os.Exit(p.show(os.Args[1:]))
}

func (p Program) show(args []string) int {
	play, err := p.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(os.Stdout, p.Usage)
		return AllRight
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\nTry -help.\n", p.Name, err)
		return Misused
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C is not waited for
	defer stop()

	screen := newScreen(os.Stdout)
	outcome, err := inFolder(ctx, "farsync-"+p.Name+"-", screen, play)
	screen.clear()
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "%s: interrupted; no process and no file is left\n", p.Name)
		return Interrupted
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		return Failed
	}
	fmt.Fprint(os.Stdout, outcome.Table())
	if len(outcome.Problems()) > 0 {
		return Failed
	}
	return AllRight
}

// inFolder plays in a folder of its own, and removes it. A run that was killed could not: the next removes what it has left.
func inFolder(ctx context.Context, name string, screen *Screen, play Play) (Outcome, error) {
	removeLeft(name)
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", name, os.Getpid()))
	if err != nil {
		return nil, err
	}
	outcome, err := play(ctx, screen, dir)
	return outcome, errors.Join(err, os.RemoveAll(dir))
}

// removeLeft removes the folders of runs whose process is gone. Errors do not matter: the folders are in no one's way.
func removeLeft(name string) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), name+"*-*"))
	for _, dir := range left {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), name), "-")
		if pid, err := strconv.Atoi(number); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
}

func (p Program) worker(args []string) int {
	if len(args) != 1 || !json.Valid([]byte(args[0])) {
		fmt.Fprintf(os.Stderr, "%s: workers are started by %s itself\n", p.Name, p.Name)
		return Misused
	}
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // a Ctrl-C goes to all processes; the show ends its workers itself
	if err := p.Work(json.RawMessage(args[0])); err != nil && !over(err) {
		fmt.Fprintln(os.Stderr, err)
		return Failed
	}
	return AllRight
}
