package model

import (
	"cmp"
	"slices"
)

const (
	maxStanding = 7
	maxTurns    = 4
	maxList     = 2 // entries that a turn or a look names
	maxTasks    = 3
	maxPosted   = 4
)

// A stage is what a client of a Handover is at.
type stage uint8

const (
	entering stage = iota // its join is on its way
	asking                // its look is on its way
	shown                 // the answer is that it holds
	awaiting              // waits for its turn
	behind                // watches its predecessor
	held                  // believes that it holds
	handing               // has ended its hold, and waits until its entry is removed
	through               // nothing is left to do
	crashed
)

// A joinAnswer is what the answer to a join says.
type joinAnswer uint8

const (
	isAlone   joinAnswer = iota // there is no other entry
	isSecond                    // there is one other
	isInCrowd                   // there are several
	isUnclear                   // there is a client that knows no turns, or the join was carried out before
)

// A key is an entry of the queue, known by its name and its create revision.
type key struct {
	id    uint8 // 0: none
	made  uint8 // how often the name was created until then: with it, this says its create revision. 0: not known
	epoch uint8 // of the lease that it hangs on
}

// A list is what is known to stand behind an entry, oldest first: a complete beginning of it.
type list [maxList]key

// A turnKey is a turn: the key that is put for an entry, outside of the queue and under the lease of the entry, or the
// event of that.
type turnKey struct {
	of   key
	next list
	seen crowd // who was there when the entry was seen to be the head, and what is behind it then
}

// A crowd is a set of entries, a bit for each name. An entry that is made again under its name is another: it leaves
// the set.
type crowd uint64

// An action is what a task asks for.
type action uint8

const (
	noAction    action = iota
	plainDelete        // delete the entry
	lazyDelete         // delete it if it has no turn, else depart
	handOn             // delete it and its turn, and put a turn for the next, else depart
	passOn             // delete it and its turn, if the next that knows no turns is there, else depart
	slip               // delete it and its turn, and look at nothing, else depart
	depart             // delete it if it is there, and its turn, and look
	findOut            // get the revision of the entry, for what follows
	seek               // look for the head of the queue
	touch              // put a turn for the head of the queue
	seekTurn           // look for the turn of the head
	touchTold          // put it once more
)

// follows reports whether a request is made when an entry was deleted.
func (a action) follows() bool { return a >= seek }

// touches reports whether a request puts a turn for a head that was seen.
func (a action) touches() bool { return a == touch || a == touchTold }

// A task is a request that a client repeats until it is answered, behind the back of its caller or while that waits.
type task struct {
	action   action
	of       key   // the own entry
	head     key   // the entry that is next
	next     list  // what is known to stand behind that
	seen     crowd // who was there when the head was seen; for a delete, when the own entry was known to be the head
	heads    bool  // for a delete: that is known
	outdated bool  // for a touch: the head was given a turn since it was seen
	repeated bool  // it was sent before, so its key is not used again
	doubtful bool  // a late join may create the own entry once more
	awaited  bool  // the caller waits for it
}

// HandoverState is the state of a queue, its service and its clients.
type HandoverState struct {
	queue     [maxStanding]key
	turns     [maxTurns]turnKey
	alive     [maxClients]uint8 // sessions at the service, a bit for each epoch
	ending    [maxClients]uint8 // sessions that the service will end
	created   [maxClients][perClient]uint8
	clients   [maxClients]contender
	posted    [maxPosted]task // requests that were given up, and may arrive at any time. Without an action it is a join
	faults    Faults
	disturbed bool // another program has deleted an entry
}

// A contender is the state of a client.
type contender struct {
	at       stage
	lazy     bool // it holds an entry that was alone when it joined
	far      bool // its entry has joined a long queue
	heads    bool // it is known at a revision that its entry was the head
	again    bool // an attempt of its join may have been carried out, or may be
	begun    bool
	over     bool // its session has ended here
	sees     bool // its watch on turns is on
	unread   bool // and turns were not read since
	watched  bool // it has watched a predecessor after a look, which makes a difference only to WatchDropped
	epoch    uint8
	joined   uint8 // IDs that it has used
	left     uint8 // acquisitions
	suspects uint8 // IDs that may come late, a bit for each
	own      key
	on       key // its predecessor
	next     list
	seen     crowd            // who was there at that revision
	spare    uint8            // an ID that may be used again
	events   [maxList]turnKey // that are on their way
	tasks    [maxTasks]task
}

