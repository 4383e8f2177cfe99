package etcd

import (
	"sync"

	"github.com/farsync/farsync/driver"
)

// mostSpare bounds the keys that a session keeps for later. A program that locks many paths once has no use for them.
const mostSpare = 1024

// A spare set has the keys that a session may use again.
//
// etcd keeps a deleted key in its index until it is compacted, and a read of a range passes over all of them. With a new key for each
// entry, each look at a queue would cost the server more with every lock that was ever taken there: 6 ms after 100,000.
//
// A key is used again only when nothing that was asked for the entry before can still be carried out: one attempt was made to create
// that, and one to delete it, and both were answered. All other requests that name an entry compare its create revision. So does
// whatever waits for its end, and a key that is made again stands behind all that waited for the one before.
type spare struct {
	mu   sync.Mutex
	used map[string]usage    // by key, of the entries of the session that no attempt was to delete yet
	free map[string][]string // by what they begin with: all but the id
	kept int                 // in free. Invariant: kept ≤ mostSpare
}

// A usage is of a key by one entry.
type usage struct {
	revision int64
	once     bool // one attempt was to make the entry, and was sent once
}

func newSpare() *spare { return &spare{used: map[string]usage{}, free: map[string][]string{}} }

// take returns a key that begins so and was used before, or none.
func (s *spare) take(begin string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.free[begin]
	if len(list) == 0 {
		return ""
	}
	s.kept--
	s.free[begin] = list[:len(list)-1]
	return list[len(list)-1]
}

// made notes that an entry was made; once if one attempt was made, and sent once. The keys of permits have the time in them, and are
// not for others, nor are those of candidates.
func (s *spare) made(e driver.Entry, once bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[e.ID] = usage{e.Revision, once && e.Kind != driver.Permit && e.Kind != driver.Candidate}
}

// deleting notes that an attempt to delete an entry begins. It reports whether it is the first, so that the key is the entry's until
// it is answered, and whether the key may then be used again.
func (s *spare) deleting(e driver.Entry) (first, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, known := s.used[e.ID]
	delete(s.used, e.ID)
	first = known && u.revision == e.Revision
	return first, first && u.once
}

// deleted notes that the first attempt to delete an entry was the last, and that its key may be used again.
func (s *spare) deleted(e driver.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == mostSpare {
		clear(s.free)
		s.kept = 0
	}
	s.kept++
	begin := e.ID[:len(e.ID)-idLen]
	s.free[begin] = append(s.free[begin], e.ID)
}
