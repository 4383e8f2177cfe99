package model

import (
	"errors"
	"fmt"

	"github.com/farsync/farsync/driver"
)

// A Units is a play for the model of a semaphore's queue in which whatever leaves tells those that it lets in: it puts a key, the turn, for each. The
// event of that key makes its entry look, and the look decides. The service is etcd, as in a Handover.
//
// It is what package etcd does with permits. docs/MODEL.md has its rules.
type Units struct {
	Rules Rules
	// Clients are all permits. Those that are Plain watch, and delete their entries without more.
	Clients []Client
	// Sizes are those that the semaphore has, one after another. Each but the first is set at any time.
	Sizes []int64
	// Timers is true if a waiter that awaits its turn looks by itself, at any time, and watches from then on.
	Timers   bool
	Faults   Faults
	Mistakes UnitsMistake
}

// A UnitsMistake is a condition that is left out.
type UnitsMistake uint32

// What may be left out.
const (
	LookApart         UnitsMistake = 1 << iota // a removal and the look that goes with it are two requests
	LastTold                                   // of those that are let in only the last is told
	WaiterLeaves                               // a waiter that gives up tells none
	LostIsTheEnd                               // a removal that finds nothing is the end
	LateOneRemoved                             // what a late join has made is removed, and none is told
	SizeNotHeard                               // one that awaits its turn does not hear of the size
	AwaitsBehindPlain                          // a permit behind one that knows no turns awaits its turn
	AllOrNone                                  // turns are put together, if all their entries are there
	PutForNone                                 // a turn is put whether its entry is there or not
	CloseTellsNone                             // a Store that is closed tells none
)

// Start returns a state in which no client has begun.
func (u *Units) Start() UnitsState {
	s := UnitsState{faults: u.Faults}
	for c := range s.clients {
		s.clients[c].at = through
		if c < len(u.Clients) {
			s.clients[c] = sharer{left: u.Clients[c].Times, own: idOf(c, 0), joined: 1}
		}
	}
	return s
}

func (u *Units) has(m UnitsMistake) bool { return u.Mistakes&m != 0 }

// entry is what the rules see of an entry.
func (u *Units) entry(id uint8) driver.Entry {
	return driver.Entry{ID: string(rune(id)), Kind: driver.Permit, Units: u.Clients[ownerOf(id)].Units}
}

// blockers returns the entries that keep one waiting, of those ahead, as the rules have it. None means that it fits.
func (u *Units) blockers(id uint8, ahead []unit, size uint8) (all crowd) {
	list := make([]driver.Entry, 0, maxStanding)
	for _, other := range ahead {
		list = append(list, u.entry(other.id))
	}
	for _, e := range u.Rules.Blockers(u.entry(id), list, u.Sizes[size]) {
		all |= bit(uint8([]rune(e.ID)[0]))
	}
	return all
}

// fits returns which entries of a queue fit.
func (u *Units) fits(queue []unit, size uint8) (all crowd) {
	for i, e := range queue {
		if u.blockers(e.id, queue[:i], size) != 0 {
			break
		}
		all |= bit(e.id)
	}
	return all
}

func bit(id uint8) crowd { return 1 << id }

// Check requires that no more units are held than there ever were.
func (u *Units) Check(s UnitsState) error {
	held, most := int64(0), int64(0)
	for c, client := range u.Clients {
		if s.clients[c].at == heldUnits {
			held += client.Units
		}
	}
	for _, size := range u.Sizes[:s.size+1] {
		most = max(most, size)
	}
	if held > most {
		return errors.New("more units are held than there are")
	}
	return nil
}

// Rest requires that every client that waits has to, that every entry is that of a client which waits or holds, and that every turn is
// for an entry.
func (u *Units) Rest(s UnitsState) error {
	queue := s.queue[:s.length()]
	there := crowd(0)
	for i, e := range queue {
		c := ownerOf(e.id)
		a := &s.clients[c]
		switch {
		case a.own != e.id || a.at != awaitsTurn && a.at != watches && a.at != heldUnits:
			return fmt.Errorf("an entry of %s is left that nothing will remove", names[c])
		case a.at != heldUnits && u.blockers(e.id, queue[:i], s.size) == 0:
			return fmt.Errorf("%s waits although nothing is in its way, and nothing will wake it", names[c])
		}
		there |= bit(e.id)
	}
	for c := range u.Clients {
		switch a := &s.clients[c]; a.at {
		case through, crashed:
		case awaitsTurn, watches, heldUnits:
			if there&bit(a.own) == 0 {
				return fmt.Errorf("%s has lost its entry", names[c])
			}
		default:
			return fmt.Errorf("%s waits for an answer that does not come", names[c])
		}
	}
	if s.turns&^there != 0 {
		return errors.New("a turn is left that nothing will remove")
	}
	return nil
}

