package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/internal/legible"
)

func (a *app) watchVerb() *cobra.Command {
	every := patience{Duration: time.Second}
	var s sieve
	by := bySort("path")
	cmd := &cobra.Command{
		Use:   "watch [PATH | PREFIX/]",
		Short: "Show who holds and who waits, as it changes",
		Long: `watch shows the table of farsync who and draws it anew, until q is typed or a signal comes. A table that is too wide for the
terminal shortens names in their middle, and leaves out first the kinds and then the tokens. Where standard output is no terminal, it writes
a line for each change instead: of a user of a lock that holds, that waits, or that has gone. An entry that belongs to no session
is named in a line below the table, as by farsync who; in a pipe once, on standard error.

It looks once a second (--every). What comes and goes in between is not seen, and what it shows was so a moment ago.`,
		Args:              takes(0, 1),
		ValidArgsFunction: a.paths,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if every.Duration < 200*time.Millisecond {
				return usage("--every %v: write 0.2 or more", every.Duration)
			}
			which := "/"
			if len(arguments) == 1 {
				which = arguments[0]
			}
			if err := checkWhich(which); err != nil {
				return err
			}
			ctx, stop := a.untilSignal(cmd.Context())
			defer stop()
			return a.with(ctx, func(store *farsync.Store, l *location.Location) error {
				v := &view{app: a, store: store, location: l, which: which, sieve: s, by: by}
				return v.run(ctx, every.Duration)
			})
		},
	}
	cmd.Flags().Var(&every, "every", "how often to look; a number is seconds (default 1s)")
	s.flags(cmd)
	by.flag(cmd)
	return cmd
}

// A view is one call of watch.
type view struct {
	*app
	store    *farsync.Store
	location *location.Location
	which    string
	sieve    sieve
	by       bySort
	keys     bool // of the terminal are read

	seen map[string]eventJSON // what has been written of the users that are there, by path and ID
	last []lockJSON           // what was seen last
	// When the users that are there were last seen to wait, by path and revision.
	waited map[string]time.Time
	at     time.Time       // when
	hush   *silenceJSON    // why nothing was granted then, or nil
	told   bool            // that nothing is granted
	odd    map[string]bool // the lines that have said what is wrong with the locks of the last look
}

