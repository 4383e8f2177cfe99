package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/recipe"
)

func (a *app) leaderVerb() *cobra.Command {
	watch := false
	cmd := &cobra.Command{
		Use:               "leader PATH",
		Short:             "Show the value of the leader",
		Long:              "leader writes the value of the leader of PATH, and exits with 1 if there is none.",
		Args:              takes(1, 1),
		ValidArgsFunction: a.paths,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := recipe.CheckPath(arguments[0]); err != nil {
				return &exit{codeData, err}
			}
			ctx, stop := a.untilSignal(cmd.Context())
			defer stop()
			show := func(leader farsync.Leader) error {
				switch {
				case a.json && leader == farsync.Leader{}:
					return a.print(leaderJSON{Schema: 1})
				case a.json:
					value := legible.Cut(leader.Value, mostJSON)
					return a.print(leaderJSON{1, &value, leader.Token})
				}
				text := leader.Value
				if f := fileOf(a.stdout); f != nil && isTerminal(f) {
					text = legible.Line(text)
				}
				_, err := fmt.Fprintln(a.stdout, text)
				return unwritten(err)
			}
			return a.with(ctx, func(store *farsync.Store, l *location.Location) error {
				election := farsync.NewElection(store, l.Join(arguments[0]))
				if !watch {
					leader, err := election.Leader(ctx)
					if err != nil {
						return &exit{codeOf(err), err}
					}
					return show(leader)
				}
				if quiet := recipe.SilenceOf(beneath.Store(store)); quiet != nil {
					a.complain(&exit{codeOf(quiet), quiet}) // nothing is seen before it is over
				}
				for leader, err := range election.Observe(ctx) {
					switch {
					case ctx.Err() != nil:
						return nil
					case err != nil:
						return &exit{codeOf(err), err}
					}
					if err := show(leader); err != nil && ctx.Err() == nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "a line whenever it changes, empty if there is none, until a signal comes")
	return cmd
}

// leaderJSON has no value if there is no leader.
type leaderJSON struct {
	Schema int           `json:"schema"`
	Value  *string       `json:"value,omitempty"`
	Token  farsync.Token `json:"token,omitempty"`
}
