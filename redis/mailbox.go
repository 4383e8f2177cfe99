package redis

import "github.com/farsync/farsync/driver"

// A mailbox is what was published to a session, and what will be. The server publishes a name once for each time that
// the session was noted for it. Guarded by session.mu.
type mailbox struct {
	// noted are the names for which the server has noted the session, with the version at which it did. Invariant: if a name
	// is in it and moves, it is published after the name was put in.
	noted map[string]int64
	// flights are the requests under way that may note the session.
	flights map[*flight]struct{}
	waiters map[*waiter]struct{}
}

// A flight is one request. What is published while it is under way may come from before it was carried out or from after,
// so what it has noted does not count then. A wake-up may well be faster than the answer that says what to wait for.
type flight struct {
	seen map[string]bool
	all  bool // any name may have moved
}

// A waiter is a Watch under way.
type waiter struct {
	names []string
	woken chan struct{}
}

func newMailbox() mailbox {
	return mailbox{noted: map[string]int64{}, flights: map[*flight]struct{}{}, waiters: map[*waiter]struct{}{}}
}

// take hands out a name that was published.
func (m *mailbox) take(name string) {
	delete(m.noted, name)
	for f := range m.flights {
		f.seen[name] = true
	}
	for w := range m.waiters {
		for _, other := range w.names {
			if other == name {
				w.wake()
			}
		}
	}
}

// takeAll is take for every name: what was published while nothing was heard is not known.
func (m *mailbox) takeAll() {
	clear(m.noted)
	for f := range m.flights {
		f.all = true
	}
	for w := range m.waiters {
		w.wake()
	}
}

func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// depart notes a request that may note the session.
func (m *mailbox) depart() *flight {
	f := &flight{seen: map[string]bool{}}
	m.flights[f] = struct{}{}
	return f
}

// land ends the request. A name that it has noted counts, unless something was published meanwhile.
func (m *mailbox) land(f *flight, noted map[string]int64) {
	delete(m.flights, f)
	for name, version := range noted {
		if !f.all && !f.seen[name] {
			m.noted[name] = version
		}
	}
}

// expects reports whether the session will be told when the target moves from what it was.
func (m *mailbox) expects(t driver.Target) bool {
	version, ok := m.noted[nameOf(t)]
	switch t.What {
	case driver.Gone:
		return ok
	case driver.Changed, driver.Registered:
		return ok && version == t.Entry.Version && (version != 0 || t.What == driver.Registered)
	default:
		return false
	}
}
