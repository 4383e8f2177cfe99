package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

func (a *app) whoVerb() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "who [PATH | PREFIX/]",
		Short: "Show what holds and what waits",
		Long: `who shows the holders of PATH and those that wait for it, or with a slash at the end all paths below it. Without an
argument it shows all paths. It exits with 1 if there are none.

What it shows was so a moment ago. Never decide by it that a lock is free.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.paths,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			which := "/"
			if len(arguments) == 1 {
				which = arguments[0]
			}
			return a.with(cmd.Context(), func(store *farsync.Store, l *location.Location) error {
				locks, err := a.who(cmd.Context(), store, l, which)
				switch {
				case err != nil:
					return err
				case asJSON:
					err = a.print(locks)
				case len(locks.Locks) > 0:
					err = a.table(locks.Locks, time.Now())
				}
				if err == nil && len(locks.Locks) == 0 {
					return &exit{code: codeNothing}
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one line of JSON")
	return cmd
}

// The JSON of who. docs/COMMAND.md explains the fields; a field that is not known is left out.
type (
	whoJSON struct {
		Schema int        `json:"schema"`
		Locks  []lockJSON `json:"locks"`
	}
	lockJSON struct {
		Path         string     `json:"path"`
		Participants []userJSON `json:"participants"`
	}
	userJSON struct {
		Holder  string        `json:"holder"`
		Held    bool          `json:"held"`
		Kind    string        `json:"kind"`
		Units   int64         `json:"units"`
		Token   farsync.Token `json:"token"`
		Since   *time.Time    `json:"since,omitempty"`
		ID      string        `json:"id"`
		Session string        `json:"session,omitempty"`
	}
)

// who returns the users of a path, or of all that begin with a prefix.
func (a *app) who(ctx context.Context, store *farsync.Store, l *location.Location, which string) (whoJSON, error) {
	found := whoJSON{Schema: 1, Locks: []lockJSON{}}
	for lock, err := range a.locks(ctx, store, l, which) {
		if err != nil {
			return found, err
		}
		one := lockJSON{Path: shown(l, lock.Path)}
		for _, p := range lock.Participants {
			user := userJSON{
				Holder: p.Holder, Held: p.Held, Kind: p.Kind.String(), Units: p.Units, Token: p.Token, ID: p.ID, Session: p.Session,
			}
			if !p.Since.IsZero() {
				since := p.Since.UTC()
				user.Since = &since
			}
			one.Participants = append(one.Participants, user)
		}
		found.Locks = append(found.Locks, one)
	}
	return found, nil
}

func (a *app) locks(ctx context.Context, store *farsync.Store, l *location.Location, which string) iter.Seq2[farsync.Lock, error] {
	return func(yield func(farsync.Lock, error) bool) {
		if below, found := strings.CutSuffix(which, "/"); found {
			if below != "" {
				if err := recipe.CheckPath(below); err != nil {
					yield(farsync.Lock{}, &exit{codeData, err})
					return
				}
			}
			for lock, err := range farsync.Survey(ctx, store, l.Join(which)) {
				if errors.Is(err, errors.ErrUnsupported) {
					err = &exit{codeUnavailable, err}
				} else if err != nil {
					err = &exit{codeOf(err), err}
				}
				if !yield(lock, err) || err != nil {
					return
				}
			}
			return
		}
		if err := recipe.CheckPath(which); err != nil {
			yield(farsync.Lock{}, &exit{codeData, err})
			return
		}
		list, err := farsync.NewMutex(store, l.Join(which)).Participants(ctx)
		if err != nil {
			err = &exit{codeOf(err), err}
		}
		if err != nil || len(list) > 0 {
			yield(farsync.Lock{Path: l.Join(which), Participants: list}, err)
		}
	}
}

// table writes a line for each holder, and one for each that waits.
func (a *app) table(locks []lockJSON, now time.Time) error {
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "LOCK\tWHO\tKIND\tFOR\tTOKEN")
	for _, lock := range locks {
		place := 0
		for i, u := range lock.Participants {
			path, what := lock.Path, "holds"
			if i > 0 {
				path = ""
			}
			if !u.Held {
				place++
				what = "waits, " + ordinal(place)
			}
			kind := u.Kind
			if kind == driver.Permit.String() {
				kind = strconv.FormatInt(u.Units, 10) + " units"
			}
			since := "?"
			if u.Since != nil {
				since = ago(now.Sub(*u.Since))
			}
			fmt.Fprintf(t, "%s\t%s %s\t%s\t%s\t%d\n", path, name(farsync.Participant{Holder: u.Holder}), what, kind, since, u.Token)
		}
	}
	if err := t.Flush(); err != nil {
		return &exit{codeCannotRun, err}
	}
	return nil
}
