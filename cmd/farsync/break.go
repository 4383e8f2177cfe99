package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/recipe"
)

// A breaking is one call of break.
type breaking struct {
	*app
	path   string
	token  farsync.Token
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
lease, so break never ends one that was acquired after you looked: where goroutines of a Go program have handed the lock on, break
ends the lease with that token or none, and says which token holds. On a terminal break shows who holds PATH, and asks which lease
to end: where there is one holder, yes or its name is enough. Elsewhere give --token and --yes.

break asks that holder first, and no other, and waits for 10 s (--ask). A COMMAND of farsync run is killed at once when its lock is broken, and
may live on beside the next holder for the moment that takes. A process that has died needs no break: its lock is free a
TTL later.

A holder that cannot hear, etcdctl for example, is not told. With --delete its entry is removed all the same, and with it
whichever lease holds on it, and that holder works on: stop it first. Whoever may lock PATH may break it.

It exits with 75 if the holder has not ended the lease within --wait, and with 1 if no holder has that token.`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.paths,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			b.path = arguments[0]
			if err := recipe.CheckPath(b.path); err != nil {
				return &exit{codeData, err}
			}
			if cmd.Flags().Changed("token") != b.yes {
				return usage("--token and --yes go together: write both, or neither to be asked on the terminal")
			}
			if b.wait.Duration == 0 {
				return usage("--wait is 0, and the holder would not be told: write how long to wait until the lease has ended")
			}
			if b.remove && b.ask.set && b.ask.Duration > 0 {
				return usage("--delete asks nobody, and --ask does: write one of them")
			}
			if !b.yes && !isTerminal(os.Stdin) {
				return usage("without a terminal give --token and --yes: farsync who shows the tokens")
			}
			return a.with(cmd.Context(), func(store *farsync.Store, l *location.Location) error {
				return b.do(cmd.Context(), store, l, os.Stdin)
			})
		},
	}
	f := cmd.Flags()
	f.Var(anyFrom(1, (*int64)(&b.token), "T"), "token", "the token of the lease, as farsync who shows it")
	f.BoolVar(&b.yes, "yes", false, "do not ask")
	f.BoolVar(&b.remove, "delete", false, "remove the entry of a holder that cannot hear")
	f.Var(text{&b.reason, "TEXT"}, "reason", "what the holder is told")
	f.Var(&b.ask, "ask", "how long to wait for the holder after asking it; 0 does not ask (default 10s)")
	f.VarP(&b.wait, "wait", "w", "how long to wait until the lease has ended (default 30s)")
	return cmd
}

func (b *breaking) do(ctx context.Context, store *farsync.Store, l *location.Location, input io.Reader) error {
	if !b.yes {
		if err := b.confirm(ctx, store, l, input); err != nil {
			return err
		}
	}
	if b.ask.Duration > 0 && !b.remove {
		b.goesOn("asking the holder of token %d to give %s back, and waiting for %v at most", b.token, b.path, b.ask.Duration)
		_, left, err := askFor(ctx, store, l.Join(b.path), "break", b.token, b.ask.Duration)
		switch {
		case errors.Is(err, farsync.ErrReleased): // Break says so
		case errors.Is(err, recipe.ErrNoSession):
			return b.unheard(err)
		case err != nil:
			return &exit{codeOf(err), err}
		case left == nil:
			return b.done("released")
		}
	}
	b.goesOn("ending the lease with token %d on %s, and waiting for %v at most", b.token, b.path, b.wait.Duration)
	within, cancel := context.WithTimeout(ctx, b.wait.Duration)
	defer cancel()
	why := operator()
	if b.reason != "" {
		why += ": " + b.reason
	}
	err := store.Break(within, l.Join(b.path), b.token, &farsync.BreakOptions{Reason: why, Remove: b.remove})
	switch {
	case err == nil:
		return b.done("broken")
	case errors.Is(err, farsync.ErrReleased): // the text has the token that holds by now
		return &exit{codeNothing, err}
	case errors.Is(err, recipe.ErrNoSession):
		return b.unheard(err)
	case within.Err() != nil && !errors.Is(err, farsync.ErrUnavailable):
		return &exit{codeTaken, fmt.Errorf(
			"the holder of %s has not ended the lease with token %d within %v, and may be suspended or cut off: stop its process, "+
				"and then remove its entry with farsync break --token %[2]d --yes --delete %[1]s", b.path, b.token, b.wait.Duration)}
	default:
		return &exit{codeOf(err), err}
	}
}

// unheard is the error of an entry of no session, with the command that removes the entry.
func (b *breaking) unheard(err error) error {
	return &exit{codeOf(err), fmt.Errorf("%w, with farsync break --token %d --yes --delete %s", err, b.token, b.path)}
}

// goesOn says what break is doing, unless -q is given.
func (b *breaking) goesOn(format string, arguments ...any) {
	if !b.quiet {
		b.remark(fmt.Sprintf(format, arguments...))
	}
}

// done says how the lease has ended.
func (b *breaking) done(outcome string) error {
	if !b.json {
		ended := "and holds no more"
		if b.remove {
			ended = "by removing its entry: the next may hold now, and a holder who lives works on until it hears of that"
		}
		b.goesOn("the lease with token %d on %s was %s, %s", b.token, b.path, outcome, ended)
		return nil
	}
	return b.print(breakJSON{1, b.path, b.token, outcome})
}

// breakJSON is what break --json writes.
type breakJSON struct {
	Schema  int           `json:"schema"`
	Path    string        `json:"path"`
	Token   farsync.Token `json:"token"`
	Outcome string        `json:"outcome"` // released, when it was asked; broken
}

// confirm shows who holds, and has the lease to end typed.
func (b *breaking) confirm(ctx context.Context, store *farsync.Store, l *location.Location, input io.Reader) error {
	locks, err := b.who(ctx, store, l, b.path)
	if err != nil {
		return err
	}
	if locks.Silence != nil {
		return &exit{codeUnavailable, errors.New(locks.Silence.words)} // who held before is not known any more
	}
	var holders []userJSON
	for _, lock := range locks.Locks {
		for _, u := range lock.Participants {
			if u.Held {
				holders = append(holders, u)
			}
		}
	}
	if len(holders) == 0 {
		return &exit{codeNothing, errors.New("nobody holds " + b.path)}
	}
	shown := b.stdout
	if b.json {
		shown = b.stderr
	}
	columns, _ := screen(shown)
	if err := b.table(shown, locks.Locks, time.Now(), columns); err != nil {
		return err
	}
	if err := writeStrays(shown, locks.Locks); err != nil {
		return unwritten(err)
	}
	if !slices.ContainsFunc(holders, func(u userJSON) bool { return u.Token > 0 }) {
		return &exit{codeNothing, errors.New("no lease holds " + b.path + ", and farsync break ends leases alone: nothing was done")}
	}
	ask := "Type the token of the lease to end: "
	if len(holders) == 1 {
		ask = "End this lease? Type yes, the name of its holder, or its token: "
	}
	if _, err := fmt.Fprint(shown, ask); err != nil {
		return unwritten(err)
	}
	line, err := bufio.NewReader(input).ReadString('\n')
	if err != nil {
		return usage("nothing was typed, and nothing was done")
	}
	b.token, err = chosen(holders, strings.TrimSpace(line))
	return err
}

// chosen returns the token that a line names: by itself, or by yes or a name where there is one holder.
func chosen(holders []userJSON, line string) (farsync.Token, error) {
	one := holders[0]
	if len(holders) == 1 && (strings.EqualFold(line, "yes") || line != "" && (line == one.Holder || line == one.name())) {
		return one.Token, nil
	}
	token := int64(0)
	if err := anyFrom(1, &token, "T").Set(line); err == nil {
		return farsync.Token(token), nil
	}
	if len(holders) == 1 {
		return 0, usage("%s is neither yes, nor the name of the holder, nor a token: nothing was done", legible.Quote(line))
	}
	return 0, usage("%s is no token, and there are %d holders: nothing was done", legible.Quote(line), len(holders))
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
