package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
)

// views are the verbs that look at locks, and the verbs of the command itself.
func (a *app) views() []*cobra.Command {
	return []*cobra.Command{
		a.whoVerb(), a.watchVerb(), a.serveVerb(), a.leaderVerb(), a.askVerb(), a.breakVerb(), a.resizeVerb(), a.doctorVerb(),
		a.schemaVerb(), a.completionVerb(), a.manVerb(), a.versionVerb(),
	}
}

// print writes one line of JSON.
func (a *app) print(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(a.stdout, "%s\n", line)
	}
	return unwritten(err)
}

// shown returns a path of the service as the user would write it.
func shown(l *location.Location, path string) string { return strings.TrimPrefix(path, l.Prefix) }

// completing is how long the shell waits for names.
const completing = 3 * time.Second

// paths completes a PATH with the paths that are in use.
func (a *app) paths(_ *cobra.Command, arguments []string, word string) (list []string, _ cobra.ShellCompDirective) {
	if len(arguments) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a.quiet = true
	ctx, cancel := context.WithTimeout(context.Background(), completing)
	defer cancel()
	_ = a.with(ctx, func(store *farsync.Store, l *location.Location) error {
		for lock, err := range store.Survey(ctx, l.Join(word)) {
			if err != nil || len(list) == 1000 {
				break
			}
			list = append(list, shown(l, lock.Path))
		}
		return nil
	})
	return list, cobra.ShellCompDirectiveNoFileComp
}
