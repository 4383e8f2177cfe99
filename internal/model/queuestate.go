package model

import (
	"cmp"
	"slices"

	"github.com/farsync/farsync/driver"
)

// A slot is an entry of the queue.
type slot struct {
	id    uint8 // 0: none
	kind  driver.Kind
	epoch uint8 // the session that it belongs to
	again bool  // one with its ID was created before
}

// A target is what a client waits for, as it was seen.
type target struct {
	id    uint8
	what  driver.What
	kind  driver.Kind
	again bool
}

// A job is an entry that is removed in the background.
type job struct {
	id       uint8 // 0: none
	epoch    uint8
	doubtful bool
}

// A letter is a request that its client has given up, and that may arrive at any time.
type letter struct {
	id     uint8 // 0: none
	epoch  uint8
	delete bool
}

// QueueState is the state of a queue, its service and its clients.
type QueueState struct {
	queue   [maxQueue]slot
	alive   [maxClients]uint8 // sessions at the service, a bit for each epoch
	clients [maxClients]member
	letters [maxLetters]letter
	created [maxClients]uint8 // IDs that were in the queue, a bit for each
	foreign uint8             // entries that another program has yet to make
	faults  Faults
}

// A member is the state of a client.
type member struct {
	phase    phase
	at       request
	got      answer
	again    bool // an attempt of the request under way may have been carried out, or may be
	doubtful bool // a late attempt may create its entry once more
	begun    bool // it has taken a step
	over     bool // its session has ended here
	reader   bool // it was a writer
	native   bool // its queue is known to be of its family
	epoch    uint8
	made     uint8 // IDs that it has used; its entry has the last
	left     uint8 // acquisitions
	suspects uint8 // IDs that may come late, a bit for each
	on       [maxOn]target
	jobs     [maxJobs]job
}

func idOf(c int, n uint8) uint8 { return uint8(c)*perClient + n + 1 }

func ownerOf(id uint8) int { return int(id-1) / perClient }

// own returns the ID of the entry with which a client stands.
func (s *QueueState) own(c int) uint8 { return idOf(c, s.clients[c].made-1) }

func (s *QueueState) index(id uint8) int {
	for i, e := range s.queue {
		if e.id == id && id != 0 {
			return i
		}
	}
	return -1
}

func (s *QueueState) length() int {
	for i, e := range s.queue {
		if e.id == 0 {
			return i
		}
	}
	return len(s.queue)
}

// add appends an entry. It is out of range if maxQueue is too small for a play.
func (s *QueueState) add(e slot) { s.queue[s.length()] = e }

// create appends the entry of a client, unless it is there.
func (q *Queue) create(s *QueueState, id, epoch uint8) {
	if s.index(id) >= 0 {
		return
	}
	c, bit := ownerOf(id), uint8(1)<<((id-1)%perClient)
	s.add(slot{id: id, kind: q.Clients[c].Kind, epoch: epoch, again: s.created[c]&bit != 0})
	s.created[c] |= bit
}

func (s *QueueState) remove(id uint8) bool {
	i := s.index(id)
	if i < 0 {
		return false
	}
	copy(s.queue[i:], s.queue[i+1:])
	s.queue[maxQueue-1] = slot{}
	return true
}

// sortLetters puts the letters in an order of their own, so that states which differ in nothing else are one.
func (s *QueueState) sortLetters() {
	slices.SortFunc(s.letters[:], func(a, b letter) int {
		return cmp.Or(cmp.Compare(b.id, a.id), cmp.Compare(b.epoch, a.epoch), order(a.delete)-order(b.delete))
	})
}

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}
