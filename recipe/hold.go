package recipe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

// A Hold is one local use of a grant: what a lease of the root package stands on. It ends when it is released, and when
// the session of its entry is over. All methods may be called at any time by any goroutine.
type Hold struct {
	grant *grant
	turn  int
	since time.Time

	tenure *tenure // nil if no Trace is to be told of its end; shared with the holds that have entered again

	taken atomic.Bool   // released, by the first caller of Release
	alone chan struct{} // has a value while Change or Release is under way: either may wait for the service
	// unsure is true if the version of the entry may not be known, after a change of unknown outcome. Guarded by alone.
	unsure bool

	mu    sync.Mutex
	cause error           // why it has ended; nil while it is not known to have
	life  context.Context // for callers that ask: done when it has ended, with the cause; nil until then, for most turns do without
	cut   context.CancelCauseFunc
}

func newHold(gr *grant, turn int) *Hold {
	h := &Hold{grant: gr, turn: turn, since: gr.since, alone: make(chan struct{}, 1)}
	if turn > 0 {
		h.since = time.Now()
	}
	return h
}

// Token returns the revision at which the hold's entry was created, and the number of its turn: 0 for the hold that won
// the grant from the queue, and one higher for each turn that has begun on it since.
func (h *Hold) Token() (revision int64, turn int) { return h.grant.place.Load().entry.Revision, h.turn }

// ID returns what the service calls the hold's entry. A Change may put another entry in its place.
func (h *Hold) ID() string { return h.grant.place.Load().entry.ID }

// Deadline is when the hold ends unless its session is renewed before.
func (h *Hold) Deadline() time.Time { return h.grant.in().until() }

// Life returns a context that is done when the hold has ended, with the cause. Its Err does not look at the clock.
func (h *Hold) Life() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.life != nil:
	case h.cause != nil:
		h.life, h.cut = context.WithCancelCause(context.Background())
		h.cut(h.cause)
	default:
		// The grant's life is a child of the session's. As a child of the grant's it ends in the same step as they do.
		h.life, h.cut = context.WithCancelCause(h.grant.life)
	}
	return h.life
}

// end ends the hold, unless it has ended.
func (h *Hold) end(cause error) {
	if h.ended() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil {
		h.cause = cause
	}
	if h.life != nil {
		h.cut(h.cause)
	}
}

// ended returns why the hold has ended, or nil. It does not look at the clock.
func (h *Hold) ended() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil {
		h.cause = context.Cause(h.grant.life)
	}
	return h.cause
}

// Err is nil while the hold is held, by the clock at the time of the call. Otherwise it is ErrReleased or ErrClosed, or
// wraps ErrLost and the cause.
func (h *Hold) Err() error {
	if h.ended() == nil {
		// Looking ends a session whose deadline has passed, and with it this hold.
		_ = h.grant.in().errNow()
	}
	return h.ended()
}

// Entries returns the entry that stands for the hold, or none if it has ended. No other turn begins on that entry: as
// long as it stands, it stands for this turn, so that a transaction guarded by it does not commit under another.
// Readers that share the entry already keep it.
func (h *Hold) Entries() []driver.Entry {
	entries, _ := h.Guarded()
	return entries
}

// Guarded is Entries, and says why there are none.
func (h *Hold) Guarded() ([]driver.Entry, error) {
	if err := h.Err(); err != nil {
		return nil, err
	}
	if !h.grant.pin(h.turn) {
		return nil, ErrReleased // for another turn has begun
	}
	return []driver.Entry{h.grant.place.Load().entry}, nil
}

// Again returns another hold on the same turn, for an owner that enters once more. The turn is over when all of them
// are released, in whatever order; then Again fails with ErrReleased. If the session is over it fails with the cause.
func (h *Hold) Again() (*Hold, error) {
	h.grant.in().joins(h.tenure) // before a release of the others could take it for the last
	if err := h.grant.again(h.turn); err != nil {
		h.conclude(ErrReleased, nil, time.Now())
		return nil, err
	}
	again := newHold(h.grant, h.turn)
	again.tenure = h.tenure
	return again, nil
}

