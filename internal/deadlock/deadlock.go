// Package deadlock finds, in what a survey shows of queues, the entries that can never come to hold because they wait
// for one another.
//
// It is decided by reduction, as in R. C. Holt, "Some Deadlock Properties of Computer Systems", 1972: an entry that
// holds is taken to be released some day, unless a call waits under it: a call whose context stands for the lease. So
// remove each entry that holds and under which none waits, let in whatever its queue then lets in, and repeat. The
// entries that are left cannot go on.
//
// A survey is no picture of one moment, and a context may be passed to a goroutine that its giver does not wait for. So
// what is found is for people to see, and nothing is to be decided by it.
package deadlock

import (
	"slices"

	"github.com/farsync/farsync/driver"
)

// An Entry is one place in a queue.
type Entry struct {
	// ID tells it from all others, in all queues.
	ID    string
	Kind  driver.Kind
	Units int64
	// Under are the IDs of the entries under which it waits: its caller releases them only after it has come to hold. IDs
	// that are in no queue do not count.
	Under []string
}

// A Queue is the entries of a path, oldest first.
type Queue struct {
	Path    string
	Size    int64 // of a semaphore
	Entries []Entry
}

// A Place is where an entry stands.
type Place struct {
	Queue, Entry int // indexes
}

// Cycles returns one cycle for each group of entries that wait for one another. Each entry of a cycle cannot go before
// the next has gone, and the last not before the first: a waiter not before an entry ahead of it, a holder not before a
// waiter under it. Entries that merely wait behind such a group are in none. It takes time in proportion to the
// entries, and to the entries that they are under.
func Cycles(queues []Queue) [][]Place {
	s := newState(queues)
	s.reduce()
	return s.cycles()
}

// An entry is what is known of one while queues are reduced.
type entry struct {
	Entry

	place   Place
	granted bool
	gone    bool
	under   []int // the entries it waits under
	waiters []int // that wait under it
	waiting int   // how many of the waiters are not granted
	barrier int   // of a reader that is left: the nearest ahead that is left and no reader, or none
}

// none stands for no entry.
const none = -1

// A line is what is known of a queue.
type line struct {
	size     int64
	first    int // of its entries
	next, to int // those from next on are not granted
	// Of the entries that are granted and not gone:
	all, readers, permits int
	room                  int64 // what the permits leave of size
}

type state struct {
	entries []entry
	lines   []line
	removed []int // granted with none waiting under it: to be removed
}

func newState(queues []Queue) *state {
	s := &state{}
	index := map[string]int{}
	for q, queue := range queues {
		first := len(s.entries)
		for i, e := range queue.Entries {
			index[e.ID] = len(s.entries)
			s.entries = append(s.entries, entry{Entry: e, place: Place{q, i}})
		}
		s.lines = append(s.lines, line{size: queue.Size, first: first, next: first, to: len(s.entries), room: queue.Size})
	}
	for i := range s.entries {
		e := &s.entries[i]
		for _, id := range slices.Compact(slices.Sorted(slices.Values(e.Under))) {
			if over, ok := index[id]; ok {
				e.under = append(e.under, over)
				s.entries[over].waiters = append(s.entries[over].waiters, i)
				s.entries[over].waiting++
			}
		}
	}
	return s
}

// reduce removes what can go. Each entry is granted once and removed once, and each time its queue is looked at only
// where it could have changed: at the first that waits.
func (s *state) reduce() {
	for q := range s.lines {
		s.admit(q)
	}
	for len(s.removed) > 0 {
		i := s.removed[len(s.removed)-1]
		s.removed = s.removed[:len(s.removed)-1]
		e := &s.entries[i]
		e.gone = true
		s.lines[e.place.Queue].count(e, -1)
		s.admit(e.place.Queue)
	}
}

// admit grants what the queue lets in. All that is ahead of its first waiter is granted or gone, for every rule is
// fair.
func (s *state) admit(q int) {
	l := &s.lines[q]
	for l.next < l.to && l.admits(&s.entries[l.next]) {
		i := l.next
		l.next++
		e := &s.entries[i]
		e.granted = true
		l.count(e, 1)
		s.freed(i)
		for _, over := range e.under {
			s.entries[over].waiting--
			s.freed(over)
		}
	}
}

// freed has an entry removed that holds, once none waits under it. That is so at one moment: when it is granted, or
// when the last of those is.
func (s *state) freed(i int) {
	if e := &s.entries[i]; e.granted && e.waiting == 0 {
		s.removed = append(s.removed, i)
	}
}

func (l *line) admits(e *entry) bool {
	switch e.Kind {
	case driver.Read:
		return l.all == l.readers
	case driver.Permit:
		return l.all == l.permits && e.Units <= l.room
	default:
		return l.all == 0
	}
}

func (l *line) count(e *entry, n int) {
	l.all += n
	switch e.Kind {
	case driver.Read:
		l.readers += n
	case driver.Permit:
		l.permits += n
		l.room -= int64(n) * e.Units
	}
}

// fence notes for each reader that is left the nearest entry ahead that is no reader.
func (s *state) fence() {
	for _, l := range s.lines {
		nearest := none
		for i := l.first; i < l.to; i++ {
			switch e := &s.entries[i]; {
			case e.Kind == driver.Read:
				e.barrier = nearest
			case !e.gone:
				nearest = i
			}
		}
	}
}

// blockers returns what an entry that is left cannot go before. Of those ahead it is those without which the others
// would follow: the entries ahead of a waiter are blocked by what is ahead of them.
func (s *state) blockers(i int) (list []int) {
	e := &s.entries[i]
	switch {
	case e.granted:
		for _, w := range e.waiters {
			if !s.entries[w].granted {
				list = append(list, w)
			}
		}
		return list
	case e.Kind == driver.Read && e.barrier == none:
		return nil
	case e.Kind == driver.Read:
		return []int{e.barrier}
	}
	for j := i - 1; j >= s.lines[e.place.Queue].first; j-- {
		other := &s.entries[j]
		if other.gone {
			continue
		}
		list = append(list, j)
		// Readers and permits hold side by side, and whatever waits for one of them waits for the others, too.
		if !other.granted || other.Kind != driver.Read && other.Kind != driver.Permit {
			break
		}
	}
	return list
}
