package model

// release is the request that removes an entry that holds.
func (m *move) release(a *contender) task {
	t := task{action: depart, of: a.own, heads: a.heads, seen: a.seen, repeated: a.again, doubtful: a.again, awaited: true}
	next := a.next[0]
	switch {
	case m.isPlain():
		t.action = plainDelete
	case a.lazy:
		t.action = lazyDelete
	case next.id == 0 && a.far && !a.again:
		t.action = slip
	case next.id == 0:
	case m.h.plain(next):
		t.action, t.head = passOn, next
	default:
		t.action, t.head = handOn, next
		copy(t.next[:], a.next[1:])
	}
	return t
}

// give has a request sent.
func (a *contender) give(t task) {
	for i := range a.tasks {
		if a.tasks[i].action == noAction {
			a.tasks[i] = t
			return
		}
	}
	panic("model: a client has too many tasks")
}

// leave has an entry removed that does not wait any more.
func (m *move) leave(a *contender) {
	t := task{action: depart, of: a.own, repeated: a.again, doubtful: a.again}
	switch {
	case m.isPlain() || m.h.has(LeavesPlainly):
		t.action = plainDelete
	case t.of.made != 0 && m.h.has(WatcherNotLooks):
		t.action = lazyDelete
	case t.of.made == 0 && !m.h.has(DeleteUnnamed):
		t.action = findOut
	case a.far && !a.again:
		t.action, t.heads = slip, a.heads
	}
	a.give(t)
}

// background is the requests that are on their way beside the requests of the waiting loop.
func (m *move) background() {
	for i, t := range m.me().tasks {
		if t.action != noAction {
			m.served(t.what(), func(s *HandoverState, a *contender) { m.answered(s, a, i, m.h.serve(s, t)) })
		}
	}
	for n := range uint8(perClient) {
		late := key{id: idOf(m.c, n)}
		if i := m.s.index(late); i >= 0 && m.me().suspects&(1<<n) != 0 && !m.me().removes(late) {
			m.does("finds an entry that has come late", func(s *HandoverState, a *contender) {
				t := task{action: depart, of: s.queue[i], repeated: true} // so its key is not used again
				if m.h.has(LateRemoved) {
					t.action = plainDelete
				}
				a.give(t)
			})
		}
	}
}

// removes reports whether a task is about to remove an entry.
func (a *contender) removes(k key) bool {
	for _, t := range a.tasks {
		if t.of.id == k.id && t.action != noAction && !t.action.follows() {
			return true
		}
	}
	return false
}

// answered goes on with what follows the answer to a task.
func (m *move) answered(s *HandoverState, a *contender, i int, next task) {
	t := a.tasks[i]
	if next.action == depart { // it was asked for its revision
		next.doubtful, next.awaited = t.doubtful, t.awaited
		a.tasks[i] = next
		return
	}
	if !t.action.follows() && t.action != findOut && t.action != plainDelete && !t.repeated && !t.doubtful && !a.over {
		a.spare = t.of.id // one attempt to make it and one to delete it, both answered
	}
	a.tasks[i] = task{action: next.action, of: next.of, head: next.head, next: next.next, seen: next.seen}
	if next.action == noAction {
		copy(a.tasks[i:], a.tasks[i+1:])
		a.tasks[maxTasks-1] = task{}
	}
	if t.doubtful {
		a.suspects |= 1 << ((t.of.id - 1) % perClient)
	}
	if t.awaited && a.at == handing {
		m.finish(s, a)
	}
}

// what names a request.
func (t task) what() string {
	head := ""
	if t.head.id != 0 {
		head = names[ownerOf(t.head.id)]
	}
	switch t.action {
	case plainDelete:
		return "deletes the entry of "
	case lazyDelete:
		return "deletes, if it has no turn, the entry of "
	case handOn:
		return "deletes, and gives its turn to " + head + ", the entry of "
	case passOn:
		return "deletes, if " + head + " is behind it, the entry of "
	case slip:
		return "deletes, and shows nothing, the entry of "
	case depart:
		return "deletes, and shows what is left, the entry of "
	case findOut:
		return "shows its own entry to "
	case seek:
		return "shows the head of the queue to "
	case seekTurn:
		return "shows the turn of the head to "
	default:
		return "gives its turn to " + head + ", as asked by "
	}
}
