//go:build unix

package main

import (
	"fmt"
	"time"

	"github.com/farsync/farsync/examples/internal/program"
)

// An outcome is what the show has come to.
type outcome struct {
	options  options
	done     int // jobs
	repeated int // jobs that were done more than once
	most     int // calls at once, as the server has counted them
	left     int // entries in the semaphore's queue after everybody has left
	took     time.Duration
}

// Table is all figures, for people.
func (o *outcome) Table() string {
	var t program.Table
	t.Row("limit", fmt.Sprint(o.options.limit), "")
	t.Row("most at once", fmt.Sprint(o.most), "counted by the server")
	t.Row("jobs", fmt.Sprint(o.options.jobs), "by %d processes", o.options.processes)
	t.Row("jobs done", fmt.Sprint(o.done), "")
	t.Row("jobs done more than once", fmt.Sprint(o.repeated), "")
	if !o.options.noLimit {
		t.Row("entries left in the queue", fmt.Sprint(o.left), "")
	}
	rounds := (int64(o.options.jobs) + o.options.limit - 1) / o.options.limit
	t.Row("time", program.Seconds(o.took), "at the limit no less than %s", program.Seconds(time.Duration(rounds)*o.options.job))
	return t.Sum(o.Problems(), "Never too many.")
}

// Problems says what is not as it must be.
func (o *outcome) Problems() []string {
	var list program.Problems
	list.If(int64(o.most) > o.options.limit, "%d at once, where %d are allowed", o.most, o.options.limit)
	list.If(o.done != o.options.jobs, "%d of %d jobs were done", o.done, o.options.jobs)
	list.If(o.repeated > 0, "jobs that were done more than once: %d", o.repeated)
	list.If(o.left > 0, "entries left in the queue: %d", o.left)
	return list
}
