package model

import "github.com/farsync/farsync/driver"

// Steps yields all that may happen.
func (h *Handover) Steps(s HandoverState, yield func(Step[HandoverState])) {
	for c := range h.Clients {
		// Of clients that are the same the first to take a step is called A, the next B. So no state is lost.
		if c > 0 && h.Clients[c] == h.Clients[c-1] && !s.clients[c-1].begun {
			continue
		}
		m := &move{h: h, s: s, c: c, yield: yield}
		m.call()
		m.background()
		m.faults()
		m.session()
	}
	h.arrivals(s, yield)
}

// A move is the steps of one client from one state.
type move struct {
	h     *Handover
	s     HandoverState
	c     int
	yield func(Step[HandoverState])
}

// step yields one step: change is what it does to a copy of the state.
func (m *move) step(who, what string, due bool, change func(s *HandoverState, a *contender) error) {
	next := m.s
	a := &next.clients[m.c]
	a.begun = true
	wrong := change(&next, a)
	m.h.settle(&next)
	m.yield(Step[HandoverState]{Who: who, What: what, Next: next, Due: due, Wrong: wrong})
}

func (m *move) does(what string, change func(s *HandoverState, a *contender)) {
	m.step(names[m.c], what, true, func(s *HandoverState, a *contender) error {
		change(s, a)
		return nil
	})
}

func (m *move) served(what string, change func(s *HandoverState, a *contender)) {
	m.step(service, what+names[m.c], true, func(s *HandoverState, a *contender) error {
		change(s, a)
		return nil
	})
}

func (m *move) me() *contender { return &m.s.clients[m.c] }

func (m *move) isPlain() bool { return m.h.Clients[m.c].Kind == driver.Foreign }

// call is the steps of the call that is under way. An answer that lets a client hold may arrive at any time after it
// was made. All others are heard as they are made: what a client does then may happen at any time later.
func (m *move) call() {
	switch m.me().at {
	case entering:
		if m.isPlain() {
			m.served("carries out the join, which knows no turns, of ", func(s *HandoverState, a *contender) {
				a.own = s.add(a.own)
				a.at = asking
			})
			return
		}
		m.served("carries out the join of ", m.join)
	case asking:
		m.served("shows what is ahead of ", m.look)
	case shown:
		m.step(names[m.c], "hears that there is nothing ahead", true, func(s *HandoverState, a *contender) error {
			return m.take(s, a, list{})
		})
	case awaiting:
		m.await()
	case behind:
		if !m.s.own(m.me().on) {
			m.served("sends an event of the predecessor, and shows what is ahead, of ", m.look)
		}
	case held:
		m.hold()
	}
}

// enter has a new entry joined, in another session if the last has ended.
func (m *move) enter(s *HandoverState, a *contender) {
	*a = contender{
		at: entering, begun: true, over: a.over, sees: a.sees, unread: a.unread, epoch: a.epoch, joined: a.joined, left: a.left,
		suspects: a.suspects, events: a.events, tasks: a.tasks, spare: a.spare,
	}
	if a.over {
		a.spare = 0
		a.epoch++
		a.over = false
		s.alive[m.c] |= 1 << a.epoch
	}
	if a.spare != 0 {
		a.own = key{id: a.spare, epoch: a.epoch}
		a.spare = 0
		return
	}
	a.own = key{id: idOf(m.c, a.joined), epoch: a.epoch}
	a.joined++
	if a.joined > perClient {
		panic("model: a client makes too many entries")
	}
}

// finish ends a call, and begins the next if there is one.
func (m *move) finish(s *HandoverState, a *contender) {
	if a.left--; a.left > 0 {
		m.enter(s, a)
		return
	}
	*a = contender{at: through, begun: true, over: a.over, epoch: a.epoch, suspects: a.suspects, tasks: a.tasks, spare: a.spare}
}

