package recipe

import (
	"context"
	"time"
)

// This file has how the line of a cohort is provided with grants. Each step of a cohort that may leave the line without a
// grant ends in provide: so while the line is not empty a grant is open, or as many are joining as the line needs, and none
// is carried for a goroutine that has gone. The caller of each method holds the cohort's mu, and nothing here takes it: a
// step and what it provides are one.

// maxEntries is how many entries may stand in the queue for one line.
const maxEntries = 16

// provide sees to it that the line is served: by the grant that is open, or by as many that are joining as it needs.
func (c *cohort) provide(now time.Time) {
	waiting := c.line.Len()
	c.dropBeyond(waiting)
	switch {
	case waiting == 0:
		c.sight.rest()
	case !c.shared && c.admits(now):
		if c.timed != c.open {
			c.timed = c.open
			c.worn.Store(true)
			c.timer = after(c.timer, handOffFor-now.Sub(c.open.since), c.late)
		}
	default:
		joins, callers := c.grants.joining()
		for more := c.entries(waiting+callers) - joins; more > 0 && c.bid(c.add(joining)); more-- {
		}
	}
}

// entries returns how many entries are to stand for a line of that length. A grant that serves all of them, or that serves
// maxTurns, leaves no more to do than one entry can. Where slow turns let it serve a few, the others of the line would wait a
// round of the whole queue for the next few; with as many entries as it takes they all come in one round, as they would with an
// entry each.
func (c *cohort) entries(waiting int) int {
	each := c.pace
	switch {
	case c.shared:
		each = maxTurns + 1
	case each == 0:
		return 1
	}
	most := maxEntries
	if c.grants.held() {
		most-- // that one is in the queue, too
	}
	return min((waiting+each-1)/each, most)
}

// bid has a grant carried through the queue for the line, and reports false if the Store is closed.
func (c *cohort) bid(gr *grant) bool {
	ctx, cancel := context.WithCancel(c.store.life)
	gr.drop = cancel
	first := c.line.first()
	gr.note = first.note
	c.worn.Store(true)
	if !c.store.background(func() { defer cancel(); c.gate.carry(ctx, gr, first.came) }) {
		cancel()
		c.end(gr)
		return false
	}
	return true
}

// dropBeyond gives up those grants, the youngest first, that are carried for more goroutines than are left.
func (c *cohort) dropBeyond(left int) {
	carried := 0
	for i := 0; i < len(c.grants); i++ {
		gr := c.grants[i]
		if gr.phase != joining || gr.drop == nil {
			continue
		}
		if carried++; carried > left {
			gr.drop()
			c.end(gr)
			i--
		}
	}
}

// after has f run after d and not before, by the timer that was made for it, or by a new one if there is none.
func after(t *time.Timer, d time.Duration, f func()) *time.Timer {
	if t == nil {
		return time.AfterFunc(d, f)
	}
	t.Reset(d)
	return t
}
