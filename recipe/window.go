package recipe

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A window is the local side of a semaphore: the callers of one Store who ask for units of it. It bounds the entries that
// stand in the queue for them: as soon as one is known to wait, there are maxEntries at most, and more callers wait in a
// line. Where nothing is known to wait, as many requests may be under way as have been granted without an end; and always
// as many as fitted beside the grant that was won last, as its look has shown. So a crowd that comes to a free semaphore is
// not held up. There are no turns on a grant: each caller has units of its own.
//
// A bid is an entry, or the request that is to make one. The first callers bid for themselves. For the line, bids are
// carried in the background, each with the units of a caller. So a caller who gives up in the line costs nothing, and
// where another asks for as many units, its bid stands for that one.
//
// It decides; the gate acts. Invariants: for no number of units are more bids carried than callers wait. While the line is
// not empty there is a bid. For each caller in the line there is a bid for as many units or more: what the semaphore cannot
// give at all is said at once.
type window struct {
	store *Store
	gate  unitsCarrier

	mu    sync.Mutex
	line  line
	bids  []*bid
	asked map[int64]demand // of the line, by units
	most  int              // how many bids there may be while none is known to wait
	left  int64            // units that were free at the last look, and that no bid asks for
	sight lookout
	// unheard is since when the bid had no answer that its caller leaves to the line; nil but while that is made.
	unheard *patience

	first [1]*bid     // room for the first of bids: a semaphore that is free has no more
	worn  atomic.Bool // a goroutine or a timer was started for it
}

// A unitsCarrier acts for a window.
type unitsCarrier interface {
	// carryUnits has a bid go through the queue for the line, which has waited since began. It ends with ctx.
	carryUnits(ctx context.Context, b *bid, began time.Time)
	// use is called with 1 for each bid that is added, and with -1 when it is removed. The window's mu is held.
	use(n int)
}

// A bid is for units.
type bid struct {
	grant
	units int64
}

// A demand is how many in the line ask for a number of units, and how many bids are carried for them.
// Invariant: carried ≤ waiting.
type demand struct{ waiting, carried int }

func (w *window) init(s *Store, gate unitsCarrier) {
	w.store, w.gate, w.most = s, gate, maxEntries
	w.bids = w.first[:0]
	w.sight = lookout{mu: &w.mu, line: &w.line, asker: w}
}

// blank reports whether the window, whose gate is not in use, is as good as new.
func (w *window) blank() bool {
	if w.worn.Load() {
		return false
	}
	w.most, w.left = maxEntries, 0
	return true
}

// enter decides how a caller begins: with a bid that it carries itself, or as the last of the line.
func (w *window) enter(ctx context.Context, note string, units int64) (*bid, *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.line.Len() == 0 && w.room(units) || units > w.largest() {
		return w.add(units), nil
	}
	now := time.Now()
	at := newWaiter(ctx, now)
	at.ahead, at.note, at.units = w.line.Len(), note, units
	w.line.push(at)
	w.wait(at, now)
	return nil, at
}

// back puts a caller at the head of the line whose units were lost before it had them.
func (w *window) back(ctx context.Context, units int64) *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	at := newWaiter(ctx, now)
	at.units = units
	w.line.pushFront(at)
	w.wait(at, now)
	return at
}

// wait counts a caller that has come into the line. The caller holds mu.
func (w *window) wait(at *waiter, now time.Time) {
	w.count(at.units, 1, 0)
	w.worn.Store(true)
	w.sight.expect(now, at.due)
	w.provide()
}

// count adds to the demand for a number of units. The caller holds mu.
func (w *window) count(units int64, waiting, carried int) {
	d := w.asked[units]
	d.waiting += waiting
	d.carried += carried
	if d == (demand{}) {
		delete(w.asked, units)
		return
	}
	if w.asked == nil {
		w.asked = map[int64]demand{}
	}
	w.asked[units] = d
}

// crowded reports whether callers wait in the line, and an entry asks for as many units.
func (w *window) crowded(units int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.line.Len() > 0 && units <= w.largest()
}

