package recipe

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxTurns is how many more turns may be taken on a grant: as many as a token counts.
	maxTurns = 255
	// handOffFor is how long after its grant the last turn may begin.
	handOffFor = 50 * time.Millisecond
)

// A cohort is the state of a gate: the goroutines that wait, and the grants that serve them. It decides; the gate acts.
//
// A grant is in one of the phases of its type, and one grant at most is open. These are the steps:
//
//	           enter                    won, serve              finished: line empty, 255 turns, 50 ms
//	(nothing) ───────▶ joining ───────────────────▶ open ──────────────────────────────────────────▶ over
//	           provide    │  ▲ bequeath: from a      │ ▲ finished: the next turn                       ▲
//	                      │  ╰── caller to the line  │ ╰──╯                                            │
//	                      │                          ▼ pin, close, vanish, 50 ms                       │
//	                      │ refuse, dismiss, drop closing ─────────────────────────────────────────────┤
//	                      ╰────────────────────────────────────────────────────────────────────────────╯
//
// While the line is not empty, a grant is open, or one is joining: each step that may end that ends in provide, which has a
// file of its own. A grant that is open but whose holder takes its time closes after handOffFor, by the timer.
type cohort struct {
	store  *Store
	shared bool
	gate   carrier

	mu     sync.Mutex
	line   line
	grants grants // Invariant: none is over.
	open   *grant // nil if there is none. Invariant: all others are not open.
	// pace is how many of the line the last grant has served, if it could not serve them all. 0 if it could: then one entry is
	// enough for the line.
	pace int
	// unheard is since when the grant had no answer whose caller leaves the line to another one; nil but while that is made.
	unheard *patience
	timer   *time.Timer
	timed   *grant // the grant for which timer was set
	sight   lookout

	first [1]*grant   // room for the first of grants: a lock that is free has no more
	worn  atomic.Bool // a goroutine or a timer was started for it, or a grant was forgotten that has not ended
}

// A carrier acts for a cohort.
type carrier interface {
	// carry has a grant go through the queue for the line, which has waited since began. It ends with ctx.
	carry(ctx context.Context, gr *grant, began time.Time)
	// use is called with 1 for each grant that is added, and with -1 when it has ended or is forgotten. The cohort's mu is held.
	use(n int)
}

func (c *cohort) init(s *Store, shared bool, gate carrier) {
	c.store, c.shared, c.gate = s, shared, gate
	c.grants = c.first[:0]
	c.sight = lookout{mu: &c.mu, line: &c.line, asker: c}
}

// blank reports whether the cohort, whose gate is not in use, is as good as new: no goroutine and no timer was started for it, and each grant
// of its own has ended, so that nothing but holds that were released knows it.
func (c *cohort) blank() bool { return !c.worn.Load() }

// enter decides how a caller begins: with a turn, on a grant that is open, or on a grant that it is to win from the queue by itself,
// or as the last of the line.
func (c *cohort) enter(ctx context.Context, note string) (turn, *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	admits := c.admits(now)
	joins, _ := c.grants.joining()
	switch {
	case c.shared && admits:
		return c.open.next(), nil
	case !admits && c.line.Len() == 0 && joins == 0:
		return turn{grant: c.add(joining)}, nil
	}
	w := newWaiter(ctx, now)
	w.ahead, w.note = c.line.Len(), note
	c.line.push(w)
	c.sight.expect(now, w.due)
	c.provide(now)
	return turn{}, w
}

// share returns a turn on the grant that readers hold, if another may begin.
func (c *cohort) share() (turn, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.shared || !c.admits(time.Now()) {
		return turn{}, false
	}
	return c.open.next(), true
}

// tryEnter is enter without a wait. It reports false if a grant of this process, or its line, is in the way. While the
// service does not answer, or grants nothing, the line waits for that and not for others, so a caller passes it by and
// asks.
func (c *cohort) tryEnter(pass bool) (turn, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.shared && c.admits(time.Now()):
		return c.open.next(), true
	case !c.shared && c.busy() && (!pass || c.grants.kept()):
		return turn{}, false
	default:
		return turn{grant: c.add(trying)}, true
	}
}

// busy reports whether any goroutine waits, or a grant is in the queue or held. One whose session is over, or whose entry was
// found to be gone, holds nothing and stands nowhere, whether or not it was released. The caller holds mu.
func (c *cohort) busy() bool {
	return c.line.Len() > 0 || slices.ContainsFunc(c.grants, func(gr *grant) bool { return !gr.won() || gr.held() })
}

