package main

import (
	"context"
	"fmt"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/recipe"
)

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
	known, seen := map[string]bool{}, map[string]bool{}
	for _, lock := range found.Locks {
		seen[lock.Path] = true
		for _, u := range lock.Participants {
			known[u.ID] = true
		}
	}
	strays, sized, err := d.location.Strays(ctx, d.location.Join(d.below), known)
	if err != nil {
		d.wrong("queues", "%s", words(err))
	}
	for _, key := range strays {
		d.wrong("queues", "%s ends with no session, and blocks its queue for ever: delete it", key)
	}
	now, sound := time.Now(), len(strays) == 0
	for _, path := range sized {
		if seen[shown(d.location, path)] || recipe.CheckPath(path) != nil {
			continue // its participants are seen with what is wrong
		}
		if _, err := (recipe.Queue{Store: beneath.Store(store), Path: path}).Size(ctx); err != nil {
			sound = false
			d.wrong("queues", "%s: %s", shown(d.location, path), words(err))
		}
	}
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
	if lock.Error != "" {
		say("%s", lock.Error)
	}
	family := ""
	for _, u := range lock.Participants {
		switch is := recipe.Primitive(driver.Kind(u.kind)); {
		case u.kind == farsync.KindForeign: // it does not say
		case family == "":
			family = is
		case is != family:
			say("it is %s, and %s uses it as %s: one of them never gets it. Take two paths", family, u.name(), is)
		}
		if text := lock.stray(u); text != "" {
			say("%s", text)
		}
		if u.Joined == nil {
			continue
		}
		switch age := now.Sub(*u.Joined); {
		case age < -clocksApart:
			say("%s joins in %v from now: its clock, or this host's, is wrong", u.name(), rounded(-age))
		case u.kind == farsync.KindCandidate: // a leader leads, and a standby stands by, for as long as they run
		case u.Held && age > longHeld:
			waits := ""
			if u.WaitsFor != "" {
				waits = ", and waits for " + legible.Text(u.WaitsFor)
			}
			say("%s has been there for %s%s. If it is stuck, see farsync ask and farsync break", u.name(), ago(age), waits)
		case !u.Held && age > longWaited:
			say("%s has waited for %s", u.name(), ago(age))
		}
	}
	return list
}
