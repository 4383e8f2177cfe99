package model

import "github.com/farsync/farsync/driver"

// fault yields a step that need not happen, if it may.
func (t *turn) fault(left func(*Faults) *uint8, who, what string, change func(s *QueueState, m *member) error) {
	if *left(&t.s.faults) == 0 {
		return
	}
	t.step(who, what, false, func(s *QueueState, m *member) error {
		*left(&s.faults)--
		return change(s, m)
	})
}

func cancels(f *Faults) *uint8  { return &f.Cancel }
func crashes(f *Faults) *uint8  { return &f.Crash }
func expiries(f *Faults) *uint8 { return &f.Expire }
func losses(f *Faults) *uint8   { return &f.Lose }
func refusals(f *Faults) *uint8 { return &f.Refuse }
func events(f *Faults) *uint8   { return &f.Event }

// faults is what may happen to a client.
func (t *turn) faults() {
	m := t.me()
	who := names[t.c]
	switch m.phase {
	case joining:
		t.unansweredJoin()
	case looking:
		if m.at == sent {
			t.fault(refusals, service, "refuses the look of "+who, t.giveUp)
		}
	case watching:
		t.brokenWatch()
	case releasing, leaving:
		t.unansweredRemoval()
	}
	t.unansweredJobs()
	switch m.phase {
	case joining, looking, watching, proving:
		t.fault(cancels, who, "gives up", t.giveUp)
	}
	if t.busy() {
		t.fault(crashes, who, "crashes", func(s *QueueState, m *member) error {
			t.underway(s, m)
			*m = member{phase: dead, begun: true}
			return nil
		})
	}
}

// busy reports whether the end of the client, or of its session, would make a difference.
func (t *turn) busy() bool {
	m := t.me()
	return m.begun && m.phase != dead && (m.phase != finished || m.jobs[0].id != 0 || m.suspects != 0)
}

// underway leaves the join that is under way on its way.
func (t *turn) underway(s *QueueState, m *member) {
	if m.phase == joining && m.at == sent {
		s.post(letter{id: s.own(t.c), epoch: m.epoch})
	}
}

// giveUp ends a call without a hold.
func (t *turn) giveUp(s *QueueState, m *member) error {
	leave := !t.has(CancelLeaves)
	if m.phase == joining {
		t.underway(s, m)
		var unknown bool
		m.doubtful, unknown, _ = t.q.Rules.Failed(m.again, driver.Unknown)
		leave = leave && unknown && !t.has(UnknownJoinForgotten)
	}
	if leave {
		m.abandon(s, t.c)
	}
	m.finish()
	return nil
}

func (t *turn) unansweredJoin() {
	who := names[t.c]
	if t.me().at == sent {
		t.fault(losses, who, "gets no answer to its join, which may arrive late, and sends it again", func(s *QueueState, m *member) error {
			t.underway(s, m)
			t.joinAgain(m)
			return nil
		})
		t.fault(refusals, service, "refuses the join of "+who, func(s *QueueState, m *member) error {
			var unknown, more bool
			if m.again, unknown, more = t.q.Rules.Failed(m.again, driver.Refused); more {
				return nil
			}
			if m.doubtful = m.again; unknown {
				m.abandon(s, t.c)
			}
			m.finish()
			return nil
		})
		return
	}
	t.fault(losses, who, "loses the answer to its join, and sends it again", func(_ *QueueState, m *member) error {
		t.joinAgain(m)
		return nil
	})
}

func (t *turn) joinAgain(m *member) {
	m.again, _, _ = t.q.Rules.Failed(m.again, driver.Unknown)
	m.at, m.got, m.on = sent, ok, [maxOn]target{}
	if t.has(NewIDAgain) {
		m.join()
	}
}

func (t *turn) brokenWatch() {
	m := t.me()
	if m.at != stands {
		return
	}
	who := names[t.c]
	t.fault(events, service, "breaks the watch of "+who, func(_ *QueueState, m *member) error {
		if m.at = sent; t.has(BrokenWatchForgotten) {
			m.at = deaf
		}
		return nil
	})
	if !t.s.moved(m.on) {
		t.fault(events, service, "ends for no reason the watch of "+who, func(_ *QueueState, m *member) error {
			m.woken()
			return nil
		})
	}
}

func (t *turn) unansweredRemoval() {
	who := names[t.c]
	again := func(_ *QueueState, m *member) error {
		m.again, _, _ = t.q.Rules.Failed(m.again, driver.Unknown)
		return nil
	}
	t.fault(losses, who, "gets no answer to its delete, which may arrive late, and sends it again", func(s *QueueState, m *member) error {
		s.post(letter{id: s.own(t.c), epoch: m.epoch, delete: true})
		return again(s, m)
	})
	t.fault(losses, who, "loses the answer to its delete, and sends it again", func(s *QueueState, m *member) error {
		t.delete(s, s.own(t.c))
		return again(s, m)
	})
	t.fault(refusals, service, "refuses the delete of "+who, func(s *QueueState, m *member) error {
		m.abandon(s, t.c)
		m.finish()
		return nil
	})
}

