package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/internal/legible"
)

func (a *app) doctorVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [PREFIX/]",
		Short: "Find what is wrong with the service, the rights on it, and what stands in its queues",
		Long: `doctor asks each server whether it serves, locks and gives back a path of its own below PREFIX, and looks at all that holds
or waits there. It writes a line for each thing that it has looked at, and exits with 1 if one of them is wrong.

It finds servers that do not answer, have no leader or no space, versions with known faults, settings that lose locks, tables that
are not there, databases without room for connections, transactions that were forgotten, rights that are missing, a TTL that the
service changes, clocks that are apart, proxies that keep notices back, paths that are used in two ways, entries that end with no
session, holders and waiters that have been there for very long, and deadlocks.`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			below := "/"
			if len(arguments) == 1 {
				below = arguments[0]
			}
			if err := checkWhich(below); err != nil {
				return err
			}
			if !strings.HasSuffix(below, "/") {
				return &exit{codeData, fmt.Errorf("%s is no prefix, which ends with a slash: write %[1]s/", legible.Text(below))}
			}
			l, err := a.locate()
			if err != nil {
				return err
			}
			d := &doctor{app: a, location: l, below: below}
			answered := a.awaiting(l)
			d.examine(cmd.Context(), answered)
			return d.report()
		},
	}
}

// A doctor looks for what is wrong.
type doctor struct {
	*app
	location *location.Location
	below    string

	mu       sync.Mutex
	findings []findingJSON
	granted  time.Duration // the TTL of the first session
}

// The JSON of doctor.
type (
	doctorJSON struct {
		Schema int           `json:"schema"`
		Store  string        `json:"store"`
		OK     bool          `json:"ok"`
		Checks []findingJSON `json:"checks"`
	}
	findingJSON struct {
		Check string `json:"check"` // servers, session, connections, snapshots, rights, speed, clock, queues
		OK    bool   `json:"ok"`
		Text  string `json:"text"`
	}
)

func (d *doctor) well(check, format string, arguments ...any) {
	d.add(findingJSON{check, true, fmt.Sprintf(format, arguments...)})
}

func (d *doctor) wrong(check, format string, arguments ...any) {
	d.add(findingJSON{check, false, fmt.Sprintf(format, arguments...)})
}

func (d *doctor) add(f findingJSON) {
	f.Text = legible.Cut(f.Text, mostJSON)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.findings = append(d.findings, f)
}

// report writes what was found.
func (d *doctor) report() error {
	sound := !slices.ContainsFunc(d.findings, func(f findingJSON) bool { return !f.OK })
	if d.json {
		if err := d.print(doctorJSON{1, d.location.String(), sound, d.findings}); err != nil {
			return err
		}
	}
	for _, f := range d.findings {
		mark := "ok"
		if !f.OK {
			mark = "!!"
		}
		if !d.json && (!f.OK || !d.quiet) {
			if _, err := fmt.Fprintf(d.stdout, "%s  %s: %s\n", mark, f.Check, legible.Line(f.Text)); err != nil {
				return unwritten(err)
			}
		}
	}
	if !sound {
		return &exit{code: codeNothing}
	}
	return nil
}

// examine makes all findings.
func (d *doctor) examine(ctx context.Context, answered func()) {
	d.servers(ctx)
	ttl := d.location.TTL
	if ttl == 0 {
		ttl = 10 * time.Second
	}
	var store *farsync.Store
	closed := func() error { return nil }
	err := d.location.Exists(ctx)
	if err == nil {
		store, closed, err = d.location.Open(ctx, farsync.Options{
			TTL: ttl, Logger: slog.New(ear{d}), Trace: &farsync.Trace{Session: d.session},
		})
	}
	answered()
	if err != nil {
		d.wrong("session", "%s", words(err))
		return
	}
	d.well("session", "%s was opened", d.location)
	d.connections(ctx)
	d.snapshots(ctx, oldSnapshot)
	d.work(ctx, store, ttl)
	d.queues(ctx, store)
	_ = d.ignore(store.Close())
	_ = d.ignore(closed())
	if d.granted != 0 && (d.granted < ttl || d.granted >= ttl+time.Second) {
		d.wrong("session", "a TTL of %v was asked for, and the service grants %v: ask for what lies within its bounds", ttl, d.granted)
	}
}

// servers asks each of them.
func (d *doctor) servers(ctx context.Context) {
	members, err := d.location.Members(ctx)
	if err != nil {
		d.wrong("servers", "%s", words(err))
		return
	}
	for _, m := range members {
		for _, err := range m.Wrong {
			d.wrong("servers", "%s %v", m.Host, err)
		}
		if len(m.Wrong) == 0 {
			d.well("servers", "%s answers%s", m.Host, strings.TrimSuffix(", "+m.Version, ", "))
		}
	}
	d.clocks(members)
}

// session notes the TTL of the first session.
func (d *doctor) session(h farsync.TraceSession) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.Opened && d.granted == 0 {
		d.granted = h.TTL
	}
}

// An ear hears what the Store warns of.
type ear struct{ d *doctor }

func (e ear) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (e ear) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "nothing is granted for a while" {
		return nil // work meets with that, and says it
	}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(", %s %v", a.Key, a.Value)
		return true
	})
	e.d.wrong("session", "%s", text)
	return nil
}

func (e ear) WithAttrs([]slog.Attr) slog.Handler { return e }

func (e ear) WithGroup(string) slog.Handler { return e }
