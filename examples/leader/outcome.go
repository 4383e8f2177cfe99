//go:build unix

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/farsync/farsync/examples/internal/program"
)

// An outcome is what the show has come to.
type outcome struct {
	show *show
	left int // entries in the election after everybody has left
	took time.Duration
}

// Table is all figures, for people.
func (o *outcome) Table() string {
	s, r := o.show, o.show.resource
	var t program.Table
	t.Row("kills", fmt.Sprint(len(s.vacancies)), "")
	t.Row("changes", fmt.Sprint(len(r.terms)-1), "of the leader, resignations at the end included")
	t.Row("seen by the observer", fmt.Sprint(s.observed), "leaders and vacancies")
	t.Row("longest without a leader", program.Seconds(slices.Max(s.vacancies)),
		"after a kill; the TTL is %v, from the last renewal on", s.options.service.TTL)
	t.Row("writes", fmt.Sprint(r.accepted), "")
	t.Row("overlaps", fmt.Sprint(r.overlaps()), "one wrote after another with a higher token")
	t.Row("tokens strictly increasing", program.YesNo(r.increasing()), "")
	t.Row("entries left in the queue", fmt.Sprint(o.left), "")
	t.Row("time", program.Seconds(o.took), "")
	return t.Sum(o.Problems(), "Never two led.")
}

// Problems says what is not as it must be. How long a change takes is a matter of the machine too.
func (o *outcome) Problems() []string {
	s, r := o.show, o.show.resource
	var list program.Problems
	list.If(r.overlaps() > 0, "writes after one with a higher token: %d", r.overlaps())
	list.If(!r.increasing(), "a token was not higher than the one before")
	list.If(len(r.terms)-1 < s.options.kills, "%d changes after %d kills", len(r.terms)-1, s.options.kills)
	list.If(s.observed < s.options.kills, "the observer has seen %d changes", s.observed)
	list.If(o.left > 0, "entries left in the queue: %d", o.left)
	return list
}
