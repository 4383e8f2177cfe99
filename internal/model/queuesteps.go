package model

import (
	"errors"

	"github.com/farsync/farsync/driver"
)

// service is what takes a step that is no client's.
const service = "the service"

// Steps yields all that may happen.
func (q *Queue) Steps(s QueueState, yield func(Step[QueueState])) {
	for c := range q.Clients {
		// Of clients that are the same the first to take a step is called A, the next B. So no state is lost.
		if c > 0 && q.Clients[c] == q.Clients[c-1] && !s.clients[c-1].begun {
			continue
		}
		t := &turn{q: q, s: s, c: c, yield: yield}
		t.call()
		t.background()
		t.faults()
		t.session()
	}
	q.others(s, yield)
}

// A turn is the steps of one client from one state.
type turn struct {
	q     *Queue
	s     QueueState
	c     int
	yield func(Step[QueueState])
}

// step yields one step: change is what it does to a copy of the state.
func (t *turn) step(who, what string, due bool, change func(s *QueueState, m *member) error) {
	next := t.s
	m := &next.clients[t.c]
	m.begun = true
	wrong := change(&next, m)
	t.yield(Step[QueueState]{Who: who, What: what, Next: next, Due: due, Wrong: wrong})
}

func (t *turn) does(what string, change func(s *QueueState, m *member) error) {
	t.step(names[t.c], what, true, change)
}

func (t *turn) served(what string, change func(s *QueueState, m *member) error) {
	t.step(service, what+names[t.c], true, change)
}

func (t *turn) has(m Mistake) bool { return t.q.Mistakes&m != 0 }

func (t *turn) me() *member { return &t.s.clients[t.c] }

// backed reports whether the session that the client counts on is alive at the service.
func (t *turn) backed() bool { return t.s.alive[t.c]&(1<<t.me().epoch) != 0 }

// call is the steps of the call that is under way.
func (t *turn) call() {
	m := t.me()
	switch m.phase {
	case idle:
		t.begin()
	case peeking:
		t.peek()
	case joining:
		t.join()
	case looking:
		t.look()
	case watching:
		t.watch()
	case proving:
		t.does("hears the proof", t.heard)
	case holding:
		t.hold()
	case releasing, leaving:
		t.remove()
	}
}

func (t *turn) begin() {
	switch {
	case t.me().over:
		t.does("opens another session", func(s *QueueState, m *member) error {
			m.open(s, t.c)
			return nil
		})
	case t.q.Clients[t.c].Try:
		t.does("sends a look", func(_ *QueueState, m *member) error {
			m.phase, m.at = peeking, sent
			return nil
		})
	default:
		t.does("sends a join", func(_ *QueueState, m *member) error {
			m.join()
			return nil
		})
	}
}

// open begins another session.
func (m *member) open(s *QueueState, c int) {
	m.epoch++
	m.over = false
	s.alive[c] |= 1 << m.epoch
}

func (m *member) join() {
	m.phase, m.at = joining, sent
	m.made++
	if m.made > perClient {
		panic("model: a client makes too many entries")
	}
}

// wait is what follows an answer that names what is to be waited for.
func (m *member) wait(on [maxOn]target) {
	m.phase, m.at, m.got, m.on = watching, sent, ok, on
}

// finish ends a call.
func (m *member) finish() {
	m.rejoin()
	if m.left--; m.left == 0 {
		m.phase = finished
	}
}

// rejoin begins a call anew, with another entry.
func (m *member) rejoin() {
	*m = member{begun: true, over: m.over, epoch: m.epoch, made: m.made, left: m.left, suspects: m.suspects, jobs: m.jobs}
}

// abandon has the entry removed in the background. The end of a session does that by itself.
func (m *member) abandon(s *QueueState, c int) {
	if m.over {
		return
	}
	for i := range m.jobs {
		if m.jobs[i].id == 0 {
			m.jobs[i] = job{id: s.own(c), epoch: m.epoch, doubtful: m.doubtful}
			return
		}
	}
	panic("model: a client removes too many entries at a time")
}

