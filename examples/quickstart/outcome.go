//go:build unix

package main

import (
	"fmt"
	"strings"
	"time"
)

// An outcome is what the show has come to.
type outcome struct {
	show     *show
	expected int   // the number, if nothing was lost
	found    int   // the number in the file
	left     int64 // entries in the lock's queue after everybody has left
	took     time.Duration
}

// table is all figures, for people.
func (o *outcome) table() string {
	l := o.show.ledger
	var t strings.Builder
	row := func(name, figure, remark string, args ...any) {
		line := fmt.Sprintf("  %-28s %8s  %s", name, figure, fmt.Sprintf(remark, args...))
		t.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	t.WriteString("\n")
	row("expected", fmt.Sprint(o.expected), "%d processes, %d adds each", workers, o.show.options.adds)
	row("found", fmt.Sprint(o.found), "in the file")
	row("adds that overlapped", fmt.Sprint(l.overlaps()), "another wrote between read and write")
	if !o.show.options.noLock {
		refused, accepted := l.late()
		got := l.acquisitions()
		row("acquisitions", fmt.Sprint(len(got)), "")
		row("hand-overs", fmt.Sprint(handOvers(got)), "from one process to another")
		row("tokens strictly increasing", yesNo(increasing(got)), "")
		row("late requests refused", fmt.Sprint(len(refused)), "because of their tokens")
		row("  and their lease was lost", fmt.Sprint(len(refused)-o.show.unaware), "said the lease itself (ErrLost)")
		row("late requests accepted", fmt.Sprint(len(accepted)), "")
		row("lock free after the kill", seconds(o.show.killed.free),
			"the TTL is %v, from the last renewal on", o.show.options.ttl)
		row("lock free after the stop", seconds(o.show.stopped.free), "")
		row("entries left in etcd", fmt.Sprint(o.left), "")
	}
	row("time", seconds(o.took), "")
	t.WriteString("\n")
	problems := o.problems()
	if len(problems) == 0 {
		t.WriteString("  Nothing was lost.\n")
	}
	for _, p := range problems {
		t.WriteString("  WRONG: " + p + "\n")
	}
	return t.String()
}

// problems says what is not as it must be.
func (o *outcome) problems() []string {
	l := o.show.ledger
	refused, accepted := l.late()
	var list []string
	wrong := func(is bool, format string, args ...any) {
		if is {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	wrong(o.found < o.expected, "%d of %d adds are lost", o.expected-o.found, o.expected)
	wrong(o.found > o.expected, "%d more than was added", o.found-o.expected)
	if o.show.options.noLock {
		return list
	}
	wrong(l.overlaps() > 0, "adds that overlapped and got through: %d", l.overlaps())
	wrong(!increasing(l.acquisitions()), "a token was not higher than the one before")
	wrong(len(accepted) > 0, "late requests that were accepted: %d", len(accepted))
	wrong(len(refused) == 0, "no late request was refused, though a worker was stopped")
	wrong(o.show.unaware > 0, "requests refused while the lease still counted as held: %d", o.show.unaware)
	wrong(o.left > 0, "entries left in etcd: %d", o.left)
	return list
}

// handOvers counts how often the lock went from one worker to another.
func handOvers(acquisitions []access) (count int) {
	for i := 1; i < len(acquisitions); i++ {
		if acquisitions[i].who != acquisitions[i-1].who {
			count++
		}
	}
	return count
}

// increasing reports whether each acquisition has a higher token than the one before.
func increasing(acquisitions []access) bool {
	for i := 1; i < len(acquisitions); i++ {
		if acquisitions[i].token <= acquisitions[i-1].token {
			return false
		}
	}
	return true
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "NO"
}
