package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/recipe"
)

func (a *app) resizeVerb() *cobra.Command {
	declared := int64(0)
	cmd := &cobra.Command{
		Use:   "resize --limit DECLARED PATH SIZE",
		Short: "Change how many units of a semaphore may be held",
		Long: `resize sets how many units of PATH may be held at once, until it is set again. It takes nothing from holders. DECLARED is
what the users of PATH say with --limit; they go on saying that.`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.paths,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			size, err := strconv.ParseInt(arguments[1], 10, 64)
			if err != nil || size < 1 {
				return usage("SIZE is a number from 1 on")
			}
			if declared < 1 {
				return usage("--limit is a number from 1 on")
			}
			if err := recipe.CheckPath(arguments[0]); err != nil {
				return &exit{codeData, err}
			}
			return a.with(cmd.Context(), func(store *farsync.Store, l *location.Location) error {
				if err := farsync.NewSemaphore(store, l.Join(arguments[0]), declared).Resize(cmd.Context(), size); err != nil {
					return &exit{codeOf(err), err}
				}
				if a.json {
					return a.print(sizeJSON{1, arguments[0], declared, size})
				}
				return nil
			})
		},
	}
	cmd.Flags().Int64Var(&declared, "limit", 0, "the `SIZE` that the users of PATH declare")
	return cmd
}

// sizeJSON is what resize --json writes.
type sizeJSON struct {
	Schema   int    `json:"schema"`
	Path     string `json:"path"`
	Declared int64  `json:"declared"`
	Size     int64  `json:"size"`
}
