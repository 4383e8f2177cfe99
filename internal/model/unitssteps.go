package model

// Steps yields all that may happen.
func (u *Units) Steps(s UnitsState, yield func(Step[UnitsState])) {
	for c := range u.Clients {
		// Of clients that are the same the first to take a step is called A, the next B. So no state is lost.
		if c > 0 && u.Clients[c] == u.Clients[c-1] && !s.clients[c-1].begun {
			continue
		}
		m := &unitsMove{u: u, s: s, c: c, yield: yield}
		m.call()
		m.background()
		m.faults()
	}
	if int(s.size)+1 < len(u.Sizes) {
		next := s
		next.size++
		yield(Step[UnitsState]{Who: "another client", What: "sets the size", Next: next})
	}
	for c := range u.Clients {
		if s.ending&bit(uint8(c)) != 0 {
			next := s
			next.ending &^= bit(uint8(c))
			u.end(&next, c)
			u.settle(&next)
			yield(Step[UnitsState]{Who: service, What: "ends the session of " + names[c], Next: next, Due: true})
		}
	}
	for i, t := range s.posted {
		if t == (chore{}) {
			continue
		}
		next := s
		next.posted[i] = chore{}
		if t.action != noChore {
			u.serve(&next, t)
		} else if c := ownerOf(t.of.id); s.ended&bit(uint8(c)) == 0 && next.index(t.of.id) < 0 {
			next.add(t.of.id)
		}
		u.settle(&next)
		yield(Step[UnitsState]{Who: service, What: "carries out late a request that " + t.action.String(), Next: next})
	}
}

// end removes all that is of a session.
func (u *Units) end(s *UnitsState, c int) {
	for i := s.length() - 1; i >= 0; i-- {
		if id := s.queue[i].id; ownerOf(id) == c {
			s.remove(i)
			s.turns &^= bit(id)
		}
	}
	for n := range uint8(perClient) {
		s.turns &^= bit(idOf(c, n))
	}
	s.ended |= bit(uint8(c))
}

// A unitsMove is the steps of one client from one state.
type unitsMove struct {
	u     *Units
	s     UnitsState
	c     int
	yield func(Step[UnitsState])
}

func (m *unitsMove) me() *sharer { return &m.s.clients[m.c] }

func (m *unitsMove) plain() bool { return m.u.Clients[m.c].Plain }

func (m *unitsMove) step(who, what string, due bool, change func(s *UnitsState, a *sharer)) {
	next := m.s
	a := &next.clients[m.c]
	a.begun = true
	change(&next, a)
	m.u.settle(&next)
	m.yield(Step[UnitsState]{Who: who, What: what, Next: next, Due: due})
}

func (m *unitsMove) does(what string, change func(s *UnitsState, a *sharer)) {
	m.step(names[m.c], what, true, change)
}

func (m *unitsMove) served(what string, change func(s *UnitsState, a *sharer)) {
	m.step(service, what+names[m.c], true, change)
}

// call is the steps of the call that is under way. An answer that lets a client hold may arrive at any time after it was made.
func (m *unitsMove) call() {
	a := m.me()
	switch a.at {
	case entering:
		m.served("carries out the join of ", m.join)
	case asking:
		m.served("shows what is ahead of ", m.look)
	case shown:
		m.does("hears that it fits", func(_ *UnitsState, a *sharer) { a.at = heldUnits })
	case awaitsTurn:
		look := func(_ *UnitsState, a *sharer) { a.at = asking }
		switch {
		case m.s.turns&bit(a.own) != 0:
			m.served("sends the turn of ", look)
		case m.s.size != a.seen && !m.u.has(SizeNotHeard):
			m.served("sends the new size to ", look)
		case m.u.Timers:
			m.does("looks by itself", look)
		}
	case watches:
		there := crowd(0)
		for _, e := range m.s.queue[:m.s.length()] {
			there |= bit(e.id)
		}
		if a.on&^there != 0 || m.s.size != a.seen {
			m.served("sends what it watches to ", func(_ *UnitsState, a *sharer) { a.at = asking })
		}
	case heldUnits:
		m.step(names[m.c], "releases", false, func(s *UnitsState, a *sharer) {
			a.at = handing
			a.give(m.removal(a, true))
		})
	}
}

