package zk

import (
	"slices"
	"strings"

	"github.com/farsync/farsync/driver"
)

// A queue is what the children of a node are to one kind of entry, as they were read once. All callers share it. It has
// only the entries that a caller asks for: of a long queue, that is mostly the nearest.
type queue struct {
	name, path string // of the queue, and of its node
	kind       driver.Kind
	nodes      []*node // in their order
	tail       int     // so many of them are ahead of an entry that joins now

	// The session's mu guards these.
	gone  map[string]bool // names of nodes that have gone since; nil until the queue is remembered
	first int             // Invariant: all nodes in places before it have gone.
}

// entry returns the node in a place as an entry.
func (q *queue) entry(i int) driver.Entry { return q.nodes[i].entry(q.name, q.path, i) }

// entries returns the first n nodes as entries.
func (q *queue) entries(n int) []driver.Entry {
	list := make([]driver.Entry, n)
	for i := range list {
		list[i] = q.entry(i)
	}
	return list
}

// find returns the place of an entry, and whether it is in the queue.
func (q *queue) find(e *driver.Entry) (int, bool) {
	own := parseNode(nameOf(e.ID), q.kind)
	return slices.BinarySearchFunc(q.nodes, &own, byOrder)
}

// ahead returns what is ahead of e, whether that is all, and whether e is in the queue. An entry without an ID is about
// to join. If waiting is true, it returns what keeps e waiting alone, where that is one.
func (q *queue) ahead(e *driver.Entry, waiting bool) (list []driver.Entry, all, there bool) {
	place := q.tail
	if e.ID != "" {
		if place, there = q.find(e); !there {
			return nil, false, false
		}
	}
	if waiting && e.ID == "" && e.Kind != driver.Permit && e.Kind != driver.Read && place > 0 {
		return q.entries(1), place == 1, false
	}
	for i := place - 1; waiting && e.Kind != driver.Permit && i >= 0; i-- {
		if e.Kind != driver.Read || q.nodes[i].kind != driver.Read {
			return []driver.Entry{q.entry(i)}, place == 1, true
		}
	}
	return q.entries(place), true, true
}

// nearest is ahead for an entry that any other keeps waiting. It does not put the queue in order.
func (c children) nearest(e *driver.Entry, path string) (list []driver.Entry, all, there bool) {
	own, near, place := node{order: lastSequence, name: "\xff"}, node{}, 0
	if e.ID != "" {
		own = parseNode(nameOf(e.ID), e.Kind)
	}
	for name := range c.all {
		n := parseNode(name, e.Kind)
		c := byOrder(&n, &own)
		if there = there || c == 0; c >= 0 {
			continue
		}
		if place++; place == 1 || byOrder(&near, &n) < 0 == (e.ID != "") {
			near = n
		}
	}
	switch {
	case place > 0 && e.ID == "":
		list = []driver.Entry{near.entry(e.Queue, path, 0)}
	case place > 0:
		list = []driver.Entry{near.entry(e.Queue, path, place-1)}
	}
	return list, place < 2, there
}

// Places ahead only shrink: once all that were ahead of an entry have gone, nothing is ahead of it, and the queue need
// not be read again. In a crowd of a thousand waiters that would be a thousand reads of a thousand names.
const (
	// A session remembers queues of crowdSize entries and more, several of them its own. To read a shorter one again costs
	// little, and a session with one entry learns nothing of those ahead but that the nearest has gone.
	crowdSize = 64
	// maxCrowds bounds how many it remembers.
	maxCrowds = 4
)

// crowded reports whether a queue is a crowd in which the session has several entries.
func (s *session) crowded(names children) bool {
	all := 0
	for range names.all {
		all++
	}
	return all >= crowdSize && strings.Count(string(names), s.mark) > 1
}

// remember keeps a queue that was read for e. It must be one of mutexes or candidates: a writer's node may be replaced
// in its place by a reader's, which was not read with the others.
func (s *session) remember(q *queue, e *driver.Entry) {
	if len(q.nodes) < crowdSize || q.kind != driver.Exclusive && q.kind != driver.Candidate {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.crowds[q.name]; was != nil {
		if _, known := was.find(e); known && byOrder(q.nodes[0], was.nodes[0]) <= 0 && byOrder(q.nodes[len(q.nodes)-1], was.nodes[len(was.nodes)-1]) < 0 {
			return // goroutines do not come here in the order of their reads, and this one is older
		}
	}
	if len(s.crowds) >= maxCrowds {
		clear(s.crowds)
	}
	if q.gone == nil {
		q.gone = map[string]bool{}
	}
	s.crowds[q.name] = q
}

// left notes that an entry has gone. Entries that have joined since the queue was read are in no place of it: they come
// and go for as long as the session lives.
func (s *session) left(e *driver.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.crowds[e.Queue]; q != nil && e.Kind != driver.Write {
		if _, known := q.find(e); known {
			q.gone[nameOf(e.ID)] = true
		}
	}
}

// first reports whether all that was ahead of an entry is known to have gone.
func (s *session) first(e *driver.Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.crowds[e.Queue]
	if q == nil || q.kind != e.Kind || e.ID == "" {
		return false
	}
	i, ok := q.find(e)
	for ok && q.first < i && q.gone[q.nodes[q.first].name] {
		q.first++
	}
	return ok && i == q.first
}