// doubt has an entry looked for that may be created once more.
func (t *turn) doubt(m *member, id uint8) {
	if !t.has(LateJoinForgotten) {
		m.suspects |= 1 << ((id - 1) % perClient)
	}
}

// post leaves a request on its way. Once its session has ended it can do nothing.
func (s *QueueState) post(l letter) {
	if s.alive[ownerOf(l.id)]&(1<<l.epoch) == 0 {
		return
	}
	if s.letters[maxLetters-1].id != 0 {
		panic("model: too many requests on their way")
	}
	s.letters[maxLetters-1] = l
	s.sortLetters()
}

func (t *turn) peek() {
	if t.me().at == sent {
		t.served("answers the look of ", func(s *QueueState, m *member) error {
			client := t.q.Clients[t.c]
			m.at = answered
			newcomer := slot{id: idOf(t.c, m.made), kind: client.Kind}
			m.on, m.got = t.q.decide(newcomer, s.queue[:s.length()], false)
			return nil
		})
		return
	}
	t.does("hears what the look has shown", func(_ *QueueState, m *member) error {
		if m.got == otherFamily || m.on[0].id != 0 {
			m.finish()
			return nil
		}
		m.on, m.got = [maxOn]target{}, ok
		m.join()
		return nil
	})
}

func (t *turn) join() {
	if t.me().at == answered {
		t.does("hears that it has joined", t.heard)
		return
	}
	if !t.backed() && t.me().over {
		return // it notices by itself
	}
	t.served("creates the entry of ", func(s *QueueState, m *member) error {
		m.at = answered
		if !t.backed() {
			m.got = expired
			return nil
		}
		t.q.create(s, s.own(t.c), m.epoch)
		m.on, m.got = t.q.look(s, t.c)
		return m.refused(t, s)
	})
	if t.q.Blind && t.backed() {
		t.served("creates, and shows nothing else, the entry of ", func(s *QueueState, m *member) error {
			m.at, m.got = answered, blind
			t.q.create(s, s.own(t.c), m.epoch)
			return nil
		})
	}
}

// refused returns what is wrong with an answer that refuses the entry of a client.
func (m *member) refused(t *turn, s *QueueState) error {
	if m.got == otherFamily && home(t.q.Clients[t.c].Kind, s.queue[0].kind) {
		return errors.New("an entry is refused in a queue of its own family")
	}
	return nil
}

// heard is what a client makes of an answer that shows what is ahead of its entry.
func (t *turn) heard(s *QueueState, m *member) error {
	got, on := m.got, m.on
	joined := m.phase == joining
	if joined {
		m.doubtful, m.again = m.again, false
	}
	m.got, m.on = ok, [maxOn]target{}
	switch got {
	case blind:
		m.phase, m.at = looking, sent
	case expired:
		m.over = true
		m.rejoin()
	case gone:
		m.abandon(s, t.c)
		m.rejoin()
	case otherFamily:
		m.phase, m.at = leaving, sent
	default:
		m.native = m.native || got == native
		if on[0].id != 0 {
			m.leaveOrWait(t, on)
			return nil
		}
		return t.take(s, m)
	}
	return nil
}

// leaveOrWait waits if the call is allowed to, and leaves if it is a Try.
func (m *member) leaveOrWait(t *turn, on [maxOn]target) {
	switch {
	case !t.q.Clients[t.c].Try:
		m.wait(on)
	case t.has(TryStays):
		m.finish()
	default:
		m.phase, m.at = leaving, sent
	}
}

// take is a grant.
func (t *turn) take(s *QueueState, m *member) error {
	if m.over {
		m.rejoin()
		return nil
	}
	m.phase, m.at, m.native = holding, none, false
	return t.q.granted(s, t.c)
}

