package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/recipe"
)

// A breaking is one call of break.
type breaking struct {
	*app
	path   string
	token  int64
	yes    bool
	remove bool
	reason string
	ask    patience
	wait   patience
}

func (a *app) breakVerb() *cobra.Command {
	b := &breaking{app: a, ask: patience{Duration: 10 * time.Second}, wait: patience{Duration: 30 * time.Second}}
	cmd := &cobra.Command{
		Use:   "break [--token T --yes] PATH",
		Short: "End a lease that its holder does not give back",
		Long: `break ends the lease on PATH that has the token: its holder is told so, and the next in the queue holds. The token names one
lease, so break never ends one that was acquired after you looked. It is asked for on the terminal; elsewhere give
--token and --yes.

break asks that holder first, and no other, and waits for 10 s (--ask). A COMMAND of farsync run is killed at once when its lock is broken, and
may live on beside the next holder for the moment that takes. A process that has died needs no break: its lock is free a
TTL later.

A holder that cannot hear, etcdctl for example, is not told. With --delete its entry is removed all the same, and it works
on: stop it first. Whoever may lock PATH may break it.

It exits with 75 if the holder has not ended the lease within --wait, and with 1 if no holder has that token.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.paths,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			b.path = arguments[0]
			if err := recipe.CheckPath(b.path); err != nil {
				return &exit{codeData, err}
			}
			if cmd.Flags().Changed("token") != b.yes {
				return usage("--token and --yes go together")
			}
			if b.wait.Duration == 0 {
				return usage("--wait is 0: the holder would not be told")
			}
			return a.with(cmd.Context(), func(store *farsync.Store, l *location.Location) error {
				return b.do(cmd.Context(), store, l, os.Stdin)
			})
		},
	}
	f := cmd.Flags()
	f.Int64Var(&b.token, "token", 0, "the token `T` of the lease, as farsync who shows it")
	f.BoolVar(&b.yes, "yes", false, "do not ask")
	f.BoolVar(&b.remove, "delete", false, "remove the entry of a holder that cannot hear")
	f.StringVar(&b.reason, "reason", "", "`TEXT` that the holder is told")
	f.Var(&b.ask, "ask", "how long to wait for the holder after asking it; 0 does not ask")
	f.VarP(&b.wait, "wait", "w", "how long to wait until the lease has ended")
	return cmd
}

func (b *breaking) do(ctx context.Context, store *farsync.Store, l *location.Location, input io.Reader) error {
	if !b.yes {
		if err := b.confirm(ctx, store, l, input); err != nil {
			return err
		}
	}
	if b.ask.Duration > 0 && !b.remove {
		left, err := askFor(ctx, store, l.Join(b.path), farsync.Token(b.token), b.ask.Duration)
		switch {
		case errors.Is(err, farsync.ErrReleased): // Break says so
		case err != nil:
			return &exit{codeOf(err), err}
		case left == nil:
			return b.done("released")
		}
	}
	within, cancel := context.WithTimeout(ctx, b.wait.Duration)
	defer cancel()
	why := operator()
	if b.reason != "" {
		why += ": " + b.reason
	}
	err := farsync.Break(within, store, l.Join(b.path), farsync.Token(b.token), &farsync.BreakOptions{Why: why, Remove: b.remove})
	switch {
	case err == nil:
		return b.done("broken")
	case errors.Is(err, farsync.ErrReleased):
		return &exit{codeNothing, err}
	case within.Err() != nil && !errors.Is(err, farsync.ErrUnavailable):
		return &exit{codeTaken, errors.New("the holder may have been told, and has not ended the lease yet")}
	default:
		return &exit{codeOf(err), err}
	}
}

// done says how the lease has ended.
func (b *breaking) done(outcome string) error {
	if !b.json {
		return nil
	}
	return b.print(breakJSON{1, b.path, b.token, outcome})
}

// breakJSON is what break --json writes.
type breakJSON struct {
	Schema  int    `json:"schema"`
	Path    string `json:"path"`
	Token   int64  `json:"token"`
	Outcome string `json:"outcome"` // released, when it was asked; broken
}

// confirm shows what holds, and has the token typed.
func (b *breaking) confirm(ctx context.Context, store *farsync.Store, l *location.Location, input io.Reader) error {
	if f, ok := input.(*os.File); !ok || !isTerminal(f) {
		return usage("without a terminal give --token and --yes")
	}
	locks, err := b.who(ctx, store, l, b.path)
	if err != nil {
		return err
	}
	if len(locks.Locks) == 0 {
		return &exit{codeNothing, errors.New("nothing holds " + b.path)}
	}
	if err := b.table(b.stdout, locks.Locks, time.Now()); err != nil {
		return err
	}
	fmt.Fprint(b.stdout, "Type the token of the lease to end: ")
	line, err := bufio.NewReader(input).ReadString('\n')
	if err == nil {
		b.token, err = strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	}
	if err != nil {
		return usage("that is no token: nothing was done")
	}
	return nil
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0 && f.Name() != os.DevNull
}

// operator returns the user and the host that break a lock. The reason begins with them.
func operator() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return host
}
