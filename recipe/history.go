package recipe

import "github.com/farsync/farsync/driver"

// A service may go back to an earlier state: a replica is promoted that had not received all, or a backup is restored. Whatever was answered
// since is undone. A create that is undone is seen by those that look at their entry. A removal that is undone is seen by none: the
// entry stands again, in a session that lives and is renewed, and blocks its queue for as long as that.
//
// So where a driver has a History, a session knows the IDs of all entries that may stand for a place. An ID is noted before the first attempt to
// create its entry is made, and forgotten once the removal is confirmed, or it is certain that there is no entry. When a renewal
// shows another history, the Store asks what the session owns, and removes all but these. It is right to do so at any time and at
// any server, for nothing relies on such an entry.

// reviews is how often the Store looks after a change: at once, and a TTL later, for what was answered by the earlier server, or was about to
// be, when the first look was made.
const reviews = 2

// note notes that an entry is about to be made.
func (in *session) note(e driver.Entry) {
	if in.made != nil {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.made[e.ID] = true
	}
}

// forget notes that an entry which was made as e is gone.
func (in *session) forget(e driver.Entry) {
	if in.made != nil {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.made, e.ID)
	}
}

// standsAgain reports whether e, which the session owns, stands for no place. One of another kind than farsync's is another program's.
func (in *session) standsAgain(e driver.Entry) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return e.Kind != driver.Foreign && !begins(in.made, e)
}

// compare looks at the history of the service after a renewal, and begins a review if it is not the one of before, which it returns.
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
