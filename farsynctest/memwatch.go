package farsynctest

import (
	"errors"
	"fmt"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/legible"
)

// watch returns a watch on all of the targets, which has fired if any of them has moved since it was read. An entry
// that no session ends is refused.
func (m *Mem) watch(targets []driver.Target) (*watch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &watch{fired: make(chan struct{})}
	for _, t := range targets {
		on, err := m.topic(t)
		if err != nil {
			return nil, err
		}
		if on == nil {
			close(w.fired)
			return &watch{fired: w.fired}, nil
		}
		w.on = append(w.on, on)
	}
	m.watches[w] = struct{}{}
	for _, on := range w.on {
		if on.watches == nil {
			on.watches = map[*watch]struct{}{}
		}
		on.watches[w] = struct{}{}
	}
	return w, nil
}

// topic returns what a target is a watch on, or nil if the target has moved since it was read.
func (m *Mem) topic(t driver.Target) (*topic, error) {
	switch t.What {
	case driver.Registered:
		if r := m.registerOf(t.Entry.Queue); r.Version == t.Entry.Version {
			return &r.written, nil
		}
		return nil, nil
	case driver.Joined:
		if len(m.queues[t.Entry.Queue]) > 0 {
			return nil, nil
		}
		if m.vacant[t.Entry.Queue] == nil {
			m.vacant[t.Entry.Queue] = &topic{}
		}
		return m.vacant[t.Entry.Queue], nil
	}
	if t.Entry.ID == silenceID {
		if !m.silent() {
			return nil, nil
		}
		return &m.sound, nil
	}
	n := m.find(t.Entry.ID)
	switch {
	case n == nil:
		return nil, nil
	case n.session == noSession:
		return nil, fmt.Errorf("entry %s: %w", legible.Name(n.entry.ID), errStray)
	case t.What == driver.Gone:
		return &n.end, nil
	case t.What == driver.Told:
		if n.words != "" {
			return nil, nil
		}
		return &n.told, nil
	case n.entry.Kind != t.Entry.Kind || t.Entry.Version != 0 && n.entry.Version != t.Entry.Version:
		return nil, nil
	default:
		return &n.change, nil
	}
}

var errStray = errors.New("it belongs to no session: it has to be removed by hand")

// proof returns the view of e as it is now, if that is worth showing.
func (m *Mem) proof(e driver.Entry) *driver.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.ID == "" {
		return nil
	}
	n := m.find(e.ID)
	if n == nil || place(m.queues[n.entry.Queue], n) > showAhead {
		return nil
	}
	v := m.viewOf(n)
	return &v
}

// unwatch drops a watch, fired or not.
func (m *Mem) unwatch(w *watch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(w)
}

func (m *Mem) drop(w *watch) {
	delete(m.watches, w)
	for _, on := range w.on {
		delete(on.watches, w)
	}
}

func (m *Mem) wake(topics ...*topic) {
	for _, t := range topics {
		for w := range t.watches {
			m.drop(w)
			close(w.fired)
		}
	}
}
