package model

import (
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

var names = []string{"A", "B", "C", "D"}
