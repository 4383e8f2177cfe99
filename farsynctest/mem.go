package farsynctest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
)

// Mem is a coordination service in memory. Service returns drivers for it, and Open Stores over such drivers. Every other
// method is the hand of an operator of the service: it acts at once, is not counted, and is not subject to faults.
//
// It keeps time by package time and waits for nothing itself, so it can live in a bubble of testing/synctest, if it
// is opened in there. All methods may be called by any goroutine.
type Mem struct {
	mu        sync.Mutex // covers lines, never a wait
	revision  int64      // of the last change, over all queues
	names     int64      // given to entries and sessions so far
	queues    map[string][]*node
	nodes     map[string]*node // by the part of the ID that NewID made
	registers map[string]*register
	vacant    map[string]*topic // the emptiness of a queue, where a watch waits for its end
	sessions  map[int64]*served
	said      map[*node]int64 // the sessions that have left words, with entries that may be gone
	watches   map[*watch]struct{}
	links     map[string]*link // by the name of the client
	clients   map[*farsync.Store]string
	counts    map[OpKind]int
	fault     func(Op) Fault
	latency   time.Duration
	frozen    bool
	unread    []*parcel // in its sockets, oldest first. Invariant: empty unless it is frozen
	history   int64     // how often it has gone back
	quiet     time.Time // until then nothing is granted
	sound     topic     // the end of that
}

// A topic is what a watch can be on.
type topic struct{ watches map[*watch]struct{} }

// A node is an entry as the service keeps it.
type node struct {
	entry   driver.Entry
	session int64  // noSession or otherSession for an entry that no client of ours made
	was     string // its ID before it was of another kind
	first   bool   // the first attempt to create it was carried out
	words   string
	end     topic
	change  topic
	told    topic
}

const (
	noSession    = 0
	otherSession = -1
)

// A register lies beside a queue.
type register struct {
	driver.Register
	written topic
}

// A watch is on one topic or several, and fires once.
type watch struct {
	on    []*topic
	fired chan struct{}
}

// served is a session as the service keeps it: until is when it ends, unless it is renewed.
type served struct {
	client string
	ttl    time.Duration
	until  time.Time
	timer  *time.Timer
	nodes  map[*node]struct{}
	lose   context.CancelFunc // has the client hear of Lose
}

// NewMem returns a service without clients and entries.
func NewMem() *Mem {
	return &Mem{
		queues:    map[string][]*node{},
		nodes:     map[string]*node{},
		registers: map[string]*register{},
		vacant:    map[string]*topic{},
		sessions:  map[int64]*served{},
		said:      map[*node]int64{},
		watches:   map[*watch]struct{}{},
		links:     map[string]*link{},
		clients:   map[*farsync.Store]string{},
		counts:    map[OpKind]int{},
	}
}

// Service returns a driver for a client of the given name, whose requests SetFault decides on.
func (m *Mem) Service(name string) driver.Service { return m.service(name, false) }

// service is Service, for a client that hears of Lose or for another.
func (m *Mem) service(name string, hears bool) driver.Service {
	return Inject(&memService{mem: m, link: m.link(name), hears: hears}, InjectorFunc(func(_ context.Context, op Op) Fault {
		m.mu.Lock()
		fault := m.fault
		m.mu.Unlock()
		if fault == nil {
			return None
		}
		op.Client = name
		return fault(op)
	}))
}

// SetFault has f decide what becomes of each request of every client from now on; nil lets all of them pass. f is called
// by the goroutine that makes the request, with no lock held: it may call the methods of Mem. It must not wait.
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

// ExpireClient ends the sessions of the client with that name at the service, with all their entries. The client learns
// of it at its next request that needs the session: Create, Renew or Owned.
func (m *Mem) ExpireClient(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, held := range m.sessions {
		if held.client == name {
			m.endSession(id)
		}
	}
}

// PartitionClient cuts the client with that name off from the service, or heals the cut. While it is cut off, none of its
// requests arrives, no answer and no event: they wait until their ctx ends, or go on where they were once the cut is
// healed.
func (m *Mem) PartitionClient(name string, cut bool) { m.link(name).partition(cut) }

// Delete removes an entry, as an administrator may do at any time. It reports whether the entry was there.
func (m *Mem) Delete(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.trace(id)
	if n == nil {
		return false
	}
	m.remove(n)
	return true
}

// Touch wakes the watches on an entry without any change to it. It reports whether the entry was there.
func (m *Mem) Touch(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(id)
	if n == nil {
		return false
	}
	m.revision++
	m.wake(&n.end, &n.change, &n.told)
	return true
}

// AddForeign appends an entry of kind Foreign, made in a session of another program, and returns its ID. It stays until
// it is Deleted.
func (m *Mem) AddForeign(queue, value string) string { return m.add(queue, value, otherSession) }

// AddStray is AddForeign for an entry that no session will ever end. A Watch on it is refused.
func (m *Mem) AddStray(queue, value string) string { return m.add(queue, value, noSession) }

// Entries returns the entries of a queue, oldest first, with the names of their sessions.
func (m *Mem) Entries(queue string) []driver.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return named(m.queues[queue])
}

// Count returns how many requests of the given kinds have arrived; of all kinds if none is given.
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
	return m.entries(), len(m.sessions), len(m.watches)
}

var (
	errNoSession = errors.New("the service knows no such session")
	errEnded     = errors.New("the session was closed or dropped")
	errShut      = errors.New("the client is closed")
	errTwice     = errors.New("two first attempts to create one entry")
	errKind      = errors.New("only a write entry can be replaced by one of another kind, a read entry")
)

// entries counts them. A node may be there under two IDs.
func (m *Mem) entries() (n int) {
	for _, q := range m.queues {
		n += len(q)
	}
	return n
}