// run looks until ctx is done. A service that does not answer is waited for.
func (v *view) run(ctx context.Context, every time.Duration) error {
	if _, rows := screen(v.stdout); rows > 0 && !v.json {
		fmt.Fprint(v.stdout, "\x1b[?1049h\x1b[?25l") // another screen, no cursor
		defer fmt.Fprint(v.stdout, "\x1b[?25h\x1b[?1049l")
		quit, end := context.WithCancel(ctx)
		defer end()
		ctx = quit
		var restore func()
		restore, v.keys = readKeys(func(key byte) {
			if key == 'q' {
				end()
			}
		})
		defer restore()
	}
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, max(every, completing))
		locks, err := v.who(within, v.store, v.location, v.which)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			now := time.Now()
			v.bound(locks.Locks, now)
			v.last, v.at, v.hush = v.sieve.sift(locks.Locks, now), now, locks.Silence
			v.by.sort(v.last)
		}
		if err := v.show(err); err != nil && ctx.Err() == nil {
			return unwritten(err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// bound notes when users of locks wait, and of the users who hold since then, that they did not hold before. The time
// is the time of the look before.
func (v *view) bound(locks []lockJSON, now time.Time) {
	waited := map[string]time.Time{}
	for _, lock := range locks {
		for i := range lock.Participants {
			u := &lock.Participants[i]
			key := fmt.Sprint(lock.Path, " ", u.Token.Revision())
			seen, before := v.waited[key]
			switch {
			case !u.Held:
				waited[key] = now
			case before:
				waited[key] = seen
				if u.HeldAfter != nil {
					u.HeldAfter = known(seen)
				}
			}
		}
	}
	v.waited = waited
}

// show shows what was seen last, or that it could not be seen.
func (v *view) show(missing error) error {
	if columns, rows := screen(v.stdout); rows > 0 && !v.json {
		return v.draw(columns, rows, missing)
	}
	if missing != nil {
		e, coded := errors.AsType[*exit](missing)
		if !coded || errors.Is(missing, context.DeadlineExceeded) { // the time of a look has passed
			e = &exit{codeUnavailable, missing}
		}
		v.complain(e)
		return nil
	}
	if v.hush != nil && !v.told && !v.json {
		v.say(v.hush.words)
	}
	v.told = v.hush != nil
	wrong := strays(v.last)
	for _, lock := range v.last {
		if lock.Error != "" {
			wrong = append(wrong, lock.Path+": "+lock.Error)
		}
	}
	odd := map[string]bool{}
	for _, line := range wrong {
		if odd[line] = true; !v.odd[line] {
			v.remark(line)
		}
	}
	v.odd = odd
	for _, e := range v.events() {
		if v.json {
			if err := v.print(e); err != nil {
				return err
			}
			continue
		}
		why := ""
		if e.Event == "holds" && e.User.WaitsFor != "" {
			why = ", waits for " + legible.Text(e.User.WaitsFor)
		}
		_, err := fmt.Fprintf(v.stdout, "%s %s %s %s %s %d%s\n",
			e.Time.Format(time.RFC3339), e.Path, e.Event, e.User.name(), e.User.amount(), e.User.Token, why)
		if err != nil {
			return err
		}
	}
	return nil
}

// draw draws the terminal anew.
func (v *view) draw(columns, rows int, missing error) error {
	var b bytes.Buffer
	if err := v.table(&b, v.last, time.Now(), columns); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	title := fmt.Sprintf("%s  %s", v.location, v.at.Format(time.TimeOnly))
	if v.hush != nil {
		title += "  !! " + v.hush.words
	}
	if missing != nil {
		title += "  !! " + words(missing)
	}
	lines = slices.Concat(wrap(title, columns), []string{""}, lines)
	for _, line := range strays(v.last) {
		lines = append(lines, wrap(line, columns)...)
	}
	last := "Ctrl-C ends"
	if v.keys {
		last = "q or Ctrl-C ends"
	}
	// The last line of the terminal says how to end, and the line before it, for how many lines there is no room.
	if over := len(lines) - (rows - 1); over > 0 {
		lines = lines[:max(rows-1, 0)]
		if v.by != "for" {
			last += "; --sort for has those first who have been there for longest"
		}
		last = fmt.Sprintf("and %d more; ", over) + last
	}
	for len(lines) < rows-1 {
		lines = append(lines, "")
	}
	lines = append(lines, last)
	var text strings.Builder
	text.WriteString("\x1b[H")
	for i, line := range lines {
		if i > 0 {
			text.WriteString("\r\n")
		}
		text.WriteString(cut(line, columns) + "\x1b[K")
	}
	_, err := fmt.Fprint(v.stdout, text.String()+"\x1b[J")
	return err
}

// An eventJSON is one line of watch --json.
type eventJSON struct {
	Schema int       `json:"schema"`
	Time   time.Time `json:"time"`
	Event  string    `json:"event"` // holds, waits, gone
	Path   string    `json:"path"`
	User   userJSON  `json:"participant"`
}

// events returns what is other than before.
func (v *view) events() (list []eventJSON) {
	now, hidden := map[string]eventJSON{}, map[string]bool{}
	for _, lock := range v.last {
		hidden[lock.Path] = len(lock.Participants) == 0
		for _, u := range lock.Participants {
			e := eventJSON{Schema: 1, Time: v.at.UTC().Truncate(time.Millisecond), Event: "waits", Path: lock.Path, User: u}
			if u.Held {
				e.Event = "holds"
			}
			key := fmt.Sprint(lock.Path, " ", u.Token) // an ID may be used again
			if was, there := v.seen[key]; !there || was.Event != e.Event || was.User.WaitsFor != u.WaitsFor {
				list = append(list, e)
			}
			now[key] = e
		}
	}
	// A user who has gone is said first: it made way for the holder of now.
	var gone []eventJSON
	for key, was := range v.seen {
		if hidden[was.Path] { // that it has gone is not seen
			now[key] = was
		}
		if _, there := now[key]; !there {
			was.Event, was.Time = "gone", v.at.UTC().Truncate(time.Millisecond)
			gone = append(gone, was)
		}
	}
	slices.SortFunc(gone, func(a, b eventJSON) int { return cmp.Compare(a.User.Token, b.User.Token) })
	v.seen = now
	return append(gone, list...)
}