func (t *turn) look() {
	if t.me().at == sent {
		t.served("shows what is ahead of ", func(s *QueueState, m *member) error {
			m.at = answered
			m.on, m.got = t.q.look(s, t.c)
			return m.refused(t, s)
		})
		return
	}
	t.does("hears what is ahead", t.heard)
}

func (t *turn) watch() {
	m := t.me()
	moved := t.s.moved(m.on)
	switch {
	case m.at == sent:
		t.served("sets a watch for ", func(_ *QueueState, m *member) error {
			switch {
			case !moved:
				m.at = stands
			case t.has(WatchWithoutLook):
				m.at = deaf
			default:
				m.woken()
			}
			return nil
		})
	case m.at == stands && moved:
		t.served("sends an event to ", func(s *QueueState, m *member) error {
			if t.has(NotifiedHolds) {
				m.on = [maxOn]target{}
				return t.take(s, m)
			}
			m.woken()
			return nil
		})
		if t.q.Proofs {
			t.prove()
		}
	}
}

// woken is what follows an event: another look.
func (m *member) woken() {
	m.phase, m.at, m.on = looking, sent, [maxOn]target{}
}

// prove is an event with all that is ahead at one revision, if the own entry existed then.
func (t *turn) prove() {
	on, got := t.q.look(&t.s, t.c)
	if got == gone {
		if !t.has(DeadProofTaken) {
			return
		}
		on, got = [maxOn]target{}, ok
	}
	t.served("sends an event with a proof to ", func(_ *QueueState, m *member) error {
		m.phase, m.at, m.on, m.got = proving, answered, on, got
		return nil
	})
}

func (t *turn) hold() {
	m := t.me()
	if m.over {
		t.does("finds that it has lost what it held", func(_ *QueueState, m *member) error {
			m.finish()
			return nil
		})
		return
	}
	if m.at == sent {
		t.served("makes a reader of ", func(s *QueueState, m *member) error {
			m.at = answered
			i := s.index(s.own(t.c))
			if i < 0 {
				return nil
			}
			s.queue[i].kind = driver.Read
			if t.has(DowngradeMoves) {
				e := s.queue[i]
				s.remove(e.id)
				s.add(e)
			}
			return nil
		})
		return
	}
	if t.q.Clients[t.c].Downgrade && !m.reader {
		// From here on its caller may not write any more.
		t.step(names[t.c], "asks to become a reader", false, func(_ *QueueState, m *member) error {
			m.reader, m.at = true, sent
			return nil
		})
	}
	t.step(names[t.c], "ends its hold and sends a delete", false, func(_ *QueueState, m *member) error {
		m.phase, m.at = releasing, sent
		return nil
	})
}

// delete removes an entry at the service.
func (t *turn) delete(s *QueueState, id uint8) {
	if t.has(HeadDeleted) {
		id = s.queue[0].id
	}
	s.remove(id)
}

func (t *turn) remove() {
	t.served("removes, and answers so, the entry of ", func(s *QueueState, m *member) error {
		id := s.own(t.c)
		t.delete(s, id)
		if m.doubtful {
			t.doubt(m, id)
		}
		m.finish()
		return nil
	})
}

// background is what goes on beside the call.
func (t *turn) background() {
	m := t.me()
	for i, j := range m.jobs {
		if j.id == 0 {
			continue
		}
		t.served("removes in the background an entry of ", func(s *QueueState, m *member) error {
			t.delete(s, j.id)
			m.done(i)
			if j.doubtful {
				t.doubt(m, j.id)
			}
			return nil
		})
	}
	for n := range uint8(perClient) {
		if id := idOf(t.c, n); m.suspects&(1<<n) != 0 && t.s.index(id) >= 0 {
			t.does("finds an entry that has come late, and removes it", func(s *QueueState, _ *member) error {
				s.remove(id)
				return nil
			})
		}
	}
}

// done takes a job from the list.
func (m *member) done(i int) {
	copy(m.jobs[i:], m.jobs[i+1:])
	m.jobs[maxJobs-1] = job{}
}
