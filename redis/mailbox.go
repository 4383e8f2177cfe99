package redis

import (
	"slices"
	"sync"

	"github.com/farsync/farsync/driver"
)

// A mailbox hands out what is published to a session.
type mailbox struct {
	mu    sync.Mutex
	ears  map[string][]*ear // by each of their names
	looks map[string]*ear   // of the entries for which the server has noted the session at their last look, by ID
}

// An ear has a value in woken once one of its names was published. The ear of a look was there before the request was
// sent, so until it is woken, nothing that was shown has moved.
type ear struct {
	names []string
	woken chan struct{}
	shown map[string]int64 // the versions of what the look has shown, by names
}

func newMailbox() *mailbox { return &mailbox{ears: map[string][]*ear{}, looks: map[string]*ear{}} }

// listen returns a new ear for names.
func (m *mailbox) listen(names ...string) *ear {
	in := &ear{names: names, woken: make(chan struct{}, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		m.ears[name] = append(m.ears[name], in)
	}
	return in
}

// hush removes an ear, if it is one.
func (m *mailbox) hush(in *ear) {
	if in == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range in.names {
		m.ears[name] = slices.DeleteFunc(m.ears[name], func(other *ear) bool { return other == in })
		if len(m.ears[name]) == 0 {
			delete(m.ears, name)
		}
	}
}

// put keeps the ear of a look that has shown v, for Watch.
func (m *mailbox) put(in *ear, v driver.View) {
	in.shown = map[string]int64{"size:" + v.Self.Queue: v.Register.Version}
	for _, other := range v.Entries {
		in.shown[other.ID] = other.Version
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks[v.Self.ID] = in
}

// take returns the ear of the last look of an entry, and forgets that look; nil if there is none.
func (m *mailbox) take(id string) *ear {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.looks[id]
	delete(m.looks, id)
	return in
}

// hears reports whether the ear belongs to a look, and is woken when any of the targets moves.
func (in *ear) hears(on []driver.Target) bool {
	return in != nil && !slices.ContainsFunc(on, func(t driver.Target) bool {
		version, shown := in.shown[nameOf(t)]
		return !shown || version != t.Entry.Version || t.What == driver.Told
	})
}

// anything is published when a session is over, and stands for what was published while nothing was heard.
const anything = ""

// publish wakes all ears for a name.
func (m *mailbox) publish(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name != anything {
		wake(m.ears[name])
		return
	}
	for _, ears := range m.ears {
		wake(ears)
	}
}

func wake(ears []*ear) {
	for _, in := range ears {
		select {
		case in.woken <- struct{}{}:
		default:
		}
	}
}
