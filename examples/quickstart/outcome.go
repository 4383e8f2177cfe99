//go:build unix

package main

import (
	"fmt"
	"time"

	"github.com/farsync/farsync/examples/internal/program"
)

// An outcome is what the show has come to.
type outcome struct {
	show     *show
	expected int // the number, if nothing was lost
	found    int // the number in the file
	left     int // entries in the lock's queue after everybody has left
	took     time.Duration
}

// Table is all figures, for people.
func (o *outcome) Table() string {
	l := o.show.ledger
	var t program.Table
	t.Row("expected", fmt.Sprint(o.expected), "%d processes, %d adds each", workers, o.show.options.adds)
	t.Row("found", fmt.Sprint(o.found), "in the file")
	t.Row("adds that overlapped", fmt.Sprint(l.overlaps()), "another wrote between read and write")
	if !o.show.options.noLock {
		refused, accepted := l.late()
		got := l.acquisitions()
		t.Row("acquisitions", fmt.Sprint(len(got)), "")
		t.Row("hand-overs", fmt.Sprint(handOvers(got)), "from one process to another")
		t.Row("tokens strictly increasing", program.YesNo(increasing(got)), "")
		t.Row("late requests refused", fmt.Sprint(len(refused)), "because of their tokens")
		t.Row("  and their lease was lost", fmt.Sprint(len(refused)-o.show.unaware), "said the lease itself (ErrLost)")
		t.Row("late requests accepted", fmt.Sprint(len(accepted)), "")
		t.Row("lock free after the kill", program.Seconds(o.show.killed.free),
			"the TTL is %v, from the last renewal on", o.show.options.service.TTL)
		t.Row("lock free after the stop", program.Seconds(o.show.stopped.free), "")
		t.Row("entries left in the queue", fmt.Sprint(o.left), "")
	}
	t.Row("time", program.Seconds(o.took), "")
	return t.Sum(o.Problems(), "Nothing was lost.")
}

// Problems says what is not as it must be.
func (o *outcome) Problems() []string {
	l := o.show.ledger
	refused, accepted := l.late()
	var list program.Problems
	list.If(o.found < o.expected, "%d of %d adds are lost", o.expected-o.found, o.expected)
	list.If(o.found > o.expected, "%d more than was added", o.found-o.expected)
	if o.show.options.noLock {
		return list
	}
	list.If(l.overlaps() > 0, "adds that overlapped and got through: %d", l.overlaps())
	list.If(!increasing(l.acquisitions()), "a token was not higher than the one before")
	list.If(len(accepted) > 0, "late requests that were accepted: %d", len(accepted))
	list.If(len(refused) == 0, "no late request was refused, though a worker was stopped")
	list.If(o.show.unaware > 0, "requests refused while the lease still counted as held: %d", o.show.unaware)
	list.If(o.left > 0, "entries left in the queue: %d", o.left)
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

// increasing reports whether each acquisition has a higher token than the acquisition before.
func increasing(acquisitions []access) bool {
	for i := 1; i < len(acquisitions); i++ {
		if acquisitions[i].token <= acquisitions[i-1].token {
			return false
		}
	}
	return true
}
