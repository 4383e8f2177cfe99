package zk

import (
	"slices"

	"github.com/farsync/farsync/driver"
)

const (
	// A session remembers queues of crowdSize entries and more. To read a shorter one again costs little.
	crowdSize = 64
	// maxCrowds bounds how many it remembers.
	maxCrowds = 4
)

// A queue is what the children of a node are to one kind of entry, as they were read once. All callers share it.
//
// Places ahead only shrink: once all that were ahead of an entry have gone, nothing is ahead of it, and the queue need not
// be read again. In a crowd of a thousand waiters that would be a thousand reads of a thousand names.
type queue struct {
	kind    driver.Kind
	entries []driver.Entry // in their order
	ahead   int            // so many of them are ahead of an entry that joins now
	place   map[string]int // of an entry, by its ID; nil where the queue is no crowd

	// The session's mu guards these.
	gone  map[string]bool // IDs of entries that have gone since; nil until the queue is remembered
	first int             // Invariant: all entries in places before it have gone.
}

// remember keeps a queue that was read. It must be one of mutexes or candidates: a writer's node may be replaced in its
// place by a reader's, which is none of those that were read.
func (s *session) remember(path string, q *queue) {
	if len(q.entries) < crowdSize || q.kind != driver.Exclusive && q.kind != driver.Candidate {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.crowds) >= maxCrowds {
		clear(s.crowds)
	}
	if q.gone == nil {
		q.gone = map[string]bool{}
	}
	s.crowds[path] = q
}

// find returns the place of an entry, and whether it is in the queue.
func (q *queue) find(id string) (int, bool) {
	if q.place != nil {
		i, ok := q.place[id]
		return i, ok
	}
	i := slices.IndexFunc(q.entries, func(e driver.Entry) bool { return e.ID == id })
	return i, i >= 0
}

// left notes that an entry has gone.
func (s *session) left(e driver.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.crowds[s.path(e.Queue)]; q != nil && e.Kind != driver.Write {
		q.gone[e.ID] = true
	}
}

// first reports whether all that was ahead of an entry is known to have gone.
func (s *session) first(e driver.Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.crowds[s.path(e.Queue)]
	if q == nil || q.kind != e.Kind {
		return false
	}
	i, ok := q.find(e.ID)
	for ok && q.first < i && q.gone[q.entries[q.first].ID] {
		q.first++
	}
	return ok && i == q.first
}
