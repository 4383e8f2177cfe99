package recipe

import (
	"sync/atomic"
	"time"
)

// A grant is one entry at the head of its queue, and the turns that are taken on it.
type grant struct {
	entry atomic.Pointer[Entry] // replaced when it is changed in its place
	since time.Time

	// Guarded by the line of the grant's gate.
	turns int  // begun so far, but for the first
	holds int  // that have not been released
	fixed bool // no further turn may begin
}

func newGrant(e Entry) *grant {
	g := &grant{since: time.Now(), holds: 1}
	g.entry.Store(&e)
	return g
}

// session returns that of the grant's entry, which never changes.
func (g *grant) session() *Session { return g.entry.Load().Session }

// open reports whether another turn may begin on the grant now, with so many at most.
func (g *grant) open(now time.Time, most int) bool {
	return !g.fixed && g.turns < most && now.Sub(g.since) < handOnFor && g.session().Err() == nil
}

// next begins another turn.
func (g *grant) next() share {
	g.turns++
	g.holds++
	return share{g, g.turns}
}

// A share is a turn on a grant.
type share struct {
	grant *grant
	turn  int
}
