package model

import "github.com/farsync/farsync/driver"

// fault yields a step that need not happen, if it may.
func (m *move) fault(left func(*Faults) *uint8, who, what string, change func(s *HandoverState, a *contender)) {
	if *left(&m.s.faults) == 0 {
		return
	}
	m.step(who, what, false, func(s *HandoverState, a *contender) error {
		*left(&s.faults)--
		change(s, a)
		return nil
	})
}

func strangers(f *Faults) *uint8 { return &f.Strange }

// faults is what may happen to a client.
func (m *move) faults() {
	a := m.me()
	who := names[m.c]
	m.unanswered()
	if a.waits() {
		m.fault(cancels, who, "gives up", m.giveUp)
		if i := m.s.index(a.own); i > 0 {
			m.fault(strangers, "another program", "deletes the entry of "+who, func(s *HandoverState, a *contender) {
				s.disturbed = true
				s.remove(a.own)
			})
		}
	}
	if a.sees {
		m.fault(events, service, "breaks the watch on turns of "+who, func(_ *HandoverState, a *contender) {
			a.sees, a.unread, a.events = false, false, [maxList]turnKey{}
		})
	}
	if m.busy() {
		m.fault(crashes, who, "crashes", func(s *HandoverState, a *contender) {
			m.underway(s, a)
			s.ending[m.c] |= 1 << a.epoch
			*a = contender{at: crashed, begun: true}
		})
	}
}

// busy reports whether the end of the client, or of its session, would make a difference.
func (m *move) busy() bool {
	a := m.me()
	return a.begun && a.at != crashed && (a.at != through || a.tasks[0].action != noAction || a.suspects != 0)
}

// underway leaves the join that is under way on its way.
func (m *move) underway(s *HandoverState, a *contender) {
	if a.at == entering {
		s.post(task{of: a.own})
	}
}

// post leaves a request on its way.
func (s *HandoverState) post(t task) {
	t.doubtful, t.awaited = false, false
	for i := range s.posted {
		if s.posted[i].of.id == 0 {
			s.posted[i] = t
			return
		}
	}
	panic("model: too many requests on their way")
}

// giveUp ends a call without a hold.
func (m *move) giveUp(s *HandoverState, a *contender) {
	if a.at == entering {
		m.underway(s, a)
		a.again, _, _ = m.h.Rules.Failed(a.again, driver.Unknown)
	}
	m.giveWay(s, a)
}

// unanswered is the requests that are lost, or their answers, and sent again.
func (m *move) unanswered() {
	a := m.me()
	who := names[m.c]
	if a.at == entering && !m.isPlain() {
		again := func(a *contender) { a.again, _, _ = m.h.Rules.Failed(a.again, driver.Unknown) }
		m.fault(losses, who, "gets no answer to its join, which may arrive late, and sends it again", func(s *HandoverState, a *contender) {
			m.underway(s, a)
			again(a)
		})
		m.fault(losses, who, "loses the answer to its join, and sends it again", func(s *HandoverState, a *contender) {
			m.h.join(s, a.own)
			again(a)
		})
	}
	for i, t := range a.tasks {
		if t.action == noAction || t.action == findOut || t.action == seek || t.action == seekTurn {
			continue
		}
		m.fault(losses, who, "gets no answer, and sends again what may arrive late: the service "+t.what()+who,
			func(s *HandoverState, a *contender) { s.post(t); m.repeats(&a.tasks[i]) })
		m.fault(losses, who, "loses the answer to what it sends again: the service "+t.what()+who,
			func(s *HandoverState, a *contender) { m.h.serve(s, t); m.repeats(&a.tasks[i]) })
		if t.action == handOn || t.action.touches() {
			m.fault(refusals, service, "refuses to "+who+" to put a turn", func(s *HandoverState, a *contender) {
				if t.action.touches() {
					m.answered(s, a, i, task{})
					return
				}
				a.tasks[i] = task{action: depart, of: t.of, repeated: true, doubtful: t.doubtful, awaited: t.awaited}
			})
		}
	}
}

// repeats makes of a request what is sent when it was not answered. A delete departs: what its place was may not be so
// any more.
func (m *move) repeats(t *task) {
	t.repeated = true
	if t.action == touchTold {
		*t = task{action: seekTurn, of: t.of}
		return
	}
	if t.action != touch && (t.action != lazyDelete || !m.h.has(LazyNotOwn)) {
		t.action, t.head, t.next = depart, key{}, list{}
		t.heads = t.heads && m.h.has(GoneBelieved)
	}
}

// session is how the sessions of a client end, and what it makes of that.
func (m *move) session() {
	a := m.me()
	if m.busy() && !a.over && m.s.ending[m.c]&(1<<a.epoch) == 0 {
		m.fault(expiries, names[m.c], "has passed its deadline", m.end)
	}
	if a.over && a.at == awaiting {
		m.does("notices the end of its session", m.enter)
	}
	for epoch := range uint8(perClient) {
		if m.s.ending[m.c]&(1<<epoch) != 0 {
			m.served("ends a session of ", func(s *HandoverState, _ *contender) { s.expire(m.c, epoch) })
		}
	}
}

// end ends a session here, and later at the service. Whatever the session has left there goes with it.
func (m *move) end(s *HandoverState, a *contender) {
	s.ending[m.c] |= 1 << a.epoch
	a.over, a.suspects, a.spare, a.tasks = true, 0, 0, [maxTasks]task{}
	switch {
	case a.at == awaiting && m.h.has(TurnAfterEnd):
	case a.at == held || a.at == handing:
		m.finish(s, a)
	case a.at != through:
		m.underway(s, a)
		m.enter(s, a)
	}
}

// arrivals is what its client has given up.
func (h *Handover) arrivals(s HandoverState, yield func(Step[HandoverState])) {
	for i, t := range s.posted {
		if t.of.id == 0 {
			continue
		}
		c := ownerOf(t.of.id)
		next := s
		next.posted[i] = task{}
		what := "carries out late, of " + names[c] + ": it " + t.what() + names[c]
		if t.action != noAction {
			h.serve(&next, t)
		} else {
			what = "carries out late a join of " + names[c]
			if next.alive[c]&(1<<t.of.epoch) != 0 && !next.own(key{id: t.of.id}) {
				next.add(t.of)
			}
		}
		h.settle(&next)
		yield(Step[HandoverState]{Who: service, What: what, Next: next})
	}
}
