package recipe

import "time"

// What follows is a Gate as its grants use it.

// again adds a hold to the turn of gr with that number, and reports false if the turn is over.
func (g *Gate) again(gr *grant, number int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	// The turns of a grant follow one another, so while this is the last that began, its holds are the grant's.
	if gr.holds == 0 || gr.turns != number {
		return false
	}
	gr.holds++
	return true
}

// close ends the turns on gr with the present one.
func (g *Gate) close(gr *grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut(gr)
}

// pin is close, unless the turn of that number is over. Readers' turns run at the same time: they are over only when none is left.
func (g *Gate) pin(gr *grant, number int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gr.holds == 0 || !g.shared && gr.turns != number {
		return false
	}
	g.shut(gr)
	return true
}

// vanish ends the turns on gr, whose entry is gone.
func (g *Gate) vanish(gr *grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut(gr)
	gr.gone = true
}

// shut is close for a caller that holds mu.
func (g *Gate) shut(gr *grant) {
	if gr.phase == open {
		gr.phase = closing
	}
	if g.latest == gr {
		g.latest = nil // another may have been won meanwhile
	}
}

// finished ends one hold on gr, and reports whether gr is to be given up: if it was the last, and no further turn follows.
func (g *Gate) finished(gr *grant) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gr.holds--; gr.holds > 0 {
		return false
	}
	if !g.shared && len(g.waiters) > 0 && gr.admits(time.Now()) {
		g.pop().hand <- gr.next()
		return false
	}
	g.shut(gr)
	return true
}
