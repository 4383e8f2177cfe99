package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/driver"
)

func (a *app) doctorVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [PREFIX/]",
		Short: "Find what is wrong with the service, the rights on it, and what stands in its queues",
		Long: `doctor asks each server whether it serves, locks and gives back a path of its own below PREFIX, and looks at all that holds
or waits there. It writes a line for each thing that it has looked at, and exits with 1 if one of them is wrong.

It finds servers that do not answer, have no leader or no space, versions with known faults, settings that lose locks, tables that
are not there, rights that are missing, a TTL that the service changes, clocks that are apart, proxies that keep notices back,
paths that are used in two ways, entries that end with no session, holders and waiters that have been there for very
long, and deadlocks.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			below := "/"
			if len(arguments) == 1 {
				below = arguments[0]
			}
			if err := checkWhich(below); err != nil {
				return err
			}
			if !strings.HasSuffix(below, "/") {
				return &exit{codeData, errors.New("the prefix has no slash at its end")}
			}
			l, err := a.locate()
			if err != nil {
				return err
			}
			d := &doctor{app: a, location: l, below: below}
			d.examine(cmd.Context())
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
		Check string `json:"check"` // servers, session, rights, speed, clock, queues
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
			if _, err := fmt.Fprintf(d.stdout, "%s  %s: %s\n", mark, f.Check, f.Text); err != nil {
				return &exit{codeCannotRun, err}
			}
		}
	}
	if !sound {
		return &exit{code: codeNothing}
	}
	return nil
}

// examine makes all findings.
func (d *doctor) examine(ctx context.Context) {
	d.servers(ctx)
	ttl := d.location.TTL
	if ttl == 0 {
		ttl = 10 * time.Second
	}
	store, closed, err := d.location.Open(ctx, farsync.Options{
		TTL: ttl, Logger: slog.New(ear{d}), Trace: &farsync.Trace{Session: d.session},
	})
	if err != nil {
		d.wrong("session", "%s", words(err))
		return
	}
	d.well("session", "%s was opened", d.location)
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
		if m.Clock {
			d.clock(m)
		}
	}
}

// session notes the TTL of the first session.
func (d *doctor) session(h farsync.Health) {
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

const (
	// pairs is how often doctor locks and gives back.
	pairs = 10
	// clocksApart is by how much the clocks of this host and of the service may differ.
	clocksApart = 2 * time.Second
)

// work does with a path of its own all that a client does: it locks, waits, asks, hands over, and gives back.
func (d *doctor) work(ctx context.Context, store *farsync.Store, ttl time.Duration) {
	path := d.location.Join(d.below + "farsync-doctor-" + strings.ToLower(rand.Text()))
	ctx, cancel := context.WithTimeout(ctx, 6*ttl)
	defer cancel()
	mine, theirs := farsync.NewMutex(store, path), farsync.NewMutex(store, path)
	lease, err := mine.TryLock(ctx)
	if err != nil {
		d.wrong("rights", "%s", words(err))
		return
	}
	waited := make(chan error, 1)
	var handed time.Time
	go func() { // sends when it has waited, within ctx
		next, err := theirs.Lock(ctx)
		handed = time.Now()
		if err == nil {
			err = next.Release()
		}
		waited <- err
	}()
	err = d.both(ctx, mine)
	if err == nil {
		err = mine.Ask(ctx)
	}
	gave := time.Now()
	err = errors.Join(err, lease.Release(), <-waited)
	if err != nil {
		d.wrong("rights", "%s", words(err))
		return
	}
	d.well("rights", "%s was locked, waited for, asked for and given back, and handed over within %v", path, rounded(handed.Sub(gave)))
	d.speed(ctx, mine, ttl)
}

// both waits until the holder has a waiter.
func (d *doctor) both(ctx context.Context, lock *farsync.Mutex) error {
	look := time.NewTicker(lookAgain / 10)
	defer look.Stop()
	for {
		list, err := lock.Participants(ctx)
		if err != nil || len(list) == 2 {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// clock compares the clock of a server with that of this host.
func (d *doctor) clock(m location.Member) {
	if m.Ahead.Abs() > clocksApart+m.Doubt {
		d.wrong("clock", "that of %s is %v ahead of this host's: times are shown wrong, and jobs of cron are not started together", m.Host, rounded(m.Ahead))
		return
	}
	d.well("clock", "that of %s is %v ahead of this host's, give or take %v", m.Host, rounded(m.Ahead), rounded(m.Doubt))
}

// speed locks what is free a few times. A service that takes a quarter of the TTL for that is too slow to renew in time.
func (d *doctor) speed(ctx context.Context, lock *farsync.Mutex, ttl time.Duration) {
	var took []time.Duration
	for range pairs {
		began := time.Now()
		lease, err := lock.Lock(ctx)
		if err == nil {
			err = lease.Release()
		}
		if err != nil {
			d.wrong("speed", "%s", words(err))
			return
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	middle, worst := took[len(took)/2], took[len(took)-1]
	if worst > ttl/4 {
		d.wrong("speed", "a free lock takes up to %v, usually %v: renewals come as late, and a TTL of %v is short for that", rounded(worst), rounded(middle), ttl)
		return
	}
	d.well("speed", "a free lock takes %v, at worst %v", rounded(middle), rounded(worst))
}

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

const (
	longHeld   = 24 * time.Hour
	longWaited = time.Hour
)

// queues looks at all that holds or waits.
func (d *doctor) queues(ctx context.Context, store *farsync.Store) {
	found, err := d.who(ctx, store, d.location, d.below)
	if err != nil {
		d.wrong("queues", "%s", words(err))
		return
	}
	known := map[string]bool{}
	for _, lock := range found.Locks {
		for _, u := range lock.Participants {
			known[u.ID] = true
		}
	}
	strays, err := d.location.Strays(ctx, d.location.Join(d.below), known)
	if err != nil {
		d.wrong("queues", "%s", words(err))
	}
	for _, key := range strays {
		d.wrong("queues", "%s has no lease, and blocks its queue for ever: delete it", key)
	}
	now, sound := time.Now(), len(strays) == 0
	for _, lock := range found.Locks {
		for _, text := range ailments(lock, now) {
			sound = false
			d.wrong("queues", "%s: %s", lock.Path, text)
		}
	}
	for _, cycle := range deadlocks(found.Locks) {
		sound = false
		lock := found.Locks[cycle[0].Queue]
		d.wrong("queues", "%s: deadlock of %d, beginning with %s. farsync who --tree shows it", lock.Path, len(cycle), lock.Participants[cycle[0].Entry].name())
	}
	if sound {
		d.well("queues", "%d locks are held or waited for", len(found.Locks))
	}
}

// ailments are what is wrong with one queue.
func ailments(lock lockJSON, now time.Time) (list []string) {
	say := func(format string, arguments ...any) { list = append(list, fmt.Sprintf(format, arguments...)) }
	family := ""
	for _, u := range lock.Participants {
		switch is := familyOf(u.kind); {
		case is == "":
		case family == "":
			family = is
		case is != family:
			say("it is a %s, and %s uses it as a %s: one of them never gets it. Take two paths", family, u.name(), is)
		}
		if u.Session == "" {
			say("%s belongs to no session, and blocks the queue for ever: delete it", u.ID)
		}
		if u.Since == nil {
			continue
		}
		switch age := now.Sub(*u.Since); {
		case age < -clocksApart:
			say("%s joins in %v from now: its clock, or this host's, is wrong", u.name(), rounded(-age))
		case u.Held && age > longHeld:
			say("%s has been there for %s. If it is stuck, see farsync ask and farsync break", u.name(), ago(age))
		case !u.Held && age > longWaited:
			say("%s has waited for %s", u.name(), ago(age))
		}
	}
	return list
}

// familyOf is what primitive a kind is of. Others' clients do not say.
func familyOf(k driver.Kind) string {
	switch k {
	case driver.Exclusive:
		return "mutex"
	case driver.Read, driver.Write:
		return "read/write lock"
	case driver.Permit:
		return "semaphore"
	case driver.Candidate:
		return "election"
	default:
		return ""
	}
}