// known reports whether an entry was shown what it waits for. Until then nobody knows whether units are free.
func (w *window) known() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.bids, func(b *bid) bool { return b.waitsForOthers() })
}

// room reports whether one more bid may be made, for so many units. The caller holds mu.
func (w *window) room(units int64) bool {
	if len(w.bids) < maxEntries || units <= w.left {
		return true
	}
	if slices.ContainsFunc(w.bids, (*bid).stands) {
		w.most = maxEntries
	}
	return len(w.bids) < w.most
}

// stands reports whether the bid is known to wait.
func (b *bid) stands() bool { return b.waits.Load() != nil }

// largest returns for how many units there is a bid, at least: as many as the semaphore has, or its caller is told. The caller holds mu.
func (w *window) largest() int64 {
	most := int64(1)
	for _, b := range w.bids {
		most = max(most, b.units)
	}
	return most
}

// add makes a bid. The caller holds mu.
func (w *window) add(units int64) *bid {
	b := &bid{grant: grant{store: w.store, phase: joining}, units: units}
	b.unanswered.Store(w.unheard)
	w.bids = append(w.bids, b)
	w.left = max(w.left-units, 0)
	w.gate.use(1)
	return b
}

// remove ends a bid. The caller holds mu.
func (w *window) remove(b *bid) {
	if b.drop != nil {
		w.count(b.units, 0, -1)
	}
	b.drop, b.phase = nil, over
	if i := slices.Index(w.bids, b); i >= 0 {
		w.bids = slices.Delete(w.bids, i, i+1)
		w.gate.use(-1)
	}
}

// provide has bids carried for the line, in its order, and for those who ask for more units than any bid. The caller holds mu.
func (w *window) provide() {
	if w.line.Len() == 0 {
		w.sight.rest()
		return
	}
	for next := w.next(); next != nil && w.room(next.units) && w.send(w.add(next.units), next); next = w.next() {
	}
	largest := w.largest()
	for units, d := range w.asked {
		if units > largest && d.waiting > d.carried && !w.send(w.add(units), w.firstFor(units)) {
			break
		}
	}
}

// next returns the first of the line for whom no bid is carried, or nil. The caller holds mu.
func (w *window) next() *waiter {
	var seen map[int64]int
	for at := w.line.Front(); at != nil; at = at.Next() {
		of := at.Value.(*waiter)
		if d := w.asked[of.units]; d.carried == 0 {
			return of
		}
		if seen == nil {
			seen = map[int64]int{}
		}
		if seen[of.units]++; seen[of.units] > w.asked[of.units].carried {
			return of
		}
	}
	return nil
}

// firstFor returns the first of the line who asks for so many units, or nil. The caller holds mu.
func (w *window) firstFor(units int64) *waiter {
	for at := w.line.Front(); at != nil; at = at.Next() {
		if of := at.Value.(*waiter); of.units == units {
			return of
		}
	}
	return nil
}

// send has a bid carried for the line, for its first who asks for as many units, and reports false if the Store is closed. The caller
// holds mu.
func (w *window) send(b *bid, first *waiter) bool {
	ctx, cancel := context.WithCancel(w.store.life)
	b.note = first.note
	came := first.came
	if !w.store.background(func() { defer cancel(); w.gate.carryUnits(ctx, b, came) }) {
		cancel()
		w.remove(b)
		return false
	}
	b.drop = cancel
	w.count(b.units, 0, 1)
	return true
}

// pop takes w out of the line, if it stands there. The caller holds mu.
func (w *window) pop(at *waiter) bool {
	if !w.line.remove(at) {
		return false
	}
	w.count(at.units, -1, 0)
	return true
}

// won ends the bid of a caller who has won it.
func (w *window) won(b *bid, p *place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.win(b, p)
	w.provide()
}

