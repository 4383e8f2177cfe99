package recipe

import "github.com/farsync/farsync/driver"

// A service may go back to an earlier state: a replica is promoted that had not received all, or a backup is restored. Whatever was answered
// since is undone. A waiter or holder that looks at its entry sees that a create was undone. No client sees that a removal was undone: the
// entry stands again, in a session that lives and is renewed, and blocks its queue for as long as that.
//
// So where a driver has a History, a session knows the IDs of all entries that may stand for a place. An ID is noted before the first attempt to
// create its entry is made, and forgotten once the removal is confirmed, or it is certain that there is no entry. When a renewal
// shows another history, the Store asks what the session owns, and removes all but these. It is right to do so at any time and at
// any server, for nothing relies on such an entry.
//
// A driver may return an ID that another entry of the session has had. Three things follow from that:
//
//   - An ID is drawn and noted in one step. A review between the two would take the new entry for an entry that stands
//     again.
//   - A place forgets its own note alone. The driver may return the ID as soon as its Delete is answered, so another place
//     may have noted it before the place that has deleted its entry gets to forget it.
//   - An ID whose entry was found to stand again is not drawn any more: that entry is about to be deleted, and a late
//     attempt to delete it would delete the new one. An ID that was drawn before the review asks is noted, and its entry
//     stays. Both are decided under mu.

// reviews is how often the Store looks after a change: at once, and a TTL later, for what was answered by the earlier server, or was about to
// be, when the first look was made.
const reviews = 2

// newID returns the ID of an entry that is about to be made, and the number of its note.
func (in *session) newID(queue string, k driver.Kind, units int64) (id string, note uint64) {
	if in.made == nil {
		return in.NewID(queue, k, units), 0
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for id = in.NewID(queue, k, units); in.undone[id]; {
		id = in.NewID(queue, k, units)
	}
	in.notes++
	in.made[id] = in.notes
	return id, in.notes
}

// forget notes that the entry of p is gone.
func (in *session) forget(p *place) {
	if in.made == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.made[p.made.ID] == p.note {
		delete(in.made, p.made.ID)
	}
}

// standsAgain reports whether e, which the session owns, stands for no place, and so is to be removed. An entry of
// another kind than farsync's is another program's.
func (in *session) standsAgain(e driver.Entry) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if _, made := byID(in.made, e); made || e.Kind == driver.Foreign {
		return false
	}
	if in.undone == nil {
		in.undone = map[string]bool{}
	}
	in.undone[e.ID] = true
	return true
}

// compare looks at the history of the service after a renewal, and begins a review if it is not the history of before. It returns the history.
func (s *Store) compare(in *session, before string) string {
	now := in.History()
	if now == before || in.made == nil {
		return now
	}
	in.mu.Lock()
	begin := in.looks == 0
	in.looks = reviews
	in.mu.Unlock()
	if begin {
		s.log.Info("the service may have gone back to an earlier state: looking for locks that were released and stand again")
		s.background(func() { s.review(in) })
	}
	return now
}

// review looks for entries that stand again, once a TTL at most, however often the history changes. A look that the service refuses does not
// count. There is one at a time in a session.
func (s *Store) review(in *session) {
	for more := true; more; {
		done := s.removeOwned(in, nil, in.standsAgain, func(of ...any) { s.log.Info("entry removed that stood again", of...) })
		if pauseIn(in.life, in.life, in.ttl) != nil {
			return
		}
		in.mu.Lock()
		if done {
			in.looks--
		}
		more = in.looks > 0
		in.mu.Unlock()
	}
}
