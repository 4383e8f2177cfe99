package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/farsync/farsync/driver"
)

// Rules are the library's own, which decide in the model as they do in a Store.
type Rules struct {
	// Blockers returns which of ahead, oldest first, keep e waiting, in a queue of that size if e is a permit.
	Blockers func(e driver.Entry, ahead []driver.Entry, size int64) []driver.Entry
	// Ends returns which change of a blocker may let e run.
	Ends func(e, blocker driver.Entry) driver.What
	// Apart reports whether an entry of kind k is refused in a queue whose oldest is of kind head.
	Apart func(k, head driver.Kind) bool
	// Failed returns what is known of a request one of whose attempts failed with that outcome. Again is whether an
	// attempt before may have been carried out, or may be later. Unknown is the fate of the request if no attempt
	// follows, and more whether one may.
	Failed func(again bool, o driver.Outcome) (nowAgain, unknown, more bool)
}

// A Queue is a play for the model of one queue and of those who use it.
type Queue struct {
	Rules   Rules
	Clients []Client
	Size    int64 // of a semaphore
	Foreign int   // how many entries another program makes, at any time
	Faults  Faults
	// Proofs is true if a wake-up brings a proof along, now and then.
	Proofs bool
	// Blind is true if the answer to a join shows nothing of the queue, now and then.
	Blind bool
	// Mistakes are put into the steps, to show that they are found.
	Mistakes Mistake

	entries []driver.Entry // scratch
}

// A Client acquires what it is to acquire a number of times, one after another. Clients next to each other that are the
// same are taken for interchangeable.
type Client struct {
	Kind      driver.Kind
	Units     int64
	Times     uint8
	Try       bool // it does not wait
	Downgrade bool // as a writer it becomes a reader in its place, now and then
}

// Faults are how often each may happen in one play, to any client.
type Faults struct {
	Cancel  uint8 // a caller gives up
	Crash   uint8 // a client is gone, and its session ends later
	Expire  uint8 // a session ends here, and later at the service
	Lose    uint8 // a request or its answer is lost; what is lost on the way to the service may arrive at any time later
	Refuse  uint8 // the service says no to an attempt
	Strange uint8 // another program deletes the entry of a client that waits
	Event   uint8 // a watch breaks, or ends for no reason
}

// A Mistake is one in the steps of the protocol.
type Mistake uint32

// The mistakes.
const (
	HeadDeleted          Mistake = 1 << iota // a delete removes the oldest entry, whosever it is
	NotifiedHolds                            // what is notified holds, without a look
	LateJoinForgotten                        // no later look for what an attempt of unknown outcome may still create
	WatchWithoutLook                         // a watch is set after the look, with no other look
	ServiceFirst                             // the session may end at the service before it does here
	HeadWatched                              // a waiter watches the oldest entry
	OwnNotChecked                            // a look does not say whether the own entry is there
	NewIDAgain                               // a join of unknown outcome is sent again under another ID
	CancelLeaves                             // what a caller that gives up has created is not removed
	RefusalEndsRemoval                       // a refusal ends the removal in the background
	OldEntryStands                           // after the end of its session a client waits on with the entry of that session
	KindByNearest                            // the nearest entry decides the family, not the oldest
	BrokenWatchForgotten                     // a watch that breaks is not set again
	UnknownJoinForgotten                     // a join of unknown outcome that is given up is not removed
	TryStays                                 // a call that does not wait leaves its entry behind
	DowngradeMoves                           // a downgrade is a new entry at the tail, and the old one is removed first
	DeadProofTaken                           // a proof is believed that does not show the own entry
)

const (
	maxClients = 4
	maxQueue   = 8
	maxOn      = 3
	maxJobs    = 3
	maxLetters = 4
	perClient  = 8 // IDs of entries
	foreignID  = maxClients * perClient
)

// phase is what a client is at.
type phase uint8

