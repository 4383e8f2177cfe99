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

func (a *app) resizeVerb() *cobra.Command {
	declared := int64(0)
	cmd := &cobra.Command{
		Use:   "resize --limit DECLARED PATH SIZE",
		Short: "Change how many units of a semaphore may be held",
		Long: `resize sets how many units of PATH may be held at once, until it is set again. It takes nothing from holders. DECLARED is
what the users of PATH say with --limit. If they say another size, that size stays and SIZE is set all the same, after a second
or so, in which they may leave. A line then says which size they say; with --json that is declared.

They go on saying that, also in a later deployment: a user who says another size than those who are there is refused with 65. So 3 units
become 5, before a rolling deployment or after it, by a resize --limit 3 PATH 5, and --limit 3 stays. A new --limit is for a moment at which
no user is left. Where another program has written something else in the place of the size, resize sets it again.`,
		Args:              takes(2, 2),
		ValidArgsFunction: a.paths,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			size := int64(0)
			if err := anyFrom(1, &size, "SIZE").Set(arguments[1]); err != nil {
				return usage("SIZE %s: %w", legible.Text(arguments[1]), err)
			}
			if declared < 1 {
				return usage("--limit is missing: write the size that the users of PATH say, and go on saying in a rolling deployment, before or after this: %s", written(cmd))
			}
			if err := recipe.CheckPath(arguments[0]); err != nil {
				return &exit{codeData, err}
			}
			return a.with(cmd.Context(), func(store *farsync.Store, l *location.Location) error {
				queue := recipe.Queue{Store: beneath.Store(store), Path: l.Join(arguments[0])}
				stays, err := queue.Resize(cmd.Context(), declared, size)
				if err != nil {
					err = &farsync.Error{Op: "resize", Path: queue.Path, Err: err}
					return &exit{codeOf(err), err}
				}
				if a.json {
					return a.print(sizeJSON{1, arguments[0], stays, size})
				}
				if stays != declared && !a.quiet {
					a.say(fmt.Sprintf("the users of %s say --limit %d, not %d, and go on saying it: %d units may be held now", arguments[0], stays, declared, size))
				}
				return nil
			})
		},
	}
	cmd.Flags().Var(anyFrom(1, &declared, "DECLARED"), "limit", "the size that the users of PATH say")
	return cmd
}

// sizeJSON is what resize --json writes.
type sizeJSON struct {
	Schema   int    `json:"schema"`
	Path     string `json:"path"`
	Declared int64  `json:"declared,string"` // what the users say, which --limit need not be
	Size     int64  `json:"size,string"`
}