func (m *unitsMove) join(s *UnitsState, a *sharer) {
	if s.index(a.own) >= 0 { // an earlier attempt has made it
		a.made, a.at = s.queue[s.index(a.own)].made, asking
		return
	}
	e := s.add(a.own)
	a.made, a.seen = e.made, s.size
	ahead := s.queue[:s.index(a.own)]
	a.on = m.u.blockers(a.own, ahead, s.size)
	tell := !m.plain()
	for _, other := range ahead {
		tell = tell && (!m.u.Clients[ownerOf(other.id)].Plain || m.u.has(AwaitsBehindPlain))
	}
	switch {
	case a.on == 0:
		a.at = shown
	case tell:
		a.at = awaitsTurn
	default:
		a.at = watches
	}
}

func (m *unitsMove) look(s *UnitsState, a *sharer) {
	i := s.index(a.own)
	a.seen, a.at = s.size, watches
	if a.on = m.u.blockers(a.own, s.queue[:i], s.size); a.on == 0 {
		a.at = shown
	}
}

// removal is what removes the own entry. Held is true if it is a release.
func (m *unitsMove) removal(a *sharer, held bool) chore {
	t := chore{action: leaves, of: unit{a.own, a.made}, doubtful: a.again, awaited: held}
	switch {
	case m.plain(), !held && m.u.has(WaiterLeaves):
		t.action = leavesOnly
	case a.made == 0:
		t.action = finds
	}
	return t
}

// finish ends a call.
func (m *unitsMove) finish(a *sharer) {
	a.left--
	a.again, a.made, a.seen, a.on = false, 0, 0, 0
	if a.left == 0 {
		a.at, a.own = through, 0
		return
	}
	a.at, a.own = entering, idOf(m.c, a.joined)
	a.joined++
}

// background is the requests that are on their way beside those of the call.
func (m *unitsMove) background() {
	for i, t := range m.me().chores {
		if t.action != noChore {
			m.served("carries out, and answers, what "+t.action.String()+", of ", func(s *UnitsState, a *sharer) {
				m.answered(a, i, m.u.serve(s, t))
			})
		}
	}
	for n := range uint8(perClient) {
		id := idOf(m.c, n)
		if i := m.s.index(id); i >= 0 && m.me().suspects&(1<<n) != 0 && !m.me().removes(id) {
			m.does("finds an entry that has come late", func(s *UnitsState, a *sharer) {
				t := chore{action: leaves, of: s.queue[i], late: true}
				if m.plain() || m.u.has(LateOneRemoved) {
					t.action = leavesOnly
				}
				a.give(t)
			})
		}
	}
}

func (a *sharer) removes(id uint8) bool {
	for _, t := range a.chores {
		if t.of.id == id && (t.action == leaves || t.action == leavesOnly || t.action == finds) {
			return true
		}
	}
	return false
}

func (m *unitsMove) answered(a *sharer, i int, next chore) {
	t := a.chores[i]
	if next.action == leaves { // its revision was found
		next.doubtful, next.awaited, next.repeated = t.doubtful, t.awaited, t.repeated
		a.chores[i] = next
		return
	}
	a.chores[i] = next
	if next.action == noChore {
		copy(a.chores[i:], a.chores[i+1:])
		a.chores[maxTasks-1] = chore{}
	}
	if t.doubtful && (t.action == leaves || t.action == leavesOnly || t.action == finds) {
		a.suspects |= 1 << ((t.of.id - 1) % perClient)
	}
	if t.awaited && a.at == handing {
		m.finish(a)
	}
}