const (
	idle      phase = iota // about to begin
	peeking                // looks whether a new entry would be granted
	joining                // creates its entry
	looking                // asks what is ahead of it
	watching               // waits
	proving                // has a proof that has come with a wake-up
	holding                // believes that it holds
	releasing              // removes its entry, and has ended its hold
	leaving                // removes its entry, and will return an error
	finished               // nothing is left to do
	dead
)

// request is how far the request of a client is.
type request uint8

const (
	none request = iota
	sent
	answered
	stands // a watch that was set, and has looked
	deaf   // a watch that will never end
)

// answer is what came back.
type answer uint8

const (
	ok     answer = iota
	native        // ok, and the queue is of the family of the entry, although others are ahead
	gone
	expired
	otherFamily
	blind
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

// Start returns a state in which no client has begun.
func (q *Queue) Start() QueueState {
	s := QueueState{faults: q.Faults, foreign: uint8(q.Foreign)}
	for c := range s.clients {
		s.clients[c].phase = finished
		if c < len(q.Clients) {
			s.clients[c] = member{phase: idle, left: q.Clients[c].Times}
			s.alive[c] = 1
		}
	}
	return s
}

// entry is what the rules see of an entry.
func (q *Queue) entry(e slot) driver.Entry {
	shown := driver.Entry{Revision: int64(e.id), Kind: e.kind, Units: 1, Version: int64(order(e.again))}
	if e.id < foreignID && e.kind == driver.Permit {
		shown.Units = q.Clients[ownerOf(e.id)].Units
	}
	return shown
}

// home reports whether an entry of that kind is of the family of the oldest in the queue, or may wait behind it.
func home(k, oldest driver.Kind) bool {
	family := func(k driver.Kind) driver.Kind {
		if k == driver.Write {
			return driver.Read
		}
		return k
	}
	return family(k) == family(oldest) || oldest == driver.Foreign && k != driver.Permit
}

// decide is what a Store makes of a view: what has to be waited for, or that the queue is another family's.
func (q *Queue) decide(own slot, ahead []slot, known bool) (on [maxOn]target, got answer) {
	view := q.entries[:0]
	foreign := false
	for _, other := range ahead {
		view = append(view, q.entry(other))
		foreign = foreign || q.Rules.Apart(own.kind, other.kind)
	}
	q.entries = view
	oldest := 0
	if q.Mistakes&KindByNearest != 0 {
		oldest = len(ahead) - 1
	}
	switch {
	case !foreign || known:
	case q.Rules.Apart(own.kind, ahead[oldest].kind):
		return on, otherFamily
	default:
		got = native
	}
	e := q.entry(own)
	for i, blocker := range q.Rules.Blockers(e, view, q.Size) {
		if q.Mistakes&HeadWatched != 0 {
			blocker = view[0]
		}
		on[i] = target{id: uint8(blocker.Revision), what: q.Rules.Ends(e, blocker), kind: blocker.Kind, again: blocker.Version != 0}
	}
	return on, got
}

// look is decide for an entry of the queue as it is, at the service.
func (q *Queue) look(s *QueueState, c int) (on [maxOn]target, got answer) {
	i := s.index(s.own(c))
	if i < 0 {
		if q.Mistakes&OwnNotChecked == 0 {
			return on, gone
		}
		return q.decide(slot{id: s.own(c), kind: q.Clients[c].Kind}, s.queue[:s.length()], true)
	}
	return q.decide(s.queue[i], s.queue[:i], s.clients[c].native)
}

// moved reports whether a target has gone or changed.
func (s *QueueState) moved(on [maxOn]target) bool {
	for _, t := range on {
		if t.id == 0 {
			continue
		}
		if i := s.index(t.id); i < 0 || s.queue[i].again != t.again || t.what == driver.Changed && s.queue[i].kind != t.kind {
			return true
		}
	}
	return false
}

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

var names = []string{"A", "B", "C", "D"}

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