var errNotCandidate = errors.New("not a candidate")

// Change changes the hold's entry in its place in the queue. The hold continues, with the turn and the revision that
// it had when it was granted. There are two changes:
//
// With driver.Read a writer becomes a reader: no writer comes in between, and the readers behind it come in at once.
// The value has to be nil, and stays. A reader is left as it is. If the service has not said whether the entry was
// changed, readers may be in or not, so that the hold is neither; then it is lost, and the error wraps ErrUncertain.
//
// With driver.Candidate a candidate gets another value, nil for the Holder of the Store. If the service has not said
// whether it did, the value may have changed or may change later, and the error wraps ErrUncertain.
//
// After any other error the hold is as it was, and Change may be called again.
func (h *Hold) Change(ctx context.Context, k driver.Kind, value []byte) error {
	if (k == driver.Candidate) != (h.grant.place.Load().entry.Kind == driver.Candidate) {
		return errNotCandidate
	}
	if k == driver.Candidate && value == nil {
		value = words{holder: h.grant.store.options.Holder}.value() // as when it joined
	}
	if ctx.Err() != nil {
		return gaveUp(ctx, nil, false) // before a request is made whose outcome would be unknown
	}
	select {
	case h.alone <- struct{}{}:
	case <-ctx.Done():
		return gaveUp(ctx, nil, false)
	}
	over, err := h.change(ctx, k, value)
	<-h.alone
	if over {
		h.conclude(err, nil, time.Now()) // a Trace may release
	}
	return err
}

// change is Change for the caller that has alone. It reports whether it has ended the hold.
func (h *Hold) change(ctx context.Context, k driver.Kind, value []byte) (over bool, err error) {
	if err := h.Err(); err != nil {
		return false, err
	}
	p := h.grant.place.Load()
	downgrade := k != p.entry.Kind
	if k == driver.Read && !downgrade {
		return false, nil
	}
	if downgrade {
		h.grant.close() // the next turn would be taken for a writer's
		h.grant.easing.Add(1)
		defer h.grant.easing.Add(-1)
	}
	bound, cancel := bind(ctx, h.Life())
	defer cancel()
	changed, err := h.grant.store.replace(bound, p, k, value, h.unsure)
	h.unsure = err != nil && (h.unsure || errors.Is(err, ErrUncertain))
	if err != nil && h.ended() != nil && ctx.Err() == nil {
		return false, h.Err() // the hold has ended on the way: its entry was removed, or it was released
	}
	switch {
	case err == nil:
		changed.entry.Revision = p.entry.Revision // the token's
		h.grant.place.Store(changed)
		return false, nil
	case errors.Is(err, driver.ErrGone), downgrade && errors.Is(err, ErrUncertain):
		if errors.Is(err, driver.ErrGone) {
			h.grant.vanish()
		}
		err = fmt.Errorf("%w: %w", ErrLost, err)
		h.end(err)
		return true, err
	}
	return false, err
}

// Asked returns nil once the holder is asked to give back its lock, or its turn alone is, also if that was before the
// call; no further turn begins on its entry then. Otherwise it returns why that will not happen: the end of ctx or of
// the hold, or that the Store cannot carry words. Where the service refuses to say whether there are words, it is asked again.
func (h *Hold) Asked(ctx context.Context) error {
	ctx, cancel := bind(ctx, h.Life())
	defer cancel()
	s := h.grant.store
	for brake := (pause.Brake{}); ; brake.Woken(ctx, false) {
		p := h.grant.place.Load()
		words, v := s.heard(ctx, p)
		if v.fate == done && parseMessage(words).asks(h.turn, h.grant.shared()) {
			h.grant.pin(h.turn) // to hand it to a goroutine of the same process would not be to give it back
			return nil
		}
		err := v.err
		switch {
		case v.fate == done && words == "":
			_, v.silent, err = s.watch(ctx, p.in, &p.entry, []driver.Target{{Entry: p.entry, What: driver.Told}})
		case v.fate == done:
			err = s.watchOwn(ctx, p, false, rehearAfter) // words that stay would wake a watch for words at once
		}
		if errors.Is(err, driver.ErrGone) && h.moved(ctx, p) {
			continue
		}
		switch {
		case err == nil:
		case ctx.Err() != nil, errors.Is(err, driver.ErrGone), errors.Is(err, errors.ErrUnsupported):
			return s.failure(ctx, verdict{err: err, silent: v.silent})
		default:
			_ = pause.For(ctx, watchAfter) // it is refused, and may not be later
		}
	}
}

