package recipe

import (
	"context"
	"sync/atomic"
	"time"
)

// A grant is one entry at the head of its queue. Its holds follow one another, a turn each.
type grant struct {
	entry Entry
	since time.Time
	turns int // handed on so far
}

// mayHandOn reports whether another turn may start on the grant now.
func (g *grant) mayHandOn(now time.Time) bool {
	return g.turns < maxTurns && now.Sub(g.since) < handOnFor && g.entry.Session.Err() == nil
}

// A Hold is one local hold on a grant: what a lease of the root package stands on. It ends when it is released, and
// when the session of its entry is over. All methods may be called at any time by any goroutine.
type Hold struct {
	gate  *Gate
	grant *grant
	turn  int
	taken atomic.Bool // released, by the first caller of Release

	life context.Context // the hold's own, not a caller's: done when it has ended, with the cause
	end  context.CancelCauseFunc
}

func newHold(gate *Gate, g *grant) *Hold {
	h := &Hold{gate: gate, grant: g, turn: g.turns}
	// As a child of the session's life the hold ends in the same step, without a goroutine of its own.
	h.life, h.end = context.WithCancelCause(g.entry.Session.life)
	return h
}

// Turn is 0 for the hold that a queue granted, and one more for each time the grant was handed on since.
func (h *Hold) Turn() int { return h.turn }

// Since is when the hold's grant was won from the queue.
func (h *Hold) Since() time.Time { return h.grant.since }

// Revision is the creation revision of the hold's entry.
func (h *Hold) Revision() int64 { return h.grant.entry.Revision }

// Deadline is when the hold ends unless its session is renewed before.
func (h *Hold) Deadline() time.Time { return h.grant.entry.Session.Deadline() }

// Done is closed when the hold has ended.
func (h *Hold) Done() <-chan struct{} { return h.life.Done() }

// Err is nil while the hold is held, by the clock at the time of the call. Else it is ErrReleased, ErrClosed, or wraps
// ErrLost and the cause.
func (h *Hold) Err() error {
	if h.life.Err() == nil {
		// Looking ends a session whose deadline has passed, and with it this hold.
		_ = h.grant.entry.Session.Err()
	}
	return context.Cause(h.life)
}

// AfterEnd runs f in its own goroutine once the hold has ended, unless stop is called before.
func (h *Hold) AfterEnd(f func()) (stop func() bool) { return context.AfterFunc(h.life, f) }

// Entries returns the entry that stands for the hold, or none if it has ended.
func (h *Hold) Entries() []Entry {
	if h.Err() != nil {
		return nil
	}
	return []Entry{h.grant.entry}
}

// Release ends the hold at once, and hands its grant on or removes its entry. Removal waits for the service, for no
// longer than a third of the TTL or what is left of the session, whichever is less; then it goes on behind.
//
// Nil: it was held to the end. ErrLost: it was not; ErrClosed: the Store was closed before. Another error: it was held,
// but nobody confirmed that the entry is gone. ErrReleased: called before.
func (h *Hold) Release() error {
	if h.taken.Swap(true) {
		return ErrReleased
	}
	lost := h.Err()
	h.end(ErrReleased)
	err := h.gate.release(h.grant)
	if lost != nil {
		return lost
	}
	return err
}