// Stages of a client of a Units, beside entering, asking, shown, handing, through and crashed.
const (
	awaitsTurn = iota + crashed + 1 // for its turn, and for the size
	watches                         // some entries, and the size
	heldUnits
)

// A unit is an entry of the queue, known by its name and by how often the name was created until then.
type unit struct{ id, made uint8 }

// A chore is a request that a client repeats until it is answered, behind the back of its caller or while that waits.
type chore struct {
	action   choreAction
	of       unit
	tell     crowd // for a touch
	repeated bool
	late     bool // the entry is one that a late join has made
	doubtful bool // a late join may create the entry once more
	awaited  bool // the caller waits for it
}

type choreAction uint8

const (
	noChore    choreAction = iota
	leaves                 // remove the entry, and show what is left
	leavesOnly             // remove the entry, and show nothing
	looksBack              // show what is left, after that
	finds                  // get the revision of the entry, for what follows
	tells                  // put turns
	tellsAny               // show what fits, and put turns
)

// UnitsState is the state of a queue, its service and its clients.
type UnitsState struct {
	queue   [maxStanding]unit
	turns   crowd // of which entries there is a turn
	size    uint8 // which of the sizes it has
	ended   crowd // clients whose sessions the service has ended, a bit each
	ending  crowd // and those whose it will
	created [maxClients][perClient]uint8
	clients [maxClients]sharer
	posted  [maxPosted]chore // requests that were given up, and may arrive at any time. Without an action it is a join
	faults  Faults
}

// A sharer is the state of a client.
type sharer struct {
	at       stage
	begun    bool
	again    bool // an attempt of its join may have been carried out, or may be
	own      uint8
	made     uint8 // which creation of that name its entry is; 0 if that is not known
	seen     uint8 // the size by which it waits
	joined   uint8 // names that it has used
	left     uint8 // acquisitions
	suspects uint8 // names that may come late, a bit for each
	on       crowd // what it watches
	chores   [maxTasks]chore
}

func (s *UnitsState) length() int {
	for i, e := range s.queue {
		if e.id == 0 {
			return i
		}
	}
	return len(s.queue)
}

func (s *UnitsState) index(id uint8) int {
	for i, e := range s.queue[:s.length()] {
		if e.id == id {
			return i
		}
	}
	return -1
}

// add creates an entry at the tail.
func (s *UnitsState) add(id uint8) unit {
	n := s.length()
	if n == len(s.queue) {
		panic("model: too many entries")
	}
	made := &s.created[ownerOf(id)][(id-1)%perClient]
	*made++
	s.queue[n] = unit{id, *made}
	return s.queue[n]
}

// remove removes the entry at i.
func (s *UnitsState) remove(i int) {
	copy(s.queue[i:], s.queue[i+1:])
	s.queue[len(s.queue)-1] = unit{}
}

func (s *UnitsState) post(t chore) {
	t.doubtful, t.awaited, t.late = false, false, false
	for i := range s.posted {
		if s.posted[i].of.id == 0 && s.posted[i].tell == 0 && s.posted[i].action == noChore {
			s.posted[i] = t
			return
		}
	}
	panic("model: too many requests on their way")
}

func (a *sharer) give(t chore) {
	for i := range a.chores {
		if a.chores[i].action == noChore {
			a.chores[i] = t
			return
		}
	}
	panic("model: too many chores")
}

// settle takes away what makes no difference any more.
func (u *Units) settle(s *UnitsState) {
	for c := range u.Clients {
		a := &s.clients[c]
		if a.at != watches {
			a.on = 0
		}
		if (a.at == through || a.at == crashed) && a.suspects == 0 && a.chores[0].action == noChore {
			*a = sharer{at: a.at, begun: true}
		}
		for n := range s.created[c] {
			if id := idOf(c, uint8(n)); !s.named(id) {
				s.created[c][n] = 0
			}
		}
	}
	for i, t := range s.posted {
		if t.of.id != 0 && s.ended&bit(uint8(ownerOf(t.of.id))) != 0 && t.action == noChore {
			s.posted[i] = chore{}
		}
	}
}

// named reports whether anything knows a name.
func (s *UnitsState) named(id uint8) bool {
	c := ownerOf(id)
	a := &s.clients[c]
	if s.index(id) >= 0 || a.own == id || a.suspects&(1<<((id-1)%perClient)) != 0 || s.turns&bit(id) != 0 {
		return true
	}
	for _, t := range a.chores {
		if t.of.id == id {
			return true
		}
	}
	for _, t := range s.posted {
		if t.of.id == id || t.tell&bit(id) != 0 {
			return true
		}
	}
	for i := range s.clients {
		for _, t := range s.clients[i].chores {
			if t.tell&bit(id) != 0 {
				return true
			}
		}
	}
	return false
}