func (t *turn) unansweredJobs() {
	who := names[t.c]
	for i, j := range t.me().jobs {
		if j.id == 0 {
			continue
		}
		t.fault(losses, who, "loses the answer to its delete in the background", func(s *QueueState, _ *member) error {
			t.delete(s, j.id)
			return nil
		})
		if t.has(RefusalEndsRemoval) {
			t.fault(refusals, service, "refuses the delete in the background of "+who, func(_ *QueueState, m *member) error {
				m.done(i)
				return nil
			})
		}
	}
}

// session is how the sessions of a client end, and what it makes of that.
func (t *turn) session() {
	m := t.me()
	who := names[t.c]
	if t.busy() && !m.over {
		if t.backed() {
			t.fault(expiries, who, "has passed its deadline", func(s *QueueState, m *member) error {
				t.end(m)
				return nil
			})
			if t.has(ServiceFirst) {
				t.fault(expiries, service, "ends early the session of "+who, func(s *QueueState, m *member) error {
					s.expire(t.c, m.epoch)
					return nil
				})
			}
		} else {
			t.does("has passed its deadline", func(_ *QueueState, m *member) error {
				t.end(m)
				return nil
			})
		}
	}
	if m.over {
		t.noticed()
	}
	for epoch := range uint8(8) {
		if t.s.alive[t.c]&(1<<epoch) != 0 && (epoch < m.epoch || m.over || m.phase == dead) {
			t.served("ends a session of ", func(s *QueueState, _ *member) error {
				s.expire(t.c, epoch)
				return nil
			})
		}
	}
}

// end ends a session here. Whatever the session has left at the service goes with it.
func (t *turn) end(m *member) {
	m.over, m.jobs, m.suspects = true, [maxJobs]job{}, 0
}

// noticed is what a call makes of the end of its session.
func (t *turn) noticed() {
	what := "notices the end of its session"
	switch t.me().phase {
	case watching:
		if t.has(OldEntryStands) {
			t.does("waits on in another session", func(s *QueueState, m *member) error {
				m.open(s, t.c)
				return nil
			})
			return
		}
		t.does(what, rejoin)
	case peeking, looking, proving:
		t.does(what, rejoin)
	case joining:
		t.does(what, func(s *QueueState, m *member) error {
			t.underway(s, m)
			m.rejoin()
			return nil
		})
	case releasing, leaving:
		t.does(what, func(_ *QueueState, m *member) error {
			m.finish()
			return nil
		})
	}
}

func rejoin(_ *QueueState, m *member) error {
	m.rejoin()
	return nil
}

// expire ends a session at the service.
func (s *QueueState) expire(c int, epoch uint8) {
	s.alive[c] &^= 1 << epoch
	for i := 0; i < maxQueue; {
		if e := s.queue[i]; e.id != 0 && e.id < foreignID && ownerOf(e.id) == c && e.epoch == epoch {
			s.remove(e.id)
			continue
		}
		i++
	}
	for i, l := range s.letters {
		if l.id != 0 && ownerOf(l.id) == c && l.epoch == epoch {
			s.letters[i] = letter{}
		}
	}
	s.sortLetters()
}

// others is what no client does.
func (q *Queue) others(s QueueState, yield func(Step[QueueState])) {
	const another = "another program"
	step := func(who, what string, due bool, change func(s *QueueState)) {
		next := s
		change(&next)
		yield(Step[QueueState]{Who: who, What: what, Next: next, Due: due})
	}
	for i, l := range s.letters {
		if l.id == 0 {
			continue
		}
		what := "carries out late a join of "
		if l.delete {
			what = "carries out late a delete of "
		}
		step(service, what+names[ownerOf(l.id)], false, func(s *QueueState) {
			s.letters[i] = letter{}
			s.sortLetters()
			q.late(s, l)
		})
	}
	if s.foreign > 0 {
		step(another, "joins", false, func(s *QueueState) {
			s.foreign--
			s.add(slot{id: foreignID + s.foreign, kind: driver.Foreign})
		})
	}
	for _, e := range s.queue {
		switch {
		case e.id >= foreignID:
			step(another, "leaves", false, func(s *QueueState) { s.remove(e.id) })
		case e.id != 0 && s.faults.Strange > 0 && q.waits(&s, e.id):
			step(another, "deletes the entry of "+names[ownerOf(e.id)], false, func(s *QueueState) {
				s.faults.Strange--
				s.remove(e.id)
			})
		}
	}
}

// waits reports whether the entry belongs to a client that waits, and others keep that client waiting.
func (q *Queue) waits(s *QueueState, id uint8) bool {
	c := ownerOf(id)
	p := s.clients[c].phase
	return (p == joining || p == looking || p == watching) && s.own(c) == id && q.granted(s, c) != nil
}

// late carries out a request that was given up.
func (q *Queue) late(s *QueueState, l letter) {
	switch {
	case l.delete && q.Mistakes&HeadDeleted != 0:
		s.remove(s.queue[0].id)
	case l.delete:
		s.remove(l.id)
	default:
		q.create(s, l.id, l.epoch)
	}
}
