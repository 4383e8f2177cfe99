package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
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
	tree := false
	var s sieve
	cmd := &cobra.Command{
		Use:   "who [PATH | PREFIX/]",
		Short: "Show what holds and what waits",
		Long: `who shows the holders of PATH and those that wait for it, or with a slash at the end all paths below it. Without an
argument it shows all paths. It exits with 1 if there are none.

With --tree it shows below each holder what that waits for before it gives the lock back, as far as it has said so: farsync run
on several paths does, and so does a Go program that passes on the context of its lease. Holders that wait for one
another are marked.

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
				if err != nil {
					return err
				}
				now := time.Now()
				locks.Locks = s.sift(locks.Locks, now)
				switch {
				case a.json:
					err = a.print(locks)
				case tree:
					err = grow(locks.Locks, now).write(a.stdout)
				case len(locks.Locks) > 0:
					err = a.table(a.stdout, locks.Locks, now)
				}
				if err == nil && len(locks.Locks) == 0 {
					return &exit{code: codeNothing}
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&tree, "tree", false, "show what holders wait for")
	s.flags(cmd)
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
		Under   []string      `json:"under,omitempty"`
		Note    string        `json:"note,omitempty"`

		kind driver.Kind
	}
)

// name is that of a user, in a form that is safe to print.
func (u userJSON) name() string { return name(farsync.Participant{Holder: u.Holder}) }

// amount is the kind, or how many units.
func (u userJSON) amount() string {
	if u.Kind == driver.Permit.String() {
		return strconv.FormatInt(u.Units, 10) + " units"
	}
	return u.Kind
}

// A sieve chooses locks by their users.
type sieve struct {
	holder  string
	waiting bool
	longer  patience
}

func (s *sieve) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.holder, "holder", "", "only locks with a holder or a waiter whose name has this `TEXT` in it")
	cmd.Flags().BoolVar(&s.waiting, "waiting", false, "only locks that are waited for")
	cmd.Flags().Var(&s.longer, "longer", "only locks with a holder or a waiter that has been there for longer")
}

// sift returns the locks that one of whose users passes each of the filters.
func (s *sieve) sift(locks []lockJSON, now time.Time) []lockJSON {
	return slices.DeleteFunc(locks, func(lock lockJSON) bool {
		has := func(f func(userJSON) bool) bool { return slices.ContainsFunc(lock.Participants, f) }
		return !has(func(u userJSON) bool { return strings.Contains(u.Holder, s.holder) }) ||
			s.waiting && !has(func(u userJSON) bool { return !u.Held }) ||
			s.longer.set && !has(func(u userJSON) bool { return u.Since != nil && now.Sub(*u.Since) > s.longer.Duration })
	})
}

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
				Under: p.Under, Note: p.Note, kind: p.Kind,
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

// checkWhich checks a path, or a prefix that ends with a slash.
func checkWhich(which string) error {
	if which == "/" {
		return nil
	}
	if err := recipe.CheckPath(strings.TrimSuffix(which, "/")); err != nil {
		return &exit{codeData, err}
	}
	return nil
}

func (a *app) locks(ctx context.Context, store *farsync.Store, l *location.Location, which string) iter.Seq2[farsync.Lock, error] {
	return func(yield func(farsync.Lock, error) bool) {
		if err := checkWhich(which); err != nil {
			yield(farsync.Lock{}, err)
			return
		}
		if strings.HasSuffix(which, "/") {
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
func (a *app) table(w io.Writer, locks []lockJSON, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
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
			since := "?"
			if u.Since != nil {
				since = ago(now.Sub(*u.Since))
			}
			fmt.Fprintf(t, "%s\t%s %s\t%s\t%s\t%d\n", path, u.name(), what, u.amount(), since, u.Token)
		}
	}
	if err := t.Flush(); err != nil {
		return &exit{codeCannotRun, err}
	}
	return nil
}