// join carries out a join, and is what its client makes of the answer. Its turn may have come before.
func (m *move) join(s *HandoverState, a *contender) {
	var got joinAnswer
	a.own, a.on, got = m.h.join(s, a.own)
	a.far = m.h.Long && got == isInCrowd
	switch {
	case got == isAlone:
		a.at, a.lazy, a.heads, a.seen = shown, true, true, 0
	case got == isUnclear:
		a.at = asking
	case m.tries():
		m.giveWay(s, a)
	case got == isSecond:
		a.at = behind
	default:
		a.at = awaiting
	}
}

func (m *move) tries() bool { return m.h.Clients[m.c].Try }

// giveWay ends a call that does not hold, and has its entry removed.
func (m *move) giveWay(s *HandoverState, a *contender) {
	m.leave(a)
	m.finish(s, a)
}

// await is what happens to a client that waits for its turn. A turn is taken, or the watch on turns is set and then
// turns are read.
func (m *move) await() {
	a := m.me()
	for i, e := range a.events {
		if e.of.id != 0 && (e.of.made == a.own.made || m.h.has(TurnByStore)) {
			m.step(names[m.c], "hears of a turn", true, func(s *HandoverState, a *contender) error {
				a.events[i] = turnKey{}
				a.heads, a.seen = true, e.seen
				return m.take(s, a, e.next)
			})
		}
	}
	switch {
	case !a.sees:
		m.served("sets the watch on turns of ", func(_ *HandoverState, a *contender) {
			a.sees, a.unread = true, !m.h.has(NoReadOfTurns)
		})
	case a.unread:
		m.step(service, "shows its turns to "+names[m.c], true, func(s *HandoverState, a *contender) error {
			a.unread = false
			for _, t := range s.turns {
				if t.of.id == a.own.id || m.h.has(TurnByStore) && t.of.id != 0 && ownerOf(t.of.id) == m.c {
					a.heads, a.seen = true, t.seen
					return m.take(s, a, t.next)
				}
			}
			return nil
		})
	}
	if m.h.Timers && !a.watched {
		m.served("shows what is ahead, for its timer has rung, to ", m.look)
	}
}

// look shows what is ahead, as the library decides it, and is what the client makes of that. Once it watches its
// predecessor, it watches one to the end.
func (m *move) look(s *HandoverState, a *contender) {
	i := s.index(a.own)
	if i < 0 {
		m.leave(a)
		m.enter(s, a)
		return
	}
	m.h.entries = m.h.entries[:0]
	for place, k := range s.queue[:i] {
		kind := m.h.Clients[ownerOf(k.id)].Kind
		m.h.entries = append(m.h.entries, driver.Entry{Revision: int64(place) + 1, Kind: kind, Units: 1})
	}
	own := driver.Entry{Revision: int64(i) + 1, Kind: m.h.Clients[m.c].Kind, Units: 1}
	blockers := m.h.Rules.Blockers(own, m.h.entries, 0)
	switch {
	case len(blockers) == 0:
		if a.at != behind || !a.heads { // an event tells the revision; what a look shows is as of now
			a.seen = s.crowd()
		}
		a.at, a.on, a.heads = shown, key{}, true
	case m.tries():
		m.giveWay(s, a)
	case a.watched:
		a.at, a.on = awaiting, key{}
	default:
		a.at, a.watched = behind, m.h.has(WatchDropped)
		a.on = s.queue[blockers[0].Revision-1]
		a.heads, a.seen = false, 0
	}
}

// take is a grant, if the session has not ended.
func (m *move) take(s *HandoverState, a *contender, next list) error {
	if a.over && !m.h.has(TurnAfterEnd) {
		m.enter(s, a)
		return nil
	}
	a.at, a.watched, a.over, a.next, a.on = held, false, false, next, key{}
	if s.disturbed {
		return nil
	}
	return s.granted(m.c)
}

func (m *move) hold() {
	m.step(names[m.c], "ends its hold", false, func(_ *HandoverState, a *contender) error {
		t := m.release(a)
		a.at, a.lazy, a.next, a.heads, a.seen = handing, false, list{}, false, 0
		a.give(t)
		return nil
	})
}