// admits reports whether a turn may begin now. It closes a grant whose time is over. The caller holds mu.
func (c *cohort) admits(now time.Time) bool {
	if c.open != nil && now.Sub(c.open.since) >= handOffFor {
		c.shut(c.open)
	}
	return c.open != nil && c.open.turns < maxTurns && c.open.in().err() == nil
}

// add returns a grant that is to be won. The caller holds mu.
func (c *cohort) add(as phase) *grant {
	gr := &grant{store: c.store, cohort: c, phase: as}
	gr.unanswered.Store(c.unheard)
	c.grants = append(c.grants, gr)
	c.gate.use(1)
	return gr
}

// late runs on the timer.
func (c *cohort) late() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timed = nil // if another has been won meanwhile, its time is not over
	c.provide(time.Now())
}

// won opens a grant that its caller has won.
func (c *cohort) won(gr *grant, p *place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin(gr, p)
}

// serve opens a grant that was carried for the line, whose first gets the first turn. It reports false if the grant was
// dropped.
func (c *cohort) serve(gr *grant, p *place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gr.phase == over {
		return false
	}
	first := c.line.pop() // for there are no more that are carried than are in the line
	c.begin(gr, p)
	first.give(turn{grant: gr})
	return true
}

// begin opens a grant with its first turn. The caller holds mu.
func (c *cohort) begin(gr *grant, p *place) {
	if c.open != nil {
		c.shut(c.open) // of readers; or its entry was removed behind its back
	}
	gr.phase, gr.holds, gr.drop = open, 1, nil
	gr.winAt(p)
	c.open = gr
	if p.in.life.Err() != nil { // the keeper of the session may have looked through its grants already
		c.part(gr)
	}
	for c.shared && c.line.Len() > 0 && c.admits(gr.since) {
		c.line.pop().give(gr.next())
	}
	c.provide(gr.since)
}

// bequeath passes the grant of a caller who gave up to the line. P is where its entry stands, or nil: without an entry
// there is nothing to pass. A caller who holds other locks is apart from the line, for its entry names these locks, and
// no other caller holds them. bequeath reports whether the line has taken the grant.
func (c *cohort) bequeath(gr *grant, p *place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := p != nil && c.line.Len() > 0
	if left {
		gr.standing = p
		left = c.bid(gr)
	} else {
		// The line waits for the answer that its caller has waited for: a service that says nothing to one of them after the other has
		// been silent for all that time.
		c.unheard = gr.unanswered.Load()
		c.end(gr)
	}
	c.provide(time.Now())
	c.unheard = nil // with nobody in the line, it concerns nobody
	return left
}

// refuse ends a grant that was not won, for err. It was carried for the first of the line, which is told why; the others ask for
// themselves. If the grant was dropped, or the Store closed, there is nothing to tell.
func (c *cohort) refuse(gr *grant, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gr.phase == over || c.store.life.Err() != nil {
		return
	}
	c.end(gr)
	c.line.pop().give(turn{err: err})
	c.provide(time.Now())
}

// dismiss ends a grant that was not won, for an err that answers all that wait: the line is told the same. If the grant was dropped,
// there is nothing to tell.
func (c *cohort) dismiss(gr *grant, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gr.phase == over {
		return
	}
	c.end(gr)
	for c.line.Len() > 0 {
		c.line.pop().give(turn{err: err})
	}
	c.provide(time.Now())
}

// depart ends a grant: it was not won, or its last hold has ended.
func (c *cohort) depart(gr *grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(gr)
	c.provide(time.Now())
}

// end is depart for a caller that holds mu, and provides.
func (c *cohort) end(gr *grant) {
	c.shut(gr)
	gr.phase = over
	c.forget(gr)
}

// forget takes a grant out of the cohort's grants, if it is one of them. The caller holds mu.
func (c *cohort) forget(gr *grant) {
	if c.grants.remove(gr) {
		c.gate.use(-1)
	}
}

// part is forget for a grant that is lost, and not released: its holder may never do that, and must not keep the gate in use. The caller
// holds mu.
func (c *cohort) part(gr *grant) {
	c.worn.Store(true)
	c.shut(gr)
	c.forget(gr)
}

// lose ends the turns on gr, whose session is over.
func (c *cohort) lose(gr *grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.part(gr)
	c.provide(time.Now())
}

// leave takes w out of the line, and reports false if a turn is on its way to it.
func (c *cohort) leave(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.line.remove(w) {
		return false
	}
	c.provide(time.Now())
	return true
}

