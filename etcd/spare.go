package etcd

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/farsync/farsync/driver"
)

// mostSpare bounds the keys that a session keeps for later. A program that locks many paths once has no use for them.
const mostSpare = 1024

// A spare set has the keys that a session may use again.
//
// etcd keeps a deleted key in its index until it is compacted, and a read of a range passes over all of them. With a
// new key for each entry, each look at a queue would cost the server more with every lock that was ever taken there: 6
// ms after 100,000.
//
// A key is used again only when nothing that was asked for the entry before can still be carried out: one attempt was
// made to create that, and one to delete it, and both were answered. All other requests that name an entry compare its
// create revision. So does whatever waits for its end, and a key that is made again stands behind all that waited for
// the entry before.
type spare struct {
	mu   sync.Mutex
	used map[string]usage    // by key, of the entries of the session that no attempt was to delete yet
	free map[string][]string // by what they begin with: all but the id
	kept int                 // in free. Invariant: kept ≤ mostSpare

	// places has what is known of the entries that know turns, by key, until an attempt to delete them was answered; or
	// one to make them that was certainly not carried out. The revision is 0 while no answer has told it.
	places map[string]*usage
	// debts has the queues whose heads may still have to be given their turns, and for how many entries that have left.
	debts map[string]int
}

// A usage is of a key by one entry.
type usage struct {
	revision int64
	once     bool // one attempt was to make the entry, and was sent once

	// Of an entry that knows turns.
	deleting bool           // an attempt to delete it has begun
	alone    bool           // it joined alone
	far      bool           // it joined a long queue
	head     int64          // a revision at which it was the head; 0 if none is known
	next     []driver.Entry // what its turn has said
}

func newSpare() *spare {
	return &spare{used: map[string]usage{}, free: map[string][]string{}, places: map[string]*usage{}, debts: map[string]int{}}
}

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

// making notes that an attempt to make an entry that knows turns begins, and reports whether it is the first. The entry
// may be there from then on, unknown, and others may stand behind it.
func (s *spare) making(e driver.Entry) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first = s.places[e.ID] == nil; first {
		s.places[e.ID] = new(usage)
	}
	return first
}

// made notes that an entry was made; once if one attempt was made, and sent once. The keys of permits have the time in
// them, and are not for others, nor are the keys of candidates.
func (s *spare) made(e driver.Entry, once bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	once = once && e.Kind != driver.Permit && e.Kind != driver.Candidate
	if !plain(e) {
		s.places[e.ID] = &usage{revision: e.Revision, once: once}
		return
	}
	s.used[e.ID] = usage{revision: e.Revision, once: once}
}

// deleting notes that an attempt to delete an entry begins. It reports whether it is the first, so that the key is the
// entry's until it is answered, and whether the key may then be used again.
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
	if !plain(e) {
		begin = e.ID[:strings.LastIndexByte(e.ID, '.')+1]
	}
	s.free[begin] = append(s.free[begin], e.ID)
}

// place calls f with what is known of an entry that knows turns.
func (s *spare) place(e driver.Entry, f func(u *usage)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.places[e.ID]; u != nil && (u.revision == e.Revision || e.Revision == 0) {
		f(u)
	}
}

// alone notes that an entry joined alone.
func (s *spare) alone(e driver.Entry) {
	s.place(e, func(u *usage) { u.alone, u.head = true, e.Revision })
}

// far notes that an entry joined a long queue.
func (s *spare) far(e driver.Entry) {
	s.place(e, func(u *usage) { u.far = true })
}

// proved notes that the entry of a proof was the head at that revision, and returns the proof.
func (s *spare) proved(v *driver.View, at int64) *driver.View {
	if v != nil {
		s.place(v.Self, func(u *usage) { u.head = at })
	}
	return v
}

// turn notes that an entry was given its turn, which says at which revision it was the head, and what stands behind.
func (s *spare) turn(e driver.Entry, at int64, next []driver.Entry) {
	s.place(e, func(u *usage) { u.head, u.next = at, next })
}

// found notes the revision of an entry that no answer had confirmed.
func (s *spare) found(e driver.Entry, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[e.ID] = &usage{revision: revision, deleting: true}
}

// leaving notes that an attempt to delete an entry begins, and returns what is known of it; if the entry is not known,
// its revision. Again is as in deleting.
func (s *spare) leaving(e driver.Entry) (u usage, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.places[e.ID]
	if known == nil || known.revision == 0 || e.Revision != 0 && known.revision != e.Revision {
		return usage{revision: e.Revision}, false
	}
	if known.deleting {
		return usage{revision: known.revision, deleting: true}, false // what its place was may not be so any more
	}
	u = *known
	known.deleting = true
	return u, u.once && e.Revision != 0
}

// left notes that an attempt to delete an entry was answered, and whether its key may be used again.
func (s *spare) left(e driver.Entry, again bool) {
	s.place(e, func(*usage) { delete(s.places, e.ID) })
	if again {
		s.deleted(e)
	}
}

// owes notes that the head of a queue may have to be given its turn, for an entry that has left.
func (s *spare) owes(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.debts[queue]++
}

// paid notes that the head was given its turn, for one of the entries that have left. The debts of the others stay:
// Touch may have looked before another entry left.
func (s *spare) paid(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.debts[queue]--; s.debts[queue] <= 0 {
		delete(s.debts, queue)
	}
}

// owed returns the queues whose heads have to be given their turns when the session has been revoked.
func (s *spare) owed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.places {
		s.debts[queueOf(key)]++
	}
	return slices.Collect(maps.Keys(s.debts))
}
