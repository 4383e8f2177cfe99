package storetest

import (
	"slices"
	"strings"

	"github.com/farsync/farsync/driver"
)

// What follows is what the service keeps beside the places in its queues.

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

// tell leaves words with an entry.
func (m *Mem) tell(e driver.Entry, words string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(e.ID)
	if n == nil {
		return driver.ErrGone
	}
	n.words = words
	m.wake(&n.told)
	return nil
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
		v.Entries = append(v.Entries, entriesOf(m.queues[path])...)
	}
	return v
}