// back puts a goroutine at the head of the line whose turn was on a grant that was lost, and ends the turn. Readers may keep the
// grant for as long as they like, though they were told: the line does not wait for them.
func (c *cohort) back(ctx context.Context, gr *grant) *waiter {
	now := time.Now()
	w := newWaiter(ctx, now)
	c.mu.Lock()
	c.line.pushFront(w)
	c.sight.expect(now, w.due)
	c.provide(now)
	c.mu.Unlock()
	if c.finished(gr) {
		c.depart(gr)
	}
	return w
}

// again adds a hold to the turn of gr with that number, and reports false if the turn is over.
func (c *cohort) again(gr *grant, number int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The turns of a grant follow one another, so while this is the last that began, its holds are the grant's.
	if gr.holds == 0 || gr.turns != number {
		return false
	}
	gr.holds++
	return true
}

// close ends the turns on gr with the present one.
func (c *cohort) close(gr *grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut(gr)
	c.provide(time.Now())
}

// pin is close, unless the turn of that number is over. Readers' turns run at the same time: they are over only when none is left.
func (c *cohort) pin(gr *grant, number int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gr.holds == 0 || !c.shared && gr.turns != number {
		return false
	}
	c.shut(gr)
	c.provide(time.Now())
	return true
}

// vanish ends the turns on gr, whose entry is gone.
func (c *cohort) vanish(gr *grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gr.gone = true
	c.part(gr)
	c.provide(time.Now())
}

// shut closes a grant that is open, before it could serve the whole line. The caller holds mu.
func (c *cohort) shut(gr *grant) {
	if gr.phase != open {
		return
	}
	gr.phase = closing
	c.open, c.pace = nil, gr.turns+1
}

// finished ends one hold on gr, and reports whether gr is to be given up: if it was the last, and no further turn follows.
func (c *cohort) finished(gr *grant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gr.holds--; gr.holds > 0 {
		return false
	}
	now := time.Now()
	if c.open == gr && c.admits(now) && !c.shared && c.line.Len() > 0 {
		c.line.pop().give(gr.next())
		c.dropBeyond(c.line.Len())
		return false
	}
	joins, _ := c.grants.joining()
	served := gr.phase == open || c.line.Len()+joins == 0 // all that waited, or as many as a grant can
	c.shut(gr)
	if served {
		c.pace = 0
	}
	// The waiters that are left join while the entry of gr is being removed.
	c.provide(now)
	return true
}

// known reports whether a grant of this process holds, or its entry was shown what it waits for. Until then nobody knows
// whether the lock is taken: the service may refuse, or not answer. An entry that is being removed may have gone.
func (c *cohort) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.grants, func(gr *grant) bool { return gr.kept() || gr.waitsForOthers() })
}

// turn returns the number of the last turn on gr that has begun.
func (c *cohort) turn(gr *grant) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return gr.turns
}

// waits returns how the first entry of the line waits, or nil.
func (c *cohort) waits() *waiting {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, gr := range c.grants {
		if w := gr.waits.Load(); gr.phase == joining && w != nil {
			return w
		}
	}
	return nil
}

// holder returns what is known of what the line waits for: of the grant that is held, or of what its entry waits for.
func (c *cohort) holder() words {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, gr := range c.grants {
		if gr.held() && gr.stuck() == nil {
			return wordsOf(gr.place.Load().entry)
		}
	}
	for _, gr := range c.grants {
		if w := gr.waits.Load(); w != nil && w.place.in.silence() == nil && w.stuck() == nil {
			return w.place.in.holder(w.place.in.awaited(w))
		}
	}
	return words{}
}

// trouble returns what one of the line has waited for. That is no other goroutine if none holds: where the entry for the line has no
// answer, it is how the last request has failed, and nothing is known before the first answer.
func (c *cohort) trouble() (v verdict) {
	w := c.waits()
	away := !c.store.State().answers()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, gr := range c.grants {
		if gr.phase == joining {
			v.hears(gr)
		}
	}
	switch {
	case c.grants.kept():
		v.err = c.store.behindOwn()
	case w != nil:
		v.err = w.place.in.behind(w)
	case v.err != nil:
	case v.silent || away:
		v.err = errNoAnswer
	default:
		v.err = c.leaving()
	}
	return v
}

// leaving returns what the line waits for while the entry of a grant is being removed, or nil. The caller holds mu.
func (c *cohort) leaving() (trouble error) {
	for _, gr := range c.grants {
		if !gr.held() {
			continue
		}
		if stuck := gr.stuck(); stuck != nil {
			return stuck
		}
		trouble = c.store.behindOwn()
	}
	return trouble
}
