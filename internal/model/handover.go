package model

import (
	"errors"
	"fmt"

	"github.com/farsync/farsync/driver"
)

// A Handover is a play for the model of a queue in which a release names the next holder: it puts a key, the turn, for
// an entry that is next, and the event of that key is the grant. The service is etcd: create revisions, leases,
// transactions and watches.
//
// It is what package etcd does with mutexes. docs/reports/MODEL.md has its rules.
type Handover struct {
	Rules Rules
	// Clients of Kind Foreign know nothing of turns: other programs, and earlier versions. The others are Exclusive.
	Clients []Client
	// Timers is true if a waiter that awaits a turn looks at the queue by itself, at any time. If it is false none ever
	// does.
	Timers bool
	// Long is true if a queue of two is a long one: what leaves it, and has joined behind them, looks at none of it. A
	// waiter finds the head by its turn.
	Long   bool
	Faults Faults
	// Mistakes are conditions of the protocol that are left out, to show that each is needed.
	Mistakes HandoverMistake

	entries []driver.Entry // scratch
}

// A HandoverMistake is a condition that is left out.
type HandoverMistake uint32

// The conditions that may be left out.
const (
	TouchesBehind   HandoverMistake = 1 << iota // a touch names the first behind the own entry, not the head
	LookInKeyOrder                              // a look shows the first in the order of keys
	NextNotCompared                             // a turn is put without a look whether its entry is there
	TurnByStore                                 // a turn is for whatever its Store waits with
	LeavesPlainly                               // a waiter that leaves deletes its entry, and looks at nothing
	NoReadOfTurns                               // turns are not read when the watch on them is on
	LazyNotFree                                 // a release of an entry that was alone does not ask for its turn
	LazyNotOwn                                  // nor whether the entry is there
	FailedTouchEnds                             // a touch that fails is the end
	GoneEnds                                    // a delete that finds nothing is the end
	WatchDropped                                // a waiter that was woken and still waits watches nothing
	PlainNotSeen                                // a waiter that joins behind a client that knows no turns awaits one
	OneNotWatched                               // a waiter that joins behind one entry awaits a turn
	LateRemoved                                 // what a late join has made is deleted, and nothing is looked at
	TurnKept                                    // a release keeps the turn of its own entry
	PlainTouched                                // a client that knows no turns is given one
	WatcherNotLooks                             // a waiter that leaves looks at nothing if it has no turn
	DeleteUnnamed                               // a delete after a join without an answer names no revision
	TurnAfterEnd                                // a turn is taken when the session has ended
	LazyTakesTurn                               // a release of an entry that was alone deletes its turn with it, and does not ask
	OwnNotCompared                              // a release that names the next does not ask whether its own entry is there
	NoLists                                     // no turn says what stands behind, so every release looks
	LateNotAsked                                // a release believes that the next watches it, whenever that joined
	TouchedNotAsked                             // nor does it ask whether its entry was given a turn since
	GoneBelieved                                // a delete that finds nothing believes it, too
	OlderPut                                    // a touch puts what was seen before the turn that is there
	TurnNotDated                                // a head that is found by its turn is told what that turn has seen
	TurnKeptFound                               // a turn is put for the head that was found by it, whether or not it has gone
)

// Start returns a state in which no client has begun.
func (h *Handover) Start() HandoverState {
	s := HandoverState{faults: h.Faults}
	for c := range s.clients {
		s.clients[c].at = through
		if c < len(h.Clients) {
			s.clients[c] = contender{left: h.Clients[c].Times, own: key{id: idOf(c, 0)}, joined: 1}
			s.alive[c] = 1
		}
	}
	return s
}

func (h *Handover) has(m HandoverMistake) bool { return h.Mistakes&m != 0 }

// plain reports whether an entry is of a client that knows no turns.
func (h *Handover) plain(k key) bool { return h.Clients[ownerOf(k.id)].Kind == driver.Foreign }

// Check requires that no two hold. When another program has deleted an entry, its client may hold for a moment beside
// the next.
func (h *Handover) Check(s HandoverState) error {
	holders := 0
	for c := range h.Clients {
		if a := &s.clients[c]; a.at == held && !a.over {
			holders++
		}
	}
	if holders > 1 && !s.disturbed {
		return errTwo
	}
	return nil
}

// granted returns what is wrong with a grant, by the queue as it is. If it is right, so is the order of tokens: of two
// entries, the entry with the lower revision was ahead as long as it lived.
func (s *HandoverState) granted(c int) error {
	switch i := s.index(s.clients[c].own); {
	case i < 0:
		return errors.New("a grant of an entry that is not in the queue")
	case i > 0:
		return errors.New("a grant past an entry that excludes it")
	}
	return nil
}

// Rest requires that every client that waits has to, that every entry belongs to a client that waits or holds, and that
// every turn is for an entry.
func (h *Handover) Rest(s HandoverState) error {
	for c := range h.Clients {
		switch s.clients[c].at {
		case through, crashed, held:
		case awaiting, behind:
			if s.granted(c) == nil {
				return fmt.Errorf("%s waits although nothing is in its way, and nothing will wake it", names[c])
			}
		default:
			return fmt.Errorf("%s waits for an answer that does not come", names[c])
		}
	}
	for _, k := range s.queue[:s.length()] {
		c := ownerOf(k.id)
		if a := &s.clients[c]; a.at != awaiting && a.at != behind && a.at != held || a.own.id != k.id {
			return fmt.Errorf("an entry of %s is left that nothing will remove", names[c])
		}
	}
	for _, t := range s.turns {
		if t.of.id != 0 && s.index(key{id: t.of.id}) < 0 {
			return fmt.Errorf("a turn of %s is left that nothing will remove", names[ownerOf(t.of.id)])
		}
	}
	return nil
}
