package zk

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/farsync/farsync/driver"
)

// Clients that lock a mutex again and again come round in one order: each joins behind the one that has released just before it did. So
// an entry of a client that comes round need not read the queue to find what to watch. The node ahead has the sequence before its own, and
// most likely the name that the client makes next whose node was ahead the last time. To set the watch shows whether that is so: where the
// node is there, nothing stands between the two; where it is not, the queue is read after all.
//
// A guess decides what a waiter watches first, and nothing else. What a waiter is granted, a read of the queue shows, as without. A
// client guesses where the last guess was right, or would have been.

// A round is what a session knows of its mutexes in one queue.
type round struct {
	number uint64 // that its last name there has
	behind string // the name of the node that was ahead the last time
	place  int64  // the sequence of its own then
	comes  bool   // the next guess is likely to be right
}

// mostRounds bounds the queues of which a session knows that.
const mostRounds = 1024

// number returns one that no name of the session in the queue has had. They follow one another, for those who guess.
func (s *session) number(queue string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rounds[queue]
	if r == nil {
		if len(s.rounds) == mostRounds {
			clear(s.rounds)
		}
		r = &round{number: s.highest} // it may have been known, and forgotten
		s.rounds[queue] = r
	}
	r.number++
	s.highest = max(s.highest, r.number)
	return r.number
}

// stood notes that e waits for a target. Behind one alone there is nothing to be guessed: what is ahead has to be known.
func (s *session) stood(e *driver.Entry, on *driver.Target) {
	if e.Kind != driver.Exclusive || e.ID == "" || on.What != driver.Gone || on.Alone {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rounds[e.Queue]; r != nil {
		r.behind, r.place = nameOf(on.Entry.ID), placeOf(e.ID)
	}
}

// missed notes that a target was not there when it was to be watched.
func (s *session) missed(on *driver.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rounds[on.Entry.Queue]; r != nil {
		r.comes = false
	}
}

// guesses reports whether an entry that is about to be made need not read its queue.
func (s *session) guesses(e *driver.Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rounds[e.Queue]
	return e.Kind == driver.Exclusive && r != nil && r.comes
}

// guess returns what is likely to be ahead of an entry that was made, or nothing.
func (s *session) guess(e *driver.Entry) []driver.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rounds[e.Queue]
	if r == nil || e.Kind != driver.Exclusive {
		return nil
	}
	place := placeOf(e.ID)
	name := nextName(r.behind, place-1)
	// All that have joined since its last entry stand ahead, if they have not gone. One alone has to be known to be.
	ahead := int(place - r.place - 2)
	if name == "" || ahead < 1 {
		return nil
	}
	return []driver.Entry{{Queue: e.Queue, ID: parentOf(e.ID) + "/" + name, Kind: e.Kind, Units: 1, Ahead: ahead}}
}

// learn compares what a read has shown to be ahead of an entry with what would have been guessed.
func (s *session) learn(e *driver.Entry, shown []driver.Entry) {
	if e.Kind != driver.Exclusive {
		return
	}
	guess := s.guess(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rounds[e.Queue]; r != nil {
		r.comes = len(guess) == 1 && len(shown) == 1 && guess[0].ID == shown[0].ID
	}
}

// placeOf returns the sequence of an ID of a mutex, or -1.
func placeOf(id string) int64 {
	digits, _ := cutLast(nameOf(id), names[driver.Exclusive])
	if !sequence(digits) {
		return -1
	}
	place, _ := strconv.ParseInt(digits, 10, 64)
	return place
}

// nextName returns the name that a session's next node after the named one has, if it has that sequence; or none, if the name is not one of ours.
func nextName(name string, place int64) string {
	begin, digits, ok := strings.Cut(name, "-"+names[driver.Exclusive])
	if !ok || len(begin) <= len(protected)+markSize || !sequence(digits) || place < 0 {
		return ""
	}
	mark, number := begin[:len(protected)+markSize], begin[len(protected)+markSize:]
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil {
		return ""
	}
	return newName(mark, n+1, driver.Exclusive, 1) + fmt.Sprintf("%0*d", seqDigits, place)
}
