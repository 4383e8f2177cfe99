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
	mu    sync.Mutex
	whole map[string]int64    // the revisions, by key, of entries that one attempt has made, and that no other was to make or to delete
	free  map[string][]string // by what they begin with: all but the id
	kept  int                 // in free. Invariant: kept ≤ mostSpare
}

func newSpare() *spare { return &spare{whole: map[string]int64{}, free: map[string][]string{}} }

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

// made notes that one attempt has made an entry. The keys of permits, which have the time in them, and those of candidates are
// left out.
func (s *spare) made(e driver.Entry) {
	if e.Kind != driver.Permit && e.Kind != driver.Candidate {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.whole[e.ID] = e.Revision
	}
}

// touch notes that another attempt begins, to make an entry or to delete it. It reports whether only one to make it went before.
func (s *spare) touch(e driver.Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision, whole := s.whole[e.ID]
	delete(s.whole, e.ID)
	return whole && revision == e.Revision
}

// deleted notes that the first attempt to delete an entry was the last.
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
