package model

import "slices"

// index returns the place of an entry, and -1 if it is not in the queue under that revision. An entry whose revision is
// not known is told by its name.
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
	s.arrives(k.id)
	return k
}

// crowd returns the entries that are in the queue.
func (s *HandoverState) crowd() (there crowd) {
	for _, k := range s.queue[:s.length()] {
		there |= 1 << k.id
	}
	return there
}

// arrives takes an entry that is made out of all crowds: they were seen before.
func (s *HandoverState) arrives(id uint8) {
	bit := crowd(1) << id
	for c := range s.clients {
		a := &s.clients[c]
		a.seen &^= bit
		for i := range a.tasks {
			a.tasks[i].seen &^= bit
		}
		for i := range a.events {
			a.events[i].seen &^= bit
		}
	}
	for i := range s.turns {
		s.turns[i].seen &^= bit
	}
	for i := range s.posted {
		s.posted[i].seen &^= bit
	}
}

// remove deletes an entry, if it has that create revision.
func (s *HandoverState) remove(k key) {
	i := s.index(k)
	if i < 0 {
		return
	}
	copy(s.queue[i:], s.queue[i+1:])
	s.queue[maxStanding-1] = key{}
	// A client that watches the entry, and has no other entry ahead of its own, is told the revision at which its own
	// became the head.
	for c := range s.clients {
		if a := &s.clients[c]; a.at == behind && a.on == k && s.index(a.own) == 0 {
			a.heads, a.seen = true, s.crowd()
		}
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

// put gives an entry its turn, and sends an event to a client that watches. A later turn of the same entry replaces the
// earlier turn.
func (h *Handover) put(s *HandoverState, k key, next list, seen crowd) {
	s.untouch(k)
	if h.has(NoLists) {
		next = list{}
	}
	*s.turn(0) = turnKey{k, next, seen}
	s.outdate(k)
	a := &s.clients[ownerOf(k.id)]
	if !a.sees {
		return
	}
	for i := range a.events {
		switch a.events[i].of.id {
		case k.id, 0: // the client hears the last
			a.events[i] = turnKey{k, next, seen}
			return
		}
	}
	panic("model: too many events on their way")
}

// outdate notes that an entry was given a turn since the touches that are on their way have seen it.
func (s *HandoverState) outdate(k key) {
	note := func(tasks []task) {
		for i := range tasks {
			if tasks[i].action.touches() && tasks[i].head == k {
				tasks[i].outdated = true
			}
		}
	}
	note(s.posted[:])
	for c := range s.clients {
		note(s.clients[c].tasks[:])
	}
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
			h.put(s, t.head, t.next, s.crowd())
			return task{}
		}
	case passOn:
		if s.own(t.of) && s.own(t.head) {
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
	case seek:
		t.head, t.next = h.look(s, -1)
		t.seen = s.crowd()
		return h.touching(t)
	case touch:
		return h.touch(s, t)
	case slip:
		if s.own(t.of) {
			h.vacate(s, t.of)
			if t.heads {
				return task{action: seek, of: t.of}
			}
			return task{action: seekTurn, of: t.of}
		}
	case seekTurn:
		return h.seekTurn(s, t)
	case touchTold:
		if s.told(t) || h.has(TurnKeptFound) {
			h.put(s, t.head, t.next, t.seen)
			return task{}
		}
		return task{action: seek, of: t.of}
	}
	return h.depart(s, t)
}

// seekTurn finds the head by its turn, if there is one turn. An entry that has left is not named any more.
func (h *Handover) seekTurn(s *HandoverState, t task) task {
	var found turnKey
	for _, turn := range s.turns {
		if turn.of.id != 0 {
			if found.of.id != 0 {
				return task{action: seek, of: t.of}
			}
			found = turn
		}
	}
	if found.of.id == 0 {
		return task{action: seek, of: t.of}
	}
	told := task{action: touchTold, of: t.of, head: found.of, seen: s.crowd()}
	if h.has(TurnNotDated) {
		told.seen = found.seen
	}
	n := 0
	for _, k := range found.next {
		if k.id != 0 && k != t.of { // a later entry may have its key
			told.next[n] = k
			n++
		}
	}
	return told
}

// told reports whether the head that was found by its turn is there, and its turn as it was seen.
func (s *HandoverState) told(t task) bool {
	turn := s.turn(t.head.id)
	return s.own(t.head) && turn != nil && turn.of == t.head && !t.outdated
}

// vacate deletes an entry and its turn.
func (h *Handover) vacate(s *HandoverState, k key) {
	s.remove(k)
	if !h.has(TurnKept) {
		s.untouch(k)
	}
}

// depart deletes an entry and its turn, and shows the head of the queue if no more than two are left. If that is to be
// told, it is what follows.
//
// It is not if it joined after the entry that departs was known to be the head, and after another last saw it there and
// gave it a turn.
func (h *Handover) depart(s *HandoverState, t task) task {
	place, turn := s.index(t.of), s.turn(t.of.id)
	seen := t.seen
	if turn != nil && !h.has(TouchedNotAsked) {
		seen |= turn.seen
	}
	heads := t.heads && (place >= 0 || h.has(GoneBelieved))
	switch {
	case place >= 0:
		h.vacate(s, t.of)
	case s.index(key{id: t.of.id}) < 0 && !h.has(TurnKept):
		s.untouch(t.of) // unless another has the key
	}
	if h.has(GoneEnds) && place < 0 {
		return task{}
	}
	t.seen = s.crowd()
	if s.length() > 2 && !h.has(TouchesBehind) && !h.has(LookInKeyOrder) {
		return task{action: seek, of: t.of}
	}
	t.head, t.next = h.look(s, place)
	if heads && t.head.id != 0 && (seen&(1<<t.head.id) == 0 || h.has(LateNotAsked)) {
		return task{}
	}
	return h.touching(t)
}

// touching returns the task to touch what a look has shown. An empty queue needs no touch. Nor does a
// queue whose head knows no turns, for the entry behind that head watches it.
func (h *Handover) touching(t task) task {
	if t.head.id == 0 || h.plain(t.head) && !h.has(PlainTouched) {
		return task{}
	}
	return task{action: touch, of: t.of, head: t.head, next: t.next, seen: t.seen}
}

func (h *Handover) touch(s *HandoverState, t task) task {
	switch {
	case h.has(NextNotCompared) || s.own(t.head) && (!t.outdated || h.has(OlderPut)):
		h.put(s, t.head, t.next, t.seen)
		return task{}
	case h.has(FailedTouchEnds):
		return task{}
	default:
		return task{action: seek, of: t.of}
	}
}

// join creates an entry, and returns it with its revision, what the answer shows, and the other entry if there is one.
func (h *Handover) join(s *HandoverState, own key) (_, on key, got joinAnswer) {
	if i := s.index(key{id: own.id}); i >= 0 {
		return s.queue[i], on, isUnclear
	}
	plain := slices.ContainsFunc(s.queue[:s.length()], h.plain) && !h.has(PlainNotSeen)
	own = s.add(own)
	switch n := s.length(); {
	case n == 1:
		return own, on, isAlone
	case plain:
		return own, on, isUnclear
	case n == 2 && !h.has(OneNotWatched):
		return own, s.queue[0], isSecond
	default:
		return own, on, isInCrowd
	}
}

// expire ends a session. All that hangs on the session goes with it, and its requests that were on their way can do
// nothing.
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
