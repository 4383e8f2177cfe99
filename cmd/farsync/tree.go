package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/deadlock"
	"github.com/farsync/farsync/internal/legible"
)

// A forest is the locks of a survey, and which of their users waits under which.
type forest struct {
	locks []lockJSON
	now   time.Time
	// The waiters under an entry, by its ID: its holder gives it back after they have been served.
	under map[string][]deadlock.Place
	dead  map[deadlock.Place]bool // what stands in a circle of waiters
}

func grow(locks []lockJSON, now time.Time) *forest {
	f := &forest{locks: locks, now: now, under: map[string][]deadlock.Place{}, dead: map[deadlock.Place]bool{}}
	for i, lock := range locks {
		for j, u := range lock.Participants {
			if !u.Held && len(u.Under) > 0 {
				f.under[u.Under[0]] = append(f.under[u.Under[0]], deadlock.Place{Queue: i, Entry: j})
			}
		}
	}
	for _, cycle := range deadlocks(locks) {
		for _, place := range cycle {
			f.dead[place] = true
		}
	}
	return f
}

// deadlocks returns the circles in which users of the locks wait for one another.
func deadlocks(locks []lockJSON) [][]deadlock.Place {
	queues := make([]deadlock.Queue, len(locks))
	for i, lock := range locks {
		queue := deadlock.Queue{Path: lock.Path}
		for _, u := range lock.Participants {
			queue.Entries = append(queue.Entries, deadlock.Entry{ID: u.ID, Kind: driver.Kind(u.kind), Units: u.Units, Under: u.Under})
			if u.Held && u.kind == farsync.KindPermit {
				queue.Size += u.Units // what is free beyond that would let the next one in: none is, where one waits
			}
		}
		queues[i] = queue
	}
	return deadlock.Cycles(queues)
}

// write writes a tree for each lock: its holders, and below each what it waits for before it gives the lock back.
func (f *forest) write(w io.Writer) error {
	for i, lock := range f.locks {
		var b strings.Builder
		waiting := 0
		for j, u := range lock.Participants {
			if !u.Held {
				waiting++
				continue
			}
			fmt.Fprintf(&b, "%s  %s\n", lock.Path, f.words(u))
			f.below(&b, deadlock.Place{Queue: i, Entry: j}, "", nil, map[deadlock.Place]bool{})
		}
		if waiting > 0 {
			fmt.Fprintf(&b, "%s  %d waiting\n", lock.Path, waiting)
		}
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}

func (f *forest) words(u userJSON) string {
	text := u.name()
	if lasts := u.lasts(f.now); lasts != "?" {
		text += ", for " + lasts
	}
	if u.WaitsFor != "" {
		text += ", waits for " + legible.Text(u.WaitsFor)
	}
	return text
}

// below writes what the holder at a place waits for, and what the holders of that wait for. Many ways may lead to one
// holder, twice as many with each layer of locks that are held in pairs. So what is below a holder is written where the
// tree comes to it first, and only named where it comes to it again.
func (f *forest) below(b *strings.Builder, at deadlock.Place, indent string, path []deadlock.Place, seen map[deadlock.Place]bool) {
	path = append(path, at)
	seen[at] = true
	waiters := f.under[f.at(at).ID]
	for n, waiter := range waiters {
		branch, further := "├─ ", "│  "
		if n == len(waiters)-1 {
			branch, further = "└─ ", "   "
		}
		lock := f.locks[waiter.Queue]
		fmt.Fprintf(b, "%s%swaits for %s\n", indent, branch, lock.Path)
		for j, u := range lock.Participants {
			if !u.Held {
				continue
			}
			holder := deadlock.Place{Queue: waiter.Queue, Entry: j}
			switch {
			case !seen[holder]:
				fmt.Fprintf(b, "%s%s%s, held by %s\n", indent, further, lock.Path, f.words(u))
				f.below(b, holder, indent+further, path, seen)
			case !slices.Contains(path, holder):
				above := ""
				if len(f.under[u.ID]) > 0 {
					above = ", whose waits are above"
				}
				fmt.Fprintf(b, "%s%s%s, held by %s%s\n", indent, further, lock.Path, f.words(u), above)
			case f.dead[waiter]:
				fmt.Fprintf(b, "%s%s!! deadlock: none of these can go on. To end one: farsync break --token %d --yes %s\n",
					indent, further, u.Token, lock.Path)
			}
		}
	}
}

func (f *forest) at(p deadlock.Place) userJSON { return f.locks[p.Queue].Participants[p.Entry] }
