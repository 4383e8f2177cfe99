package storetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync/recipe"
)

var errNoSession = errors.New("the service knows no such session")

// Mem is a coordination service in memory. Open makes clients of it; every other method is the hand of whoever runs
// the service: it acts at once, is not counted, and is not subject to faults.
//
// It keeps time by package time and waits for nothing itself, so it can live in a bubble of testing/synctest, if it
// is opened in there. All methods may be called by any goroutine.
type Mem struct {
	mu       sync.Mutex // covers lines, never a wait
	revision int64      // of the last change, over all queues
	names    int64      // given to entries and sessions so far
	queues   map[string][]*node
	nodes    map[string]*node
	sizes    map[string]*size
	vacant   map[string]*node    // those that stand for the emptiness of a queue, where somebody waits for its end
	asked    map[string]struct{} // entries that were asked for
	sessions map[int64]*served
	watches  map[*watch]struct{}
	counts   map[OpKind]int
	fault    func(Op) Fault
	latency  time.Duration
}

// A node is an entry as the service keeps it.
type node struct {
	entry   recipe.Entry
	session int64 // noSession or otherSession for those that no client of ours made
	watches map[*watch]struct{}
}

const (
	noSession    = 0
	otherSession = -1
)

// A watch is on one node or several, and fires once.
type watch struct {
	nodes []*node
	fired chan struct{}
}

// served is a session as the service keeps it: until is when it ends, unless it is renewed.
type served struct {
	ttl   time.Duration
	until time.Time
	timer *time.Timer
	nodes map[*node]struct{}
}

// NewMem returns a service without clients and entries.
func NewMem() *Mem {
	return &Mem{
		queues:   map[string][]*node{},
		nodes:    map[string]*node{},
		sizes:    map[string]*size{},
		vacant:   map[string]*node{},
		asked:    map[string]struct{}{},
		sessions: map[int64]*served{},
		watches:  map[*watch]struct{}{},
		counts:   map[OpKind]int{},
	}
}

// SetFault has f decide what becomes of each request from now on; nil loses none. f is called before the request is
// carried out, by the goroutine that sent it and with no lock held: it may call the methods of Mem. It must not wait.
func (m *Mem) SetFault(f func(Op) Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// SetLatency makes every request, every answer and every event take d. It is zero at first.
func (m *Mem) SetLatency(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latency = d
}

// Expire ends the present session of s at the service, with all its entries. The client learns of it when it next
// needs the session: at a Join, or when it renews it.
func (m *Mem) Expire(s *MemStore) {
	if held := s.current(); held != nil {
		m.endSession(held.id)
	}
}

// Partition cuts s off from the service, or heals the cut. While it is cut off, no request of s arrives, no answer and
// no event: calls wait until their ctx ends, or go on where they were once the cut is healed.
func (m *Mem) Partition(s *MemStore, cut bool) { s.link.partition(cut) }

// Delete removes an entry, as somebody with the right to do so may do at any time. It reports whether it was there.
func (m *Mem) Delete(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[id]
	if n == nil {
		return false
	}
	m.remove(n)
	return true
}

// Touch wakes those who watch an entry without any change to it, as a write of data to it would. It reports whether
// the entry was there.
func (m *Mem) Touch(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[id]
	if n == nil {
		return false
	}
	m.revision++
	m.wake(n)
	return true
}

// AddForeign appends an entry of kind Foreign, made in a session of somebody else's client, and returns its ID. It
// stays until it is Deleted.
func (m *Mem) AddForeign(queue, value string) string { return m.add(queue, value, otherSession) }

// AddStray is AddForeign for an entry that no session will ever end. MemStore.Wait refuses to wait for it.
func (m *Mem) AddStray(queue, value string) string { return m.add(queue, value, noSession) }

// Entries returns the entries of a queue, oldest first.
func (m *Mem) Entries(queue string) []recipe.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return entriesOf(m.queues[queue])
}

// Count returns how many requests of the given kinds have arrived, lost ones included; of all kinds if none is given.
func (m *Mem) Count(kinds ...OpKind) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := 0
	for kind, n := range m.counts {
		if len(kinds) == 0 || slices.Contains(kinds, kind) {
			total += n
		}
	}
	return total
}

// ResetCount sets what Count counts to zero.
func (m *Mem) ResetCount() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.counts)
}

// Left returns how many entries, sessions and watches the service keeps.
func (m *Mem) Left() (entries, sessions, watches int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.nodes), len(m.sessions), len(m.watches)
}
