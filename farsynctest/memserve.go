package farsynctest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/farsync/farsync/driver"
)

// Clients reach the service through a link, by the functions below.

// showAhead is how many entries the service shows at most without having been asked for all of them.
const showAhead = 100

func (m *Mem) admit(kind OpKind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[kind]++
}

func (m *Mem) delay() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latency
}

// name returns a number that nothing else has.
func (m *Mem) name() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names++
	return m.names
}

func (m *Mem) newID(queue string, k driver.Kind) string {
	return fmt.Sprintf("%s/%s-%d-", queue, k, m.name())
}

// baseOf returns the part of an ID that newID made.
func baseOf(id string) string { return id[:strings.LastIndexByte(id, '-')+1] }

// find returns an entry by its final ID, or by the ID that newID made.
func (m *Mem) find(id string) *node {
	n := m.nodes[baseOf(id)]
	if n == nil || n.entry.ID != id && !strings.HasSuffix(id, "-") {
		return nil
	}
	return n
}

// trace is find, also by the final ID that the entry had before it was of another kind.
func (m *Mem) trace(id string) *node {
	if n := m.nodes[baseOf(id)]; n != nil && n.was == id {
		return n
	}
	return m.find(id)
}

func (m *Mem) add(queue, value string, session int64) string {
	id := m.newID(queue, driver.Foreign)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.append(driver.Entry{Queue: queue, ID: id, Units: 1, Value: []byte(value)}, session).entry.ID
}

// create appends an entry to its queue, unless its ID is there, and returns it with those ahead.
func (m *Mem) create(session int64, e driver.Entry, attempt int) (driver.View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.sessions[session]
	if held == nil {
		return driver.View{}, errNoSession
	}
	n := m.find(e.ID)
	if n == nil {
		n = m.append(e, session)
		held.nodes[n] = struct{}{}
	} else if attempt == 0 && n.first {
		return driver.View{}, errTwice
	}
	n.first = n.first || attempt == 0
	if place(m.queues[e.Queue], n) > showAhead {
		return driver.View{Self: n.entry}, nil
	}
	return m.viewOf(n), nil
}

// append makes an entry. Its final ID ends with its revision.
func (m *Mem) append(e driver.Entry, session int64) *node {
	m.revision++
	base := e.ID
	e.ID = fmt.Sprint(base, m.revision)
	e.Revision, e.Version, e.Value = m.revision, m.revision, slices.Clone(e.Value)
	if e.Since.IsZero() {
		e.Since = time.Now()
	}
	n := &node{entry: e, session: session}
	m.queues[e.Queue] = append(m.queues[e.Queue], n)
	m.nodes[base] = n
	if v := m.vacant[e.Queue]; v != nil {
		delete(m.vacant, e.Queue)
		m.wake(v)
	}
	return n
}

func (m *Mem) viewOf(n *node) driver.View {
	q := m.queues[n.entry.Queue]
	return m.view(n.entry, entriesOf(q[:place(q, n)]))
}

func (m *Mem) view(self driver.Entry, ahead []driver.Entry) driver.View {
	v := driver.View{Self: self, Entries: ahead, All: true}
	if r := m.registers[self.Queue]; r != nil && self.Kind == driver.Permit {
		v.Register = r.Register
	}
	return m.hush(v)
}

// ahead returns e as it is, and what is ahead of it.
func (m *Mem) ahead(e driver.Entry, waiting bool) (driver.View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[e.Queue]
	if e.ID != "" {
		n := m.find(e.ID)
		if n == nil {
			return driver.View{}, driver.ErrGone
		}
		e, q = n.entry, q[:place(q, n)]
	}
	all := !waiting || len(q) <= 1 || e.Kind == driver.Read || e.Kind == driver.Permit
	switch {
	case !all && e.ID == "":
		q = q[:1]
	case !all:
		q = q[len(q)-1:]
	}
	v := m.view(e, entriesOf(q))
	v.All = v.All && all
	return v, nil
}

// list returns the oldest entries of a queue.
func (m *Mem) list(queue string, limit int) driver.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[queue]
	if limit <= 0 || limit > len(q) {
		limit = len(q)
	}
	return driver.View{Entries: named(q[:limit]), All: limit == len(q), Silent: m.silent()}
}

// named is entriesOf for callers who look, with the names of the sessions.
func named(nodes []*node) []driver.Entry {
	list := entriesOf(nodes)
	for i, n := range nodes {
		if n.session != noSession {
			list[i].Session = fmt.Sprint(n.session)
		}
	}
	return list
}

// entry returns e as it is.
func (m *Mem) entry(e driver.Entry) (driver.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.trace(e.ID)
	if n == nil {
		return driver.Entry{}, driver.ErrGone
	}
	return n.entry, nil
}

// replace gives an entry another kind or value, in its place.
func (m *Mem) replace(e driver.Entry, k driver.Kind, value []byte) (driver.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(e.ID)
	switch {
	case n == nil:
		return driver.Entry{}, driver.ErrGone
	case n.entry.Version != e.Version:
		return driver.Entry{}, driver.ErrConflict
	case n.entry.Kind != k && (n.entry.Kind != driver.Write || k != driver.Read):
		return driver.Entry{}, errKind
	}
	m.revision++
	if n.entry.Kind != k {
		// Another kind has another name, as it has on ZooKeeper.
		base := baseOf(n.entry.ID) + k.String() + "-"
		n.was, n.entry.ID = n.entry.ID, fmt.Sprint(base, n.entry.Revision)
		m.nodes[base] = n
	}
	n.entry.Kind, n.entry.Version = k, m.revision
	if value != nil {
		n.entry.Value = slices.Clone(value)
	}
	m.wake(&n.change)
	return n.entry, nil
}

// owned returns the entries of a session in some queues, or in all if that is nil.
func (m *Mem) owned(session int64, queues []string) ([]driver.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[session] == nil {
		return nil, errNoSession
	}
	var list []driver.Entry
	for n := range m.sessions[session].nodes {
		if queues == nil || slices.Contains(queues, n.entry.Queue) {
			list = append(list, n.entry)
		}
	}
	return list, nil
}

func place(queue []*node, n *node) int {
	i, _ := slices.BinarySearchFunc(queue, n, func(a, b *node) int {
		return cmp.Compare(a.entry.Revision, b.entry.Revision)
	})
	return i
}

func entriesOf(nodes []*node) []driver.Entry {
	list := make([]driver.Entry, len(nodes))
	for i, n := range nodes {
		list[i] = n.entry
		list[i].Ahead = i
	}
	return list
}

func (m *Mem) remove(n *node) {
	m.revision++
	queue := m.queues[n.entry.Queue]
	i := place(queue, n)
	if queue = slices.Delete(queue, i, i+1); len(queue) == 0 {
		delete(m.queues, n.entry.Queue)
	} else {
		m.queues[n.entry.Queue] = queue
	}
	delete(m.nodes, baseOf(n.entry.ID))
	if n.was != "" {
		delete(m.nodes, baseOf(n.was))
	}
	if held := m.sessions[n.session]; held != nil {
		delete(held.nodes, n)
	}
	m.wake(&n.end, &n.change, &n.told)
}