// waits reports whether a client has an entry that waits, or is about to have one.
func (a *contender) waits() bool { return a.at <= behind }

// settle takes away what makes no difference any more, so that states which differ in nothing else are one.
func (h *Handover) settle(s *HandoverState) {
	for c := range h.Clients {
		a := &s.clients[c]
		hears := a.at == entering || a.at == awaiting || a.left > 1 // the next entry may have the same key
		kept := [maxList]turnKey{}
		n := 0
		for _, e := range a.events {
			if e.of.id != 0 && (hears && e.of.id == a.own.id || h.has(TurnByStore)) {
				kept[n] = e
				n++
			}
		}
		a.events = kept
		if a.at == through && a.suspects == 0 && a.tasks[0].action == noAction && s.ending[c] == 0 {
			*a, s.alive[c] = contender{at: through, begun: true}, 0
		}
		for n := range s.created[c] {
			if id := idOf(c, uint8(n)); s.never(id) && a.spare != id && !s.named(id) {
				s.created[c][n] = 0
			}
		}
	}
	there := s.crowd()
	for c := range h.Clients {
		a := &s.clients[c]
		a.seen &= there
		if !a.heads || a.at == through {
			a.seen = 0
		}
		for i := range a.tasks {
			a.tasks[i].seen &= there
		}
		for i := range a.events {
			a.events[i].seen &= there
		}
	}
	for i := range s.turns {
		s.turns[i].seen &= there
	}
	for i := range s.posted {
		s.posted[i].seen &= there
	}
	for i, t := range s.posted {
		if h.spent(s, t) {
			s.posted[i] = task{}
		}
	}
	slices.SortFunc(s.turns[:], func(a, b turnKey) int { return cmp.Compare(b.of.id, a.of.id) })
	slices.SortFunc(s.posted[:], func(a, b task) int { return b.compare(a) })
}

// named reports whether a request that is on its way, or will be sent again, names an entry.
func (s *HandoverState) named(id uint8) bool {
	names := func(t task) bool {
		return t.action != noAction && (t.of.id == id || t.head.id == id ||
			slices.ContainsFunc(t.next[:], func(k key) bool { return k.id == id }))
	}
	lists := func(l list) bool { return slices.ContainsFunc(l[:], func(k key) bool { return k.id == id }) }
	if slices.ContainsFunc(s.posted[:], names) ||
		slices.ContainsFunc(s.turns[:], func(t turnKey) bool { return t.of.id == id || lists(t.next) }) {
		return true
	}
	for c := range s.clients {
		a := &s.clients[c]
		if a.on.id == id || lists(a.next) || slices.ContainsFunc(a.tasks[:], names) ||
			slices.ContainsFunc(a.events[:], func(t turnKey) bool { return t.of.id == id || lists(t.next) }) {
			return true
		}
	}
	return false
}

// spent reports whether a request that may arrive late will change nothing whenever it does: what it names has gone,
// and will not come back under that revision.
func (h *Handover) spent(s *HandoverState, t task) bool {
	switch t.action {
	case noAction:
		return false
	case touch:
		return (!s.own(t.head) || t.outdated && !h.has(OlderPut)) && !h.has(NextNotCompared)
	case touchTold:
		return !s.told(t) && !h.has(TurnKeptFound)
	default:
		return s.free(t.of) && s.never(t.of.id) && s.clients[ownerOf(t.of.id)].spare != t.of.id
	}
}

// never reports whether an entry is not in the queue, and will not be.
func (s *HandoverState) never(id uint8) bool {
	if a := s.clients[ownerOf(id)]; a.own.id == id && a.at == entering || s.own(key{id: id}) {
		return false
	}
	return !slices.ContainsFunc(s.posted[:], func(t task) bool { return t.action == noAction && t.of.id == id })
}

func (t task) compare(other task) int {
	return cmp.Or(cmp.Compare(t.action, other.action), t.of.compare(other.of), t.head.compare(other.head),
		slices.CompareFunc(t.next[:], other.next[:], key.compare), cmp.Compare(t.seen, other.seen))
}

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.id, other.id), cmp.Compare(k.made, other.made))
}
