//go:build unix

package main

import (
	"fmt"
	"time"

	"github.com/farsync/farsync/examples/internal/program"
)

// An outcome is what the show has come to.
type outcome struct {
	processes int
	held      int // so often a lock was acquired
	lost      int // and lost
	gaveUp    int // waits in the deadlock
	took      time.Duration
}

// Table is all figures, for people.
func (o *outcome) Table() string {
	var t program.Table
	t.Row("processes", fmt.Sprint(o.processes), "")
	t.Row("locks acquired", fmt.Sprint(o.held), "")
	t.Row("locks lost", fmt.Sprint(o.lost), "by the one that is stopped, or by any that comes too late")
	t.Row("waits given up", fmt.Sprint(o.gaveUp), "by the two in the deadlock")
	t.Row("time", program.Seconds(o.took), "")
	return t.Sum(o.Problems(), "That was the page.")
}

// Problems says what is not as it must be. The page itself is for people to see.
func (o *outcome) Problems() []string {
	var list program.Problems
	list.If(o.held == 0, "no lock was acquired")
	return list
}
