package model

import (
	"errors"
	"fmt"

	"github.com/farsync/farsync/driver"
)

// Who may hold is decided here a second time, without the rules of the library.
var (
	errTwo     = errors.New("two hold that exclude each other")
	errTooMany = errors.New("more units are held than there are")
	errHerd    = errors.New("one release wakes two that wait for an exclusive lock")
)

// Check compares all clients that believe that they hold.
func (q *Queue) Check(s QueueState) error {
	var units int64
	var kinds [maxClients]driver.Kind
	held := kinds[:0]
	for c := range q.Clients {
		m := &s.clients[c]
		if m.phase != holding || m.over {
			continue
		}
		kind := q.Clients[c].Kind
		if m.reader {
			kind = driver.Read
		}
		for _, other := range held {
			if kind != other || kind != driver.Read && kind != driver.Permit {
				return errTwo
			}
		}
		held = append(held, kind)
		units += q.Clients[c].Units
	}
	if len(held) > 0 && held[0] == driver.Permit && units > q.Size {
		return errTooMany
	}
	return q.herd(&s)
}

// herd looks for two that wait for the same entry ahead of them where one at most can be let in by its end.
func (q *Queue) herd(s *QueueState) error {
	var seen [foreignID + maxQueue]bool
	for c := range q.Clients {
		m := &s.clients[c]
		if m.phase != watching || m.at != stands || m.over || q.Clients[c].Kind != driver.Exclusive || s.index(m.on[0].id) < 0 {
			continue
		}
		if m.doubtful || s.index(m.on[0].id) > s.index(s.own(c)) {
			continue // one of the two went, and a late attempt has created it once more, farther behind
		}
		if seen[m.on[0].id] {
			return errHerd
		}
		seen[m.on[0].id] = true
	}
	return nil
}

// Rest requires that every client that waits has to, and that every entry belongs to a client that waits or holds.
// Holders release when they like, so a queue is at rest whenever every waiter stands behind a holder.
func (q *Queue) Rest(s QueueState) error {
	for c := range q.Clients {
		switch s.clients[c].phase {
		case finished, dead, holding:
		case watching:
			if q.granted(&s, c) == nil {
				return fmt.Errorf("%s waits although nothing is in its way, and nothing will wake it", names[c])
			}
		default:
			return fmt.Errorf("%s waits for an answer that does not come", names[c])
		}
	}
	for _, e := range s.queue[:s.length()] {
		if e.id >= foreignID {
			continue
		}
		c := ownerOf(e.id)
		if p := s.clients[c].phase; p != watching && p != holding || s.own(c) != e.id {
			return fmt.Errorf("an entry of %s is left that nothing will remove", names[c])
		}
	}
	return nil
}

// granted returns what is wrong with a grant, by the queue as it is: all ahead that excludes it, and that it must be
// there itself.
func (q *Queue) granted(s *QueueState, c int) error {
	i := s.index(s.own(c))
	if i < 0 {
		return errors.New("a grant of an entry that is not in the queue")
	}
	kind := s.queue[i].kind
	units := q.Clients[c].Units
	for _, other := range s.queue[:i] {
		switch {
		case kind == driver.Permit && other.kind == driver.Permit:
			units += q.Clients[ownerOf(other.id)].Units
		case kind == driver.Read && other.kind == driver.Read:
		default:
			return errors.New("a grant past an entry that excludes it")
		}
	}
	if kind == driver.Permit && units > q.Size {
		return errors.New("a grant past entries that leave no room")
	}
	return nil
}
