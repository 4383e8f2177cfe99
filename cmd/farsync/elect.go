//go:build unix

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/guard"
)

func (a *app) electVerb() *cobra.Command {
	w := &work{app: a, request: request{units: 1, kind: farsync.KindCandidate}, conflict: codeTaken}
	cmd := &cobra.Command{
		Use:               "elect [flags] PATH -- COMMAND [ARGUMENT…]",
		ValidArgsFunction: a.paths,
		Short:             "Run COMMAND while leading, and again after a loss",
		Long: `elect stands for election on PATH, and runs COMMAND while it leads. When it no longer leads, COMMAND is ended before
another candidate can, as run does it, and elect stands for election again. It ends when COMMAND ends by itself, and
after a loss if COMMAND was sent SIGINT or SIGTERM.`,
		Example: "  farsync elect /leader/relay -- relayd",
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if at := cmd.ArgsLenAtDash(); at != 1 && (at >= 0 || len(arguments) != 1) {
				return usage("elect takes one PATH: write farsync elect PATH -- COMMAND")
			}
			if err := w.checkSession(); err != nil {
				return err
			}
			return w.do(cmd, arguments, w.terms)
		},
	}
	f := cmd.Flags()
	f.Var(text{&w.request.value, "TEXT"}, "value", "what farsync leader shows (default the host, the process ID and the label)")
	f.Var(&w.ttl, "ttl", "how long the service keeps the lead when it hears no more (default 10s)")
	f.Var(text{&w.label, "TEXT"}, "label", "what others see behind the host and the process ID")
	w.jobFlags(cmd)
	return cmd
}

// terms is elect, in the supervisor.
func (w *work) terms(link *guard.Link) guard.End {
	return w.report(w.during(link, func(ctx context.Context, store *farsync.Store, r *result) error {
		for {
			if again, err := w.turn(ctx, link, store, r); !again || err != nil {
				return err
			}
			w.remark("standing for election again")
			*r = result{Schema: r.Schema, Outcome: "failed", Path: r.Path}
		}
	}))
}
