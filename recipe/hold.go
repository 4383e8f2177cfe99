package recipe

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A Hold is one local hold on a grant: what a lease of the root package stands on. It ends when it is released, and
// when the session of its entry is over. All methods may be called at any time by any goroutine.
type Hold struct {
	gate  *Gate
	share share
	taken atomic.Bool   // released, by the first caller of Release
	alone chan struct{} // has a value while Downgrade or Release is under way: either may wait for the service

	life context.Context // the hold's own, not a caller's: done when it has ended, with the cause
	end  context.CancelCauseFunc
}

func newHold(gate *Gate, s share) *Hold {
	h := &Hold{gate: gate, share: s, alone: make(chan struct{}, 1)}
	// As a child of the session's life the hold ends in the same step, without a goroutine of its own.
	h.life, h.end = context.WithCancelCause(s.grant.session().life)
	return h
}

// Turn is 0 for the hold that a queue granted, and higher for each turn that was begun on the grant since.
func (h *Hold) Turn() int { return h.share.turn }

// Since is when the hold's grant was won from the queue.
func (h *Hold) Since() time.Time { return h.share.grant.since }

// Revision is the revision at which the hold's entry was created.
func (h *Hold) Revision() int64 { return h.share.grant.entry.Load().Revision }

// Deadline is when the hold ends unless its session is renewed before.
func (h *Hold) Deadline() time.Time { return h.share.grant.session().Deadline() }

// Done is closed when the hold has ended.
func (h *Hold) Done() <-chan struct{} { return h.life.Done() }

// Err is nil while the hold is held, by the clock at the time of the call. Else it is ErrReleased, ErrClosed, or wraps
// ErrLost and the cause.
func (h *Hold) Err() error {
	if h.life.Err() == nil {
		// Looking ends a session whose deadline has passed, and with it this hold.
		_ = h.share.grant.session().Err()
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
	return []Entry{*h.share.grant.entry.Load()}
}

// Again returns another hold on the same turn, for an owner who enters once more. The turn is over when all of them
// are released, in whatever order; then it fails with ErrReleased. If the session is over it fails with the cause.
func (h *Hold) Again() (*Hold, error) {
	l := &h.gate.line
	l.mu.Lock()
	defer l.mu.Unlock()
	g := h.share.grant
	if err := g.session().Err(); err != nil {
		return nil, err
	}
	// The turns of a grant follow one another, so while this is the last that began, its holds are the grant's.
	if g.holds == 0 || g.turns != h.share.turn {
		return nil, ErrReleased
	}
	g.holds++
	return newHold(h.gate, h.share), nil
}

// Downgrade turns a writer's entry into a reader's, in its place in the queue: nobody comes in between, and the readers
// behind it come in at once. The hold goes on, with the turn and the revision that it had when it was granted.
//
// On error the hold is as it was, and Downgrade may be called again, but for this: if nobody has answered when ctx
// ends, readers may be in or not, so that the hold is neither; then it is lost, and the error wraps ErrUnknown.
func (h *Hold) Downgrade(ctx context.Context) error {
	return h.change(ctx, Read, nil)
}

// Proclaim changes the value of the hold's entry. If ctx ends before anybody has answered, nobody knows whether it has:
// the error then wraps ErrUnknown.
func (h *Hold) Proclaim(ctx context.Context, value []byte) error {
	return h.change(ctx, h.share.grant.entry.Load().Kind, value)
}

func (h *Hold) change(ctx context.Context, k Kind, value []byte) error {
	if ctx.Err() != nil {
		return GaveUp(ctx, nil) // before anything was asked for, the outcome of which nobody would know
	}
	select {
	case h.alone <- struct{}{}:
		defer func() { <-h.alone }()
	case <-ctx.Done():
		return GaveUp(ctx, nil)
	}
	if err := h.Err(); err != nil {
		return err
	}
	g := h.share.grant
	e := *g.entry.Load()
	downgrade := k != e.Kind
	if k == Read && !downgrade {
		return nil
	}
	if downgrade {
		h.fix() // whoever takes the next turn would take it for a writer's
	}
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer h.AfterEnd(func() { cancel(context.Cause(h.life)) })()
	changed, err := h.gate.store.Change(bound, e, k, value)
	switch {
	case err == nil:
		changed.Revision = e.Revision // the token's
		g.entry.Store(&changed)
		return nil
	case errors.Is(err, ErrGone), downgrade && errors.Is(err, ErrUnknown):
		h.fix()
		err = fmt.Errorf("%w: %w", ErrLost, err)
		h.end(err)
	}
	return err
}

// fix ends the turns on the hold's grant with the present one.
func (h *Hold) fix() {
	h.gate.line.mu.Lock()
	defer h.gate.line.mu.Unlock()
	h.share.grant.fixed = true
}

// Asked returns nil once somebody has asked for the hold's entry, also if that was before the call. Else it returns why
// nobody will: the end of ctx or of the hold, or that the Store cannot carry such requests.
func (h *Hold) Asked(ctx context.Context) error {
	asker, ok := h.gate.store.(Asker)
	if !ok {
		return errCannotAsk
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer h.AfterEnd(func() { cancel(context.Cause(h.life)) })()
	for {
		e := h.share.grant.entry.Load()
		err := asker.Asked(ctx, *e)
		if !errors.Is(err, ErrGone) {
			return err
		}
		// It may be gone because another has taken its place. Who has put it there is about to say so.
		select {
		case h.alone <- struct{}{}:
			<-h.alone
		case <-ctx.Done():
			return GaveUp(ctx, err)
		}
		if h.share.grant.entry.Load() == e {
			return err
		}
	}
}

// Release ends the hold at once. If it is the last on its turn, it hands the grant on or removes its entry. Removal
// waits for the service, for no longer than a third of the TTL or what is left of the session, whichever is less; then
// it goes on behind.
//
// Nil: it was held to the end. ErrLost: it was not; ErrClosed: the Store was closed before. Another error: it was held,
// but nobody confirmed that the entry is gone. ErrReleased: called before.
func (h *Hold) Release() error {
	if h.taken.Swap(true) {
		return ErrReleased
	}
	lost := h.Err()
	h.end(ErrReleased)
	h.alone <- struct{}{} // a Downgrade that is under way ends with the hold
	defer func() { <-h.alone }()
	err := h.gate.release(h.share.grant)
	if lost != nil {
		return lost
	}
	return err
}
