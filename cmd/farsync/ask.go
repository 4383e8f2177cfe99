package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/recipe"
)

// lookAgain is how often ask looks whether the lock was given back.
const lookAgain = 200 * time.Millisecond

func (a *app) askVerb() *cobra.Command {
	var wait patience
	cmd := &cobra.Command{
		Use:   "ask PATH",
		Short: "Ask the holders of a lock to give it back",
		Long: `ask asks the holders of PATH to give it back. It forces nothing: farsync run says so to those who watch it, and with
--on-ask term ends its COMMAND, once that has run for 3 seconds, or a third of the TTL if that is less. With --wait, ask waits until those that hold have given it back, and exits with 75 if they
have not.`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.paths,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := recipe.CheckPath(arguments[0]); err != nil {
				return &exit{codeData, err}
			}
			ctx := cmd.Context()
			return a.with(ctx, func(store *farsync.Store, l *location.Location) error {
				asked, left, err := askFor(ctx, store, l.Join(arguments[0]), "ask", anyToken, wait.Duration)
				if err != nil {
					return &exit{codeOf(err), err}
				}
				if a.json {
					if err := a.print(askJSON{1, arguments[0], asked > 0 && left == nil, asked}); err != nil {
						return err
					}
				}
				if asked == 0 && !a.quiet && !a.json {
					a.say("nobody holds " + arguments[0] + ": no holder was asked")
				}
				if left != nil && wait.Duration > 0 {
					return &exit{codeTaken, errors.New("still held by " + name(left.Holder))}
				}
				return nil
			})
		},
	}
	cmd.Flags().VarP(&wait, "wait", "w", "wait for so long until it was given back; a number is seconds")
	return cmd
}

// askJSON is what ask --json writes.
type askJSON struct {
	Schema int    `json:"schema"`
	Path   string `json:"path"`
	Given  bool   `json:"given"` // the holders have given it back; false if there were none
	Asked  int    `json:"asked"` // how many held
}

// anyToken has askFor ask all that hold.
const anyToken = farsync.Token(-1)

// turnOf returns the number of the turn in a token.
func turnOf(token farsync.Token) int { return int(token & 0xff) }

// askFor asks the holders of a path to give it back, or only the holder whose lease has the token. It asks the entries
// that it has listed: a client that holds by the time is not asked in place of a client that has gone. It waits for so
// long until all that it has asked have given it back, and returns how many it has asked, and a holder who has not
// given it back. ErrReleased: no holder has the token.
func askFor(
	ctx context.Context, store *farsync.Store, path, verb string, token farsync.Token, wait time.Duration,
) (count int, left *farsync.Participant, err error) {
	failed := func(err error) error { return &farsync.Error{Op: verb, Path: path, Err: err} }
	queue := recipe.Queue{Store: beneath.Store(store), Path: path}
	list, held, err := queue.List(ctx, 0)
	if err != nil {
		return 0, nil, failed(err)
	}
	if quiet := recipe.SilenceOf(beneath.Store(store)); held == 0 && quiet != nil {
		return 0, nil, failed(quiet) // who held before is not known any more, and may work on until its deadline
	}
	asked := slices.DeleteFunc(list[:held], func(e driver.Entry) bool { return token != anyToken && e.Revision != token.Revision() })
	if token != anyToken && len(asked) == 0 {
		return 0, nil, failed(fmt.Errorf("%w: no holder has token %d", farsync.ErrReleased, token))
	}
	ask := queue.Ask
	if token != anyToken {
		ask = func(ctx context.Context, e driver.Entry) error { return queue.AskTurn(ctx, e, turnOf(token)) }
	}
	if err := recipe.AskEach(ctx, asked, ask); err != nil {
		return 0, nil, failed(err)
	}
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for end := time.After(wait); ; {
		list, err := store.Participants(ctx, path)
		if err != nil && len(list) == 0 {
			return 0, nil, err
		}
		at := slices.IndexFunc(list, func(p farsync.Participant) bool {
			return slices.ContainsFunc(asked, func(e driver.Entry) bool { return e.Revision == p.Token.Revision() })
		})
		if quiet := recipe.SilenceOf(beneath.Store(store)); at < 0 && len(asked) > 0 && quiet != nil {
			return 0, nil, failed(quiet) // it was not given back: the service has forgotten it
		}
		if at < 0 {
			return len(asked), nil, nil
		}
		if now := list[at].Token; token != anyToken && turnOf(now) > 0 && now != token {
			return 0, nil, failed(fmt.Errorf("%w: no holder has token %d; token %d holds, of the same entry", farsync.ErrReleased, token, now))
		}
		select {
		case <-look.C:
		case <-end:
			return len(asked), &list[at], nil
		}
	}
}
