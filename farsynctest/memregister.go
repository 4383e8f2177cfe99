package farsynctest

import (
	"slices"
	"strings"

	"github.com/farsync/farsync/driver"
)

// The service keeps a register beside the places in each of its queues.

// write sets the register of a queue.
func (m *Mem) write(queue, value string, version int64, head driver.Entry) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.registerOf(queue)
	if r.Version != version || head.ID != "" && m.find(head.ID) == nil {
		return 0, driver.ErrConflict
	}
	m.revision++
	r.Register = driver.Register{Value: value, Version: m.revision}
	m.wake(&r.written)
	return r.Version, nil
}

func (m *Mem) register(queue string) driver.Register {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.registerOf(queue).Register
}

func (m *Mem) registerOf(queue string) *register {
	if m.registers[queue] == nil {
		m.registers[queue] = &register{}
	}
	return m.registers[queue]
}

// tell leaves words with an entry, for a session, and they stay when the entry is gone. No words at all take back what
// was left.
func (m *Mem) tell(session int64, e driver.Entry, words string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if words == "" {
		m.unsay(func(n *node, _ int64) bool { return n.entry.ID == e.ID || n.was == e.ID })
		return nil
	}
	n := m.find(e.ID)
	if n == nil {
		return driver.ErrGone
	}
	if m.sessions[session] == nil {
		return errNoSession
	}
	n.words, m.said[n] = words, session
	m.wake(&n.told)
	return nil
}

// unsay takes back the words of some entries, or of a session.
func (m *Mem) unsay(these func(n *node, session int64) bool) {
	for n, session := range m.said {
		if these(n, session) {
			n.words = ""
			delete(m.said, n)
		}
	}
}

// Words returns how many entries the service keeps words for, also entries that are gone.
func (m *Mem) Words() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.said)
}

// heard returns the words that were left with an entry.
func (m *Mem) heard(e driver.Entry) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(e.ID)
	if n == nil {
		return "", driver.ErrGone
	}
	return n.words, nil
}

// survey returns the entries of the queues below a prefix, whole queues of them.
func (m *Mem) survey(prefix, after string, limit int) driver.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	var paths []string
	for path := range m.queues {
		if strings.HasPrefix(path, prefix) && path > after {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	v := driver.View{Silent: m.silent()}
	for _, path := range paths {
		if limit > 0 && len(v.Entries) >= limit {
			break
		}
		v.Entries = append(v.Entries, named(m.queues[path])...)
	}
	return v
}