// heard returns the words that were left with the entry of p.
func (s *Store) heard(ctx context.Context, p *place) (words string, v verdict) {
	v = s.try(ctx, p.in, func(ctx context.Context, _ int) (err error) {
		words, err = p.in.Heard(ctx, p.entry)
		return err
	})
	return words, v
}

// moved reports whether another entry has taken the place of p. The change that has put it there is about to say so.
func (h *Hold) moved(ctx context.Context, p *place) bool {
	select {
	case h.alone <- struct{}{}:
		<-h.alone
	case <-ctx.Done():
	}
	return h.grant.place.Load() != p
}

// After calls f when d has passed or the hold has ended, in the background. Until then the service keeps what is held if the process
// dies, as after Outlast, once it has answered. Close of the Store ends the hold, and waits
// for f; the log then tells that the hold has ended before its time. It is for a caller that does not wait until its hold is
// to be released.
func (h *Hold) After(d time.Duration, f func()) {
	until := time.Now().Add(d)
	kept := h.grant.store.background(func() {
		h.outlastUntil(until)
		_ = pause.For(h.Life(), time.Until(until))
		if left := time.Until(until); left > 0 && errors.Is(h.Err(), ErrClosed) {
			h.grant.store.log.Warn("store closed: a lock is given back before its time is over, and others may run the same job",
				"path", h.grant.place.Load().entry.Queue, "left", left.Round(time.Millisecond))
		}
		if h.tenure != nil {
			h.tenure.others.Store(true) // f ends the hold, and a Trace that blocks would keep Close
		}
		f()
	})
	if !kept { // the Store is closed, and with it the hold
		f()
	}
}

// Abandon is Release for a caller that cannot wait: removal continues in the background from the start. It must not be
// called while a Change is under way.
func (h *Hold) Abandon() {
	if !h.taken.Swap(true) {
		h.end(ErrReleased)
		h.grant.abandon()
		h.conclude(h.ended(), nil, time.Now())
	}
}

// Release ends the hold at once. If it is the last on its turn, it hands the grant off or removes its entry. Removal
// waits for the service, for no longer than a third of the TTL or what is left of the session, whichever is less; then
// it continues in the background.
//
// Nil: it was held to the end. ErrLost: it was not. ErrClosed: the Store was closed before. ErrReleased: Release was
// called before. Any other error: it was held, but the service has not confirmed that the entry is gone; ErrUnavailable
// is among them.
func (h *Hold) Release() error { return h.ReleaseIn(context.Background()) }

// ReleaseIn is Release for a caller that waits no longer than until ctx is done. Removal continues in the background
// then.
func (h *Hold) ReleaseIn(ctx context.Context) error {
	if h.taken.Swap(true) {
		return ErrReleased
	}
	lost := h.Err()
	h.end(ErrReleased)
	h.alone <- struct{}{} // a Change that is under way ends with the hold
	at := time.Now()
	err := h.grant.release(ctx)
	<-h.alone
	switch {
	case lost != nil:
		h.conclude(lost, nil, at)
		return lost
	case errors.Is(err, ErrLost):
		h.grant.store.noteLost(h.grant, err)
		h.conclude(err, nil, at)
	default:
		h.grant.store.noteReleased(h, err)
		h.conclude(ErrReleased, err, at)
	}
	return err
}
