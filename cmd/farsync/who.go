package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/recipe"
)

func (a *app) whoVerb() *cobra.Command {
	tree := false
	var s sieve
	by := bySort("path")
	cmd := &cobra.Command{
		Use:   "who [PATH | PREFIX/]",
		Short: "Show who holds and who waits",
		Long: `who shows the holders of PATH and the waiters, or with a slash at the end all paths below it. Without an argument it shows
all paths. It exits with 1 if there are none, and with 69 if the service grants nothing for a while: the service has forgotten
who held before.

With --tree it shows below each holder what this holder waits for before it gives the lock back, as far as the holder has
said so: farsync run on several paths does, and so does a Go program that passes on the context of its lease. Holders that
wait for one another are marked.

A holder whose COMMAND has ended, and has left processes running, is shown with the processes that it waits for.

A waiter may stand for several callers: those of one process wait for a lock behind one entry, or a few, and take turns on it.

FOR is how long a holder has held or a waiter has waited. A holder with ≤ has been in the queue for so long, and may have
held for less: the service does not note since when it holds. With ? the time is not in the service. An entry
that belongs to no session is named in a line below: it blocks the queue until somebody deletes it.

What it shows was so a moment ago. Never decide by it that a lock is free.`,
		Args:              takes(0, 1),
		ValidArgsFunction: a.paths,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			which := "/"
			if len(arguments) == 1 {
				which = arguments[0]
			}
			if err := checkWhich(which); err != nil {
				return err
			}
			if tree && a.json {
				return usage("--tree is for people: leave it out, for --json says under which lease a user waits")
			}
			return a.with(cmd.Context(), func(store *farsync.Store, l *location.Location) error {
				locks, err := a.who(cmd.Context(), store, l, which)
				if err != nil {
					return err
				}
				now := time.Now()
				locks.Locks = s.sift(locks.Locks, now)
				by.sort(locks.Locks)
				if locks.Silence != nil && !a.json {
					a.say(locks.Silence.words)
				}
				switch {
				case a.json:
					err = a.print(locks)
				case tree:
					err = unwritten(grow(locks.Locks, now).write(a.stdout))
				case len(locks.Locks) > 0:
					columns, _ := screen(a.stdout)
					err = a.table(a.stdout, locks.Locks, now, columns)
				}
				if err == nil && !a.json {
					err = unwritten(writeStrays(a.stdout, locks.Locks))
				}
				if err == nil && len(locks.Locks) == 0 && locks.Silence != nil {
					return &exit{code: codeUnavailable} // who held before is not known any more, and may work on until its deadline
				}
				if err == nil && len(locks.Locks) == 0 {
					if !a.quiet && !a.json {
						a.say(s.nothing(which))
					}
					return &exit{code: codeNothing}
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&tree, "tree", false, "show what holders wait for")
	s.flags(cmd)
	by.flag(cmd)
	return cmd
}

// The JSON of who. docs/COMMAND.md explains the fields; a field that is not known is left out.
//
// In the JSON of all verbs a number that may have 64 bits is a string: jq 1.6 and JavaScript read numbers as floats of
// 64 bits, which keep 53, so that a token would come out as another one.
type (
	whoJSON struct {
		Schema int        `json:"schema"`
		Locks  []lockJSON `json:"locks"`
		// Silence is there while the service grants nothing to anybody.
		Silence *silenceJSON `json:"silence,omitempty"`
	}
	silenceJSON struct {
		Until time.Time `json:"until"`
		Why   string    `json:"why"`

		words string
	}
	lockJSON struct {
		Path         string     `json:"path"`
		Participants []userJSON `json:"participants"`
		// Error says that the size of a semaphore is not known, or names an entry that no session will ever remove.
		Error string `json:"error,omitempty"`
	}
	userJSON struct {
		Holder string        `json:"holder"`
		Held   bool          `json:"held"`
		Kind   string        `json:"kind"`
		Units  int64         `json:"units,string"`
		Token  farsync.Token `json:"token"`
		Joined *time.Time    `json:"joined,omitempty"` // the queue
		// A holder has one of these: when it came to hold; or a time before which it did not.
		HeldSince *time.Time `json:"held_since,omitempty"`
		HeldAfter *time.Time `json:"held_after,omitempty"`

		ID      string   `json:"id"`
		Session string   `json:"session,omitempty"`
		Under   []string `json:"under,omitempty"`
		Note    string   `json:"note,omitempty"`
		// WaitsFor is what a holder waits for before it gives the lock back.
		WaitsFor string `json:"waits_for,omitempty"`

		kind farsync.Kind
	}
)

// MarshalJSON bounds what others have written.
func (u userJSON) MarshalJSON() ([]byte, error) {
	type plain userJSON
	p := plain(u)
	for _, text := range []*string{&p.Holder, &p.ID, &p.Session, &p.Note, &p.WaitsFor} {
		*text = legible.Cut(*text, mostJSON)
	}
	size := 0
	for i, id := range p.Under {
		if size += len(id); size > mostJSON {
			p.Under = p.Under[:i]
			break
		}
	}
	return json.Marshal(p)
}

// name is the name of a user, in a form that is safe to print.
func (u userJSON) name() string { return name(u.Holder) }

// row is the line of a table that says of a user what it does on a path.
func (u userJSON) row(path, what string, now time.Time) row {
	return row{path, what, u.amount(), u.lasts(now), u.Token.String()}
}

// amount is the kind, or how many units.
func (u userJSON) amount() string {
	if u.Kind == farsync.KindPermit.String() {
		return units(u.Units)
	}
	return u.Kind
}

// units are so many units, in words.
func units(n int64) string {
	if n == 1 {
		return "1 unit"
	}
	return strconv.FormatInt(n, 10) + " units"
}

// lasts is for how long a holder has held, and a waiter has waited. Of most holders it is known only that it is no
// longer: since when they hold is not in the service.
func (u userJSON) lasts(now time.Time) string {
	switch {
	case u.HeldSince != nil:
		return ago(now.Sub(*u.HeldSince))
	case u.HeldAfter != nil:
		return "≤ " + ago(now.Sub(*u.HeldAfter))
	case !u.Held && u.Joined != nil:
		return ago(now.Sub(*u.Joined))
	}
	return "?"
}

// A sieve chooses locks by their users.
type sieve struct {
	holder  string
	waiting bool
	longer  patience
}

func (s *sieve) flags(cmd *cobra.Command) {
	cmd.Flags().Var(text{&s.holder, "TEXT"}, "holder", "only locks with a holder or a waiter whose name has this in it")
	cmd.Flags().BoolVar(&s.waiting, "waiting", false, "only locks that are waited for")
	cmd.Flags().Var(&s.longer, "longer", "only locks with a holder or a waiter that has been in the queue for longer")
}

// sift returns the locks that one of whose users passes each of the filters.
func (s *sieve) sift(locks []lockJSON, now time.Time) []lockJSON {
	return slices.DeleteFunc(locks, func(lock lockJSON) bool {
		if len(lock.Participants) == 0 { // it may not be read
			return s.holder != "" || s.waiting || s.longer.set
		}
		has := func(f func(userJSON) bool) bool { return slices.ContainsFunc(lock.Participants, f) }
		return !has(func(u userJSON) bool { return strings.Contains(u.Holder, s.holder) }) ||
			s.waiting && !has(func(u userJSON) bool { return !u.Held }) ||
			s.longer.set && !has(func(u userJSON) bool { return u.Joined != nil && now.Sub(*u.Joined) > s.longer.Duration })
	})
}

// nothing says that there are no such locks.
func (s *sieve) nothing(which string) string {
	text := "nobody holds or waits for " + which
	switch {
	case which == "/":
		text = "nobody holds or waits for a lock"
	case strings.HasSuffix(which, "/"):
		text = "nobody holds or waits for a lock below " + which
	}
	if s.holder != "" || s.waiting || s.longer.set {
		text += " of which --holder, --waiting and --longer are true"
	}
	return text
}

// A bySort is the order in which locks are shown.
type bySort string

func (b *bySort) flag(cmd *cobra.Command) {
	cmd.Flags().Var(b, "sort", "show locks by `ORDER`: path, for (those with who has been there for longest first) or waiting (the most waited for first)")
}

// Set checks the order.
func (b *bySort) Set(text string) error {
	if !slices.Contains([]string{"path", "for", "waiting"}, text) {
		return errors.New("not path, for or waiting")
	}
	*b = bySort(text)
	return nil
}

func (b *bySort) String() string { return string(*b) }

// Type is shown in the help.
func (b *bySort) Type() string { return "ORDER" }

// sort sorts locks that come in the order of their paths.
func (b *bySort) sort(locks []lockJSON) {
	switch *b {
	case "for":
		oldest := func(lock lockJSON) time.Time {
			first := time.Now()
			for _, u := range lock.Participants {
				if u.Joined != nil && u.Joined.Before(first) {
					first = *u.Joined
				}
			}
			return first
		}
		slices.SortStableFunc(locks, func(a, b lockJSON) int { return oldest(a).Compare(oldest(b)) })
	case "waiting":
		waiting := func(lock lockJSON) (n int) {
			for _, u := range lock.Participants {
				if !u.Held {
					n++
				}
			}
			return n
		}
		slices.SortStableFunc(locks, func(a, b lockJSON) int { return cmp.Compare(waiting(b), waiting(a)) })
	}
}

// who returns the users of a path, or of all that begin with a prefix.
func (a *app) who(ctx context.Context, store *farsync.Store, l *location.Location, which string) (whoJSON, error) {
	found := whoJSON{Schema: 1, Locks: []lockJSON{}}
	for lock, err := range a.locks(ctx, store, l, which) {
		if err != nil {
			return found, err
		}
		one := lockJSON{Path: shown(l, lock.Path), Participants: []userJSON{}}
		if lock.Err != nil {
			one.Error = words(lock.Err)
		}
		for _, p := range lock.Participants {
			one.Participants = append(one.Participants, userOf(p))
		}
		found.Locks = append(found.Locks, one)
	}
	if quiet := recipe.SilenceOf(beneath.Store(store)); quiet != nil {
		found.Silence = &silenceJSON{quiet.Until.UTC().Truncate(time.Millisecond), quiet.Why, quiet.Error()}
	}
	return found, nil
}

// stray says of a user whose entry no session will ever remove that it has to be deleted, or returns "". An entry that the
// error of the lock names needs no such words.
func (l lockJSON) stray(u userJSON) string {
	if u.Session != "" || strings.Contains(l.Error, legible.Quote(u.ID)) {
		return ""
	}
	return legible.Text(u.ID) + " belongs to no session, and blocks the queue for ever: delete it"
}

// strays returns a line for each such entry, and how to delete it if it holds: farsync break finds holders alone, by
// their tokens. A key of another program in the place of a queue has none.
func strays(locks []lockJSON) (lines []string) {
	for _, lock := range locks {
		for _, u := range lock.Participants {
			text := lock.stray(u)
			if text == "" {
				continue
			}
			switch {
			case u.Token <= 0:
				text += " by a client of the service: it has no token for farsync break"
			case u.Held:
				text += fmt.Sprintf(", by farsync break --token %s --yes --delete %s", u.Token, lock.Path)
			}
			lines = append(lines, fmt.Sprintf("%s: token %s: %s", lock.Path, u.Token, text))
		}
	}
	return lines
}

// writeStrays writes these lines, below a table.
func writeStrays(w io.Writer, locks []lockJSON) error {
	lines := strays(locks)
	if len(lines) == 0 {
		return nil
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// userOf leaves out Participant.Left: the Store of a verb that shows locks has left nothing behind, and of others
// nobody knows.
func userOf(p farsync.Participant) userJSON {
	user := userJSON{
		Holder: p.Holder, Held: p.Held, Kind: p.Kind.String(), Units: p.Units, Token: p.Token, ID: p.ID, Session: p.Session,
		Under: p.Under, Note: p.Note, WaitsFor: p.WaitsFor, kind: p.Kind,
	}
	user.Joined = known(p.Since)
	if user.HeldSince = known(p.HeldSince); p.Held && user.HeldSince == nil {
		user.HeldAfter = user.Joined
	}
	return user
}

// known returns a time, or nil if it is not known.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
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

func (a *app) locks(ctx context.Context, store *farsync.Store, l *location.Location, which string) iter.Seq2[farsync.LockInfo, error] {
	return func(yield func(farsync.LockInfo, error) bool) {
		if strings.HasSuffix(which, "/") {
			for lock, err := range store.Survey(ctx, l.Join(which)) {
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
		list, err := store.Participants(ctx, l.Join(which))
		switch {
		case len(list) > 0: // an error beside them is about the size, or an entry of no session
			if of, ok := errors.AsType[*farsync.Error](err); ok {
				err = of.Err
			}
			yield(farsync.LockInfo{Path: l.Join(which), Participants: list, Err: err}, nil)
		case err != nil:
			yield(farsync.LockInfo{}, &exit{codeOf(err), err})
		}
	}
}

// table writes a line for each holder, and one for each that waits, in so many columns, or in as many as it takes if
// width is 0.
func (a *app) table(w io.Writer, locks []lockJSON, now time.Time, width int) error {
	rows := []row{tableHead}
	for _, lock := range locks {
		path, place := lock.Path, 0
		if lock.Error != "" {
			rows = append(rows, row{path, legible.Text(lock.Error), "", "", ""})
			path = ""
		}
		for _, u := range lock.Participants {
			what := "holds"
			switch {
			case !u.Held:
				place++
				what = "waits, " + ordinal(place)
			case u.WaitsFor != "":
				what = "holds, waits for " + legible.Text(u.WaitsFor)
			}
			rows = append(rows, u.row(path, u.name()+" "+what, now))
			path = ""
		}
	}
	return unwritten(writeTable(w, rows, width))
}
