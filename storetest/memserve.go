package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/farsync/farsync/recipe"
)

// What follows is the service as its clients reach it, through a link.

// admit counts a request and decides what becomes of it.
func (m *Mem) admit(op Op) Fault {
	m.mu.Lock()
	m.counts[op.Kind]++
	fault := m.fault
	m.mu.Unlock()
	if fault == nil {
		return None
	}
	return fault(op)
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

func (m *Mem) add(queue, value string, session int64) string {
	id := entryID(queue, recipe.Foreign, m.name())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.append(recipe.Entry{Queue: queue, ID: id, Kind: recipe.Foreign, Units: 1, Value: []byte(value)}, session)
	return id
}

func entryID(queue string, k recipe.Kind, name int64) string {
	return fmt.Sprintf("%s/%s-%d", queue, k, name)
}

// create appends an entry to its queue, and returns it with those that block it.
func (m *Mem) create(session int64, e recipe.Entry, r recipe.Request) (recipe.Entry, []recipe.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.sessions[session]
	if held == nil {
		return recipe.Entry{}, nil, errNoSession
	}
	if err := m.declare(r); err != nil {
		return recipe.Entry{}, nil, err
	}
	n := m.append(e, session)
	held.nodes[n] = struct{}{}
	blockers, err := m.blockers(n, r.Rule)
	if err != nil {
		m.remove(n)
	}
	return n.entry, blockers, err
}

func (m *Mem) append(e recipe.Entry, session int64) *node {
	m.revision++
	e.Revision, e.Version, e.Since = m.revision, m.revision, time.Now()
	n := &node{entry: e, session: session, watches: map[*watch]struct{}{}}
	m.queues[e.Queue] = append(m.queues[e.Queue], n)
	m.nodes[e.ID] = n
	if v := m.vacant[e.Queue]; v != nil {
		delete(m.vacant, e.Queue)
		m.wake(v)
	}
	return n
}

// look returns an entry with those that block it, if it exists.
func (m *Mem) look(id string, r recipe.Rule) (e recipe.Entry, blockers []recipe.Entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[id]
	if n == nil {
		return recipe.Entry{}, nil, recipe.ErrGone
	}
	blockers, err = m.blockers(n, r)
	return n.entry, blockers, err
}

// peek returns what would block an entry of the request.
func (m *Mem) peek(r recipe.Request) ([]recipe.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := recipe.Entry{Queue: r.Queue, Kind: r.Kind, Units: r.Units}
	ahead := m.queues[r.Queue]
	if r.Kind == recipe.Permit {
		size := m.sizes[r.Queue]
		switch {
		case len(ahead) == 0 || size == nil:
			return nil, nil // Join sees to the size
		case size.declared != r.Size:
			return nil, recipe.SizeError(size.declared, r.Size)
		}
		return recipe.Sized(e, entriesOf(ahead), size.entry)
	}
	if r.Rule.Nearest() {
		ahead = ahead[max(0, len(ahead)-1):]
	}
	return r.Rule.Blockers(e, entriesOf(ahead)), nil
}

func (m *Mem) blockers(n *node, r recipe.Rule) ([]recipe.Entry, error) {
	ahead := m.queues[n.entry.Queue]
	ahead = ahead[:place(ahead, n)]
	if n.entry.Kind == recipe.Permit {
		return recipe.Sized(n.entry, entriesOf(ahead), m.sizes[n.entry.Queue].entry)
	}
	if r.Nearest() {
		ahead = ahead[max(0, len(ahead)-1):]
	}
	return r.Blockers(n.entry, entriesOf(ahead)), nil
}

func place(queue []*node, n *node) int {
	i, _ := slices.BinarySearchFunc(queue, n, func(a, b *node) int {
		return cmp.Compare(a.entry.Revision, b.entry.Revision)
	})
	return i
}

func entriesOf(nodes []*node) []recipe.Entry {
	list := make([]recipe.Entry, len(nodes))
	for i, n := range nodes {
		list[i] = n.entry
		list[i].Value = slices.Clone(n.entry.Value)
	}
	return list
}

// watch returns a watch on all of the entries, one that has fired if any of them is gone or has changed. One that no
// session ends is refused.
func (m *Mem) watch(entries []recipe.Entry) (*watch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &watch{fired: make(chan struct{})}
	for _, e := range entries {
		n := m.nodes[e.ID]
		switch e.Kind {
		case recipe.Size:
			if size := m.sizes[e.Queue]; size != nil {
				n = &size.node
			}
		case recipe.Vacant:
			n = m.vacancy(e)
		}
		switch {
		case n == nil || n.entry.Kind != e.Kind || n.entry.Revision != e.Revision ||
			e.Version != 0 && n.entry.Version != e.Version:
			close(w.fired)
			return w, nil
		case n.session == noSession:
			return nil, fmt.Errorf("entry %q belongs to no session: it has to be removed by hand", e.ID)
		}
		w.nodes = append(w.nodes, n)
	}
	m.set(w)
	return w, nil
}

func (m *Mem) set(w *watch) {
	m.watches[w] = struct{}{}
	for _, n := range w.nodes {
		n.watches[w] = struct{}{}
	}
}

// vacancy returns what stands for the emptiness of e's queue, or nil if it is not empty.
func (m *Mem) vacancy(e recipe.Entry) *node {
	if len(m.queues[e.Queue]) > 0 {
		return nil
	}
	if m.vacant[e.Queue] == nil {
		m.vacant[e.Queue] = &node{entry: e, session: otherSession, watches: map[*watch]struct{}{}}
	}
	return m.vacant[e.Queue]
}

// unwatch drops a watch, fired or not.
func (m *Mem) unwatch(w *watch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(w)
}

func (m *Mem) drop(w *watch) {
	delete(m.watches, w)
	for _, n := range w.nodes {
		delete(n.watches, w)
	}
}

func (m *Mem) wake(n *node) {
	for w := range n.watches {
		m.drop(w)
		close(w.fired)
	}
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
	delete(m.nodes, n.entry.ID)
	delete(m.asked, n.entry.ID)
	if held := m.sessions[n.session]; held != nil {
		delete(held.nodes, n)
	}
	m.wake(n)
}

// openSession starts a session that ends by itself a ttl after its last renewal.
func (m *Mem) openSession(id int64, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[id] = &served{
		ttl:   ttl,
		until: time.Now().Add(ttl),
		timer: time.AfterFunc(ttl, func() { m.expire(id) }),
		nodes: map[*node]struct{}{},
	}
}

func (m *Mem) renewSession(id int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.sessions[id]
	if held == nil {
		return errNoSession
	}
	held.until = time.Now().Add(held.ttl)
	held.timer.Reset(held.ttl)
	return nil
}

// expire runs on a session's timer. A renewal may have come between the timer and us: it has been acknowledged, and
// has set the timer again.
func (m *Mem) expire(id int64) {
	m.mu.Lock()
	held := m.sessions[id]
	over := held != nil && !time.Now().Before(held.until)
	m.mu.Unlock()
	if over {
		m.endSession(id)
	}
}

func (m *Mem) endSession(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.sessions[id]
	if held == nil {
		return
	}
	held.timer.Stop()
	for n := range held.nodes {
		m.remove(n)
	}
	delete(m.sessions, id)
}
