//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/guard"
	"github.com/farsync/farsync/cmd/farsync/internal/terminal"
)

func (a *app) holdVerb() *cobra.Command {
	w := &work{app: a, request: request{units: 1}}
	pid := int64(0)
	cmd := &cobra.Command{
		Use:               "hold [flags] PATH…",
		ValidArgsFunction: a.paths,
		Short:             "Hold a lock until standard input ends, or a process",
		Long: `hold locks PATH, or all of several paths, writes a line of JSON to standard output when they are held, and gives them back
when its standard input ends or a signal comes. If that is before they are held, it gives up, and says so on
standard error. It ends nothing when a lock is lost: it exits with 79. A program that relies on
the lock has to watch hold, or better be run by farsync run.`,
		Example: `  farsync hold /x --while $$ &    until the script has ended, however it does`,
		RunE: func(cmd *cobra.Command, arguments []string) (err error) {
			if err := w.check(cmd); err != nil {
				return err
			}
			if err := w.checkPaths(arguments); err != nil {
				return err
			}
			if w.location, err = w.locate(); err != nil {
				return err
			}
			w.join()
			w.murmur()
			return w.hold(os.Stdin, int(pid))
		},
	}
	w.lockFlags(cmd)
	if canFollow {
		cmd.Flags().Var(&whole{&pid, "PID", 1, math.MaxInt32}, "while", "until that process has ended, and not until standard input ends")
	}
	return cmd
}

// A holding is what hold writes when it holds.
type holding struct {
	Schema int             `json:"schema"`
	Path   []string        `json:"path"`
	Token  []farsync.Token `json:"token"`
	Kind   string          `json:"kind"`
	Holder string          `json:"holder"`
}

// hold holds what is asked for, until input ends or the process with that PID, if it is not 0.
func (w *work) hold(input io.Reader, pid int) error {
	ctx, stop := signalled(context.Background())
	defer stop()
	over := make(chan struct{})
	if pid != 0 {
		// Before the lock is asked for, so that the process is the process that was meant.
		ended, err := follow(pid)
		if err != nil {
			return usage("--while %d: there is no such process to wait for (%w)", pid, err)
		}
		over = ended
	} else {
		go func() { // until the input ends, or this process
			defer close(over)
			_, _ = io.Copy(io.Discard, input)
		}()
	}
	holder := w.holder(os.Getpid())
	store, closed, err := w.open(ctx, holder)
	if err != nil {
		return w.failed(ctx, codeOfOpen(err), err)
	}
	defer func() {
		_ = w.ignore(store.Close())
		_ = w.ignore(closed())
	}()
	h, err := w.await(ctx, over, store, holder)
	switch {
	case errors.Is(err, errOver):
		w.gaveUp(pid)
		return nil
	case err != nil && w.code(err) == codeTaken:
		return w.failed(ctx, int(w.conflict), err)
	case err != nil:
		return w.failed(ctx, w.code(err), err)
	}
	line, err := json.Marshal(holding{1, w.shown, h.tokens(), w.request.kind.String(), holder})
	if err == nil {
		_, err = fmt.Fprintf(w.stdout, "%s\n", line)
	}
	if err == nil {
		select {
		case <-over:
		case <-ctx.Done():
		case <-h.Done():
		}
	}
	lost := h.Release()
	switch {
	case errors.Is(lost, farsync.ErrLost):
		return &exit{codeLost, lost}
	case err != nil:
		return unwritten(err)
	default:
		return w.ignore(lost)
	}
}

// gaveUp says why nothing is held, and nothing was written.
func (w *work) gaveUp(pid int) {
	if w.quiet {
		return
	}
	ended := "standard input has ended"
	if pid != 0 {
		ended = fmt.Sprintf("process %d has ended", pid)
	}
	w.remark(ended + " before " + strings.Join(w.shown, " ") + " was held: hold has given up, and holds nothing")
}

// signalled returns a context that ends with an interruptedError when a signal comes that ends hold, and a function
// that joins its goroutine. A signal that was ignored when hold was started stays ignored: the shell has Ctrl-C ignored
// by what a script runs in the background, and nohup SIGHUP.
func signalled(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	guard.Catch(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case s := <-signals:
			cancel(&interruptedError{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
		watching.Wait()
	}
}

var errOver = errors.New("what the lock is held for is over")

// await locks, and shows what it waits behind.
func (w *work) await(ctx context.Context, over <-chan struct{}, store *farsync.Store, holder string) (*held, error) {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	joined := make(chan struct{})
	go func() { // until cancel, and joined
		defer close(joined)
		if w.request.try {
			over = nil // there is nothing to give up
		}
		select {
		case <-over:
			cancel(errOver)
		case <-waiting.Done():
		}
	}()
	defer func() { <-joined }()
	defer cancel(nil)
	within := waiting
	if w.wait.set && !w.request.try {
		var stop context.CancelFunc
		within, stop = context.WithTimeoutCause(waiting, w.wait.Duration, errWaited)
		defer stop()
	}
	s := &sight{app: w.app, store: store, holder: holder, width: terminal.Width(2), hidden: func() bool { return false }}
	show := func() {}
	if !w.quiet && !w.json && !w.request.try {
		show = s.watch()
	}
	h, err := w.acquire(within, store, s.on)
	show()
	if cause := context.Cause(waiting); err != nil && errors.Is(cause, errOver) {
		return nil, errOver
	}
	return h, err
}

// failed is the error of a hold that did not come about.
func (w *work) failed(ctx context.Context, code int, err error) error {
	if interrupted, ok := errors.AsType[*interruptedError](context.Cause(ctx)); ok {
		end := guard.End{Code: codeSignal + int(interrupted.signal), Signal: interrupted.signal}
		w.die = end.Die
		return &exit{end.Code, interrupted}
	}
	return &exit{code, err}
}