// serve carries out a request, and returns what follows its answer.
func (u *Units) serve(s *UnitsState, t chore) (next chore) {
	queue := s.queue
	before := queue[:s.length()]
	switch t.action {
	case finds:
		if i := s.index(t.of.id); i >= 0 {
			return chore{action: leaves, of: s.queue[i]}
		}
		return next
	case leaves, leavesOnly:
		i := s.index(t.of.id)
		found := i >= 0 && (s.queue[i].made == t.of.made || t.of.made == 0)
		if found {
			s.remove(i)
			s.turns &^= bit(t.of.id)
		}
		switch {
		case t.action == leavesOnly:
			return next
		case !found && u.has(LostIsTheEnd):
			return next
		case !found:
			return chore{action: tellsAny}
		case u.has(LookApart):
			return chore{action: looksBack, of: t.of}
		}
		after := s.queue[:s.length()]
		return u.telling(u.fits(after, s.size) &^ u.fits(before, s.size))
	case looksBack: // what is left now, and what that would be with the entry in its place
		with := make([]unit, 0, maxStanding)
		after := s.queue[:s.length()]
		with = append(with, t.of)
		with = append(with, after...)
		return u.telling(u.fits(after, s.size) &^ u.fits(with, s.size))
	case tellsAny:
		return u.telling(u.fits(s.queue[:s.length()], s.size) &^ s.turns)
	case tells:
		there := crowd(0)
		for _, e := range s.queue[:s.length()] {
			there |= bit(e.id)
		}
		switch {
		case u.has(PutForNone):
			s.turns |= t.tell
		case u.has(AllOrNone) && t.tell&^there != 0:
		default:
			s.turns |= t.tell & there
		}
	}
	return next
}

// telling is the request that tells those, but plain ones.
func (u *Units) telling(those crowd) (next chore) {
	last := crowd(0)
	for c, client := range u.Clients {
		for n := range uint8(perClient) {
			if client.Plain {
				those &^= bit(idOf(c, n))
			}
			if b := bit(idOf(c, n)); those&b != 0 {
				last = b
			}
		}
	}
	if u.has(LastTold) {
		those = last
	}
	if those != 0 {
		next = chore{action: tells, tell: those}
	}
	return next
}

// faults is what may happen to a client.
func (m *unitsMove) faults() {
	a := m.me()
	who := names[m.c]
	fault := func(left func(*Faults) *uint8, what string, change func(s *UnitsState, a *sharer)) {
		if *left(&m.s.faults) == 0 {
			return
		}
		m.step(who, what, false, func(s *UnitsState, a *sharer) {
			*left(&s.faults)--
			change(s, a)
		})
	}
	if a.at == entering {
		fault(losses, "gets no answer to its join, which may arrive late, and sends it again", func(s *UnitsState, a *sharer) {
			s.post(chore{of: unit{id: a.own}})
			a.again = true
		})
		fault(losses, "loses the answer to its join, and sends it again", func(s *UnitsState, a *sharer) {
			if s.index(a.own) < 0 {
				s.add(a.own)
			}
			a.again = true
		})
	}
	switch a.at {
	case entering, asking, shown, awaitsTurn, watches:
		fault(cancels, "gives up", func(s *UnitsState, a *sharer) {
			if a.at == entering {
				s.post(chore{of: unit{id: a.own}})
				a.again = true
			}
			a.give(m.removal(a, false))
			m.finish(a)
		})
	}
	for i, t := range a.chores {
		if t.action == noChore || t.action == finds || t.action == looksBack {
			continue
		}
		repeats := func(a *sharer) {
			a.chores[i].repeated = true
			if t.action == tellsAny {
				a.chores[i].tell = 0
			}
		}
		fault(losses, "gets no answer, and sends again what may arrive late: it "+t.action.String(), func(s *UnitsState, a *sharer) {
			s.post(t)
			repeats(a)
		})
		fault(losses, "loses the answer to what it sends again: it "+t.action.String(), func(s *UnitsState, a *sharer) {
			m.u.serve(s, t)
			repeats(a)
		})
	}
	if a.begun && a.at != crashed && (a.at != through || a.chores[0].action != noChore || a.suspects != 0) {
		fault(crashes, "crashes", func(s *UnitsState, a *sharer) {
			if a.at == entering {
				s.post(chore{of: unit{id: a.own}})
			}
			s.ending |= bit(uint8(m.c))
			*a = sharer{at: crashed, begun: true}
		})
		fault(expiries, "closes its Store", func(s *UnitsState, a *sharer) {
			m.u.end(s, m.c)
			*a = sharer{at: through, begun: true}
			if !m.plain() && !m.u.has(CloseTellsNone) {
				a.give(chore{action: tellsAny})
			}
		})
	}
}

func (c choreAction) String() string {
	return [...]string{
		"joins", "removes an entry, and shows what is left", "removes an entry", "shows what is left", "shows an entry", "puts turns",
		"shows what fits",
	}[c]
}
