package model

import "slices"

// index returns the place of an entry, and -1 if it is not in the queue under that revision. An entry whose revision is not known is
// told by its name.
func (s *HandoverState) index(k key) int {
	return slices.IndexFunc(s.queue[:], func(other key) bool {
		return k.id != 0 && other.id == k.id && (k.made == 0 || other.made == k.made)
	})
}

// own reports whether an entry has that create revision.
func (s *HandoverState) own(k key) bool { return s.index(k) >= 0 }

func (s *HandoverState) length() int {
	if n := slices.Index(s.queue[:], key{}); n >= 0 {
		return n
	}
	return len(s.queue)
}

// add creates an entry. It is out of range if maxStanding is too small for a play.
func (s *HandoverState) add(k key) key {
	times := &s.created[ownerOf(k.id)][(k.id-1)%perClient]
	*times++
	k.made = *times
	s.queue[s.length()] = k
	return k
}

// remove deletes an entry, if it has that create revision.
func (s *HandoverState) remove(k key) {
	if i := s.index(k); i >= 0 {
		copy(s.queue[i:], s.queue[i+1:])
		s.queue[maxStanding-1] = key{}
	}
}

// turn returns the turn of an entry.
func (s *HandoverState) turn(id uint8) *turnKey {
	for i := range s.turns {
		if s.turns[i].of.id == id {
			return &s.turns[i]
		}
	}
	return nil
}

// free reports whether an entry has no turn.
func (s *HandoverState) free(k key) bool { return s.turn(k.id) == nil }

func (s *HandoverState) untouch(k key) {
	if t := s.turn(k.id); t != nil {
		*t = turnKey{}
	}
}

// put gives an entry its turn, and sends an event to a client that watches.
func (h *Handover) put(s *HandoverState, k key, next list) {
	s.untouch(k)
	if h.has(NoLists) {
		next = list{}
	}
	*s.turn(0) = turnKey{k, next}
	a := &s.clients[ownerOf(k.id)]
	if !a.sees {
		return
	}
	for i := range a.events {
		switch a.events[i].of.id {
		case k.id:
			return // the first is the one that is heard
		case 0:
			a.events[i] = turnKey{k, next}
			return
		}
	}
	panic("model: too many events on their way")
}

// beyond returns the first entries from a place on.
func (s *HandoverState) beyond(i int) (first list) {
	copy(first[:], s.queue[i:])
	return first
}

// look returns the head of the queue and what stands behind it. Place is where the entry stood on whose behalf it is.
func (h *Handover) look(s *HandoverState, place int) (head key, next list) {
	switch {
	case h.has(TouchesBehind):
		place = max(place, 0)
	case h.has(LookInKeyOrder):
		// The first in that order, on a page of one. The later a client has begun, the smaller are its keys.
		for _, k := range s.queue[:s.length()] {
			if k.id > head.id {
				head = k
			}
		}
		return head, next
	default:
		place = 0
	}
	if place < s.length() {
		return s.queue[place], s.beyond(place + 1)
	}
	return head, next
}

// serve carries out the request of a task, and returns what is to be asked next: nothing, if its action is noAction.
func (h *Handover) serve(s *HandoverState, t task) task {
	switch t.action {
	case plainDelete:
		s.remove(t.of)
		return task{}
	case lazyDelete:
		if h.has(LazyTakesTurn) && s.own(t.of) {
			h.vacate(s, t.of)
			return task{}
		}
		if (h.has(LazyNotOwn) || s.own(t.of)) && (h.has(LazyNotFree) || s.free(t.of)) {
			s.remove(t.of)
			return task{}
		}
	case handOn:
		if (h.has(OwnNotCompared) || s.own(t.of)) && (h.has(NextNotCompared) || s.own(t.head)) {
			h.vacate(s, t.of)
			h.put(s, t.head, t.next)
			return task{}
		}
	case passOn:
		if h.has(PlainNotCompared) || s.own(t.of) && s.own(t.head) {
			h.vacate(s, t.of)
			return task{}
		}
	case findOut:
		i := s.index(key{id: t.of.id})
		if i < 0 {
			return task{}
		}
		t.action, t.of = depart, s.queue[i]
		return t
	case touch:
		return h.touch(s, t)
	}
	return h.depart(s, t)
}

// vacate deletes an entry and its turn.
func (h *Handover) vacate(s *HandoverState, k key) {
	s.remove(k)
	if !h.has(TurnKept) {
		s.untouch(k)
	}
}

func (h *Handover) depart(s *HandoverState, t task) task {
	place := s.index(t.of)
	h.vacate(s, t.of)
	if h.has(GoneEnds) && place < 0 {
		return task{}
	}
	t.head, t.next = h.look(s, place)
	return h.touching(t)
}

// touching returns the task to touch what a look has shown. What is empty, or has a head that knows no turns and so is watched by the
// one behind it, needs none.
func (h *Handover) touching(t task) task {
	if t.head.id == 0 || h.plain(t.head) && !h.has(PlainTouched) {
		return task{}
	}
	return task{action: touch, of: t.of, head: t.head, next: t.next}
}

func (h *Handover) touch(s *HandoverState, t task) task {
	switch {
	case (h.has(NextNotCompared) || s.own(t.head)) && (h.has(TouchRepeated) || s.free(t.head)):
		h.put(s, t.head, t.next)
		return task{}
	case s.own(t.head) || h.has(FailedTouchEnds):
		return task{}
	}
	t.head, t.next = h.look(s, -1)
	return h.touching(t)
}

// join creates an entry, and returns it with its revision, what the answer shows, and the other entry if there is one.
func (h *Handover) join(s *HandoverState, own key) (_, on key, got joinAnswer) {
	if i := s.index(key{id: own.id}); i >= 0 {
		return s.queue[i], on, isUnclear
	}
	plain := slices.ContainsFunc(s.queue[:s.length()], h.plain) && !h.has(PlainNotSeen)
	touched := !h.has(TurnsNotShown) && slices.ContainsFunc(s.turns[:], func(t turnKey) bool { return t.of.id != 0 })
	own = s.add(own)
	switch n := s.length(); {
	case n == 1:
		return own, on, isAlone
	case plain:
		return own, on, isUnclear
	case n == 2 && !touched && !h.has(OneNotWatched):
		return own, s.queue[0], isSecond
	default:
		return own, on, isInCrowd
	}
}

// expire ends a session. What hangs on it goes with it, and what was on its way can do nothing.
func (s *HandoverState) expire(c int, epoch uint8) {
	s.alive[c] &^= 1 << epoch
	s.ending[c] &^= 1 << epoch
	hangs := func(k key) bool { return k.id != 0 && ownerOf(k.id) == c && k.epoch == epoch }
	for _, k := range s.queue {
		if hangs(k) {
			s.remove(k)
		}
	}
	for i := range s.turns {
		if hangs(s.turns[i].of) {
			s.turns[i] = turnKey{}
		}
	}
	for i := range s.posted {
		if s.posted[i].action == noAction && hangs(s.posted[i].of) {
			s.posted[i] = task{}
		}
	}
}