// win has a bid be a grant of one hold. The caller holds mu.
func (w *window) win(b *bid, p *place) {
	w.remove(b)
	b.phase, b.holds = closing, 1
	b.winAt(p)
	w.most = min(w.most+1, max(2*len(w.bids), maxEntries))
	w.left = p.left
	for _, other := range w.bids {
		w.left = max(w.left-other.units, 0)
	}
}

// serve gives a bid that was carried to the first who asks for as many units. It reports false if the bid was dropped.
func (w *window) serve(b *bid, p *place) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.phase == over {
		return false
	}
	first := w.firstFor(b.units) // for there are no more that are carried than wait
	w.pop(first)
	w.win(b, p)
	first.give(turn{grant: &b.grant})
	w.provide()
	return true
}

// bequeath leaves the bid of a caller who has gone to the line, if another asks there for as many units. P is where its entry stands, or
// nil: without one there is nothing to leave. It reports whether the entry stands on.
func (w *window) bequeath(b *bid, p *place) (left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unheard = b.unanswered.Load() // as in a cohort
	w.remove(b)
	if d := w.asked[b.units]; p != nil && d.waiting > d.carried {
		b := w.add(b.units)
		b.standing = p
		left = w.send(b, w.firstFor(b.units))
	}
	w.provide()
	w.unheard = nil
	return left
}

// refuse ends a bid that was not won, for err, which the first who asks for as many units is told. If the bid was dropped, or the Store closed, there
// is nothing to tell.
func (w *window) refuse(b *bid, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.phase == over || w.store.life.Err() != nil {
		return
	}
	w.remove(b)
	first := w.firstFor(b.units) // for there are no more that are carried than wait
	w.pop(first)
	first.give(turn{err: err})
	w.provide()
}

// dismiss ends a bid that was not won, for an err that answers all who wait: the line is told the same. If the bid was dropped, there is nothing to tell.
func (w *window) dismiss(b *bid, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.phase == over {
		return
	}
	w.remove(b)
	for w.line.Len() > 0 {
		first := w.line.first()
		w.pop(first)
		first.give(turn{err: err})
	}
	w.dropBeyond()
	w.provide()
}

// leave takes a caller out of the line, and reports false if units are on their way to it.
func (w *window) leave(at *waiter) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.pop(at) {
		return false
	}
	w.dropBeyond()
	w.provide()
	return true
}

// dropBeyond gives up bids, the youngest first, that are carried for more callers than wait. The caller holds mu.
func (w *window) dropBeyond() {
	for units, d := range w.asked {
		for i := len(w.bids) - 1; i >= 0 && d.carried > d.waiting; i-- {
			if b := w.bids[i]; b.units == units && b.drop != nil {
				b.drop()
				w.remove(b)
				d.carried--
			}
		}
	}
}

// waits returns how a bid waits, or nil.
func (w *window) waits() *waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bids {
		if at := b.waits.Load(); at != nil {
			return at
		}
	}
	return nil
}

// ask asks who holds, for the line.
func (w *window) ask() {
	if at := w.waits(); at != nil {
		w.store.background(func() { w.store.ask(at.place.in.life, at) })
	}
}

// holder returns what is known of what the line waits for.
func (w *window) holder() words {
	at := w.waits()
	if at == nil || at.place.in.silence() != nil || at.stuck() != nil {
		return words{}
	}
	return at.place.in.holder(at.place.in.awaited(at))
}

// locked is the error of a Try that callers of this process are in the way of.
func (w *window) locked() error {
	if at := w.waits(); at != nil {
		if by := at.place.in.awaited(at); len(by.Value) > 0 {
			return at.place.in.lockedBehind(at)
		}
	}
	return waitedFor(w.store)
}

// trouble returns what a caller of the line has waited for, as the trouble of a cohort.
func (w *window) trouble() (v verdict) {
	at := w.waits()
	away := !w.store.State().answers()
	w.mu.Lock()
	for _, b := range w.bids {
		v.hears(&b.grant)
	}
	w.mu.Unlock()
	switch {
	case at != nil:
		v.err = at.place.in.behind(at)
	case v.err == nil && (v.silent || away):
		v.err = errNoAnswer
	}
	return v
}
