package storetest

import (
	"slices"

	"github.com/farsync/farsync/recipe"
)

// A size is that of a queue of permits. Its node's entry stands for it among what a permit waits for: the Units are the
// current size, the Revision is that of the last change.
type size struct {
	node
	declared int64
}

// declare makes sure that the queue has the size that the request declares.
func (m *Mem) declare(r recipe.Request) error {
	if r.Kind != recipe.Permit {
		return nil
	}
	if s := m.sizes[r.Queue]; s == nil || s.declared != r.Size && len(m.queues[r.Queue]) == 0 {
		m.setSize(r.Queue, r.Size, r.Size)
	} else if s.declared != r.Size {
		return recipe.SizeError(s.declared, r.Size)
	}
	return nil
}

// sizesOf returns the declared and the current size of a queue.
func (m *Mem) sizesOf(queue string) (declared, current int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sizes[queue]; s != nil {
		return s.declared, s.entry.Units
	}
	return 0, 0
}

// resize sets the current size, and wakes those who wait for it.
func (m *Mem) resize(queue string, declared, current int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.declare(recipe.Request{Queue: queue, Kind: recipe.Permit, Size: declared}); err != nil {
		return err
	}
	m.setSize(queue, declared, current)
	return nil
}

func (m *Mem) setSize(queue string, declared, current int64) {
	s := m.sizes[queue]
	if s == nil {
		s = &size{node: node{session: otherSession, watches: map[*watch]struct{}{}}}
		m.sizes[queue] = s
	}
	m.revision++
	s.declared = declared
	s.entry = recipe.Entry{
		Queue: queue, ID: queue + "#size", Kind: recipe.Size, Units: current, Revision: m.revision,
	}
	m.wake(&s.node)
}

// change gives an entry another kind or value, in its place.
func (m *Mem) change(id string, k recipe.Kind, value []byte) (recipe.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[id]
	if n == nil {
		return recipe.Entry{}, recipe.ErrGone
	}
	m.revision++
	n.entry.Kind, n.entry.Version = k, m.revision
	if value != nil {
		n.entry.Value = slices.Clone(value)
	}
	m.wake(n)
	return n.entry, nil
}

// ask takes note that an entry was asked for, and wakes those who watch it. It reports whether the entry was there.
func (m *Mem) ask(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[id]
	if n == nil {
		return false
	}
	m.asked[id] = struct{}{}
	m.wake(n)
	return true
}

// listen reports whether an entry exists and was asked for. If it exists and was not, the watch fires when that may
// have changed.
func (m *Mem) listen(id string) (w *watch, asked, exists bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[id]
	if n == nil {
		return nil, false, false
	}
	if _, asked = m.asked[id]; asked {
		return nil, true, true
	}
	w = &watch{nodes: []*node{n}, fired: make(chan struct{})}
	m.set(w)
	return w, false, true
}
