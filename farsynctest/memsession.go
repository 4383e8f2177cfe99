package farsynctest

import (
	"context"
	"time"
)

// openSession starts a session that ends by itself a ttl after its last renewal.
func (m *Mem) openSession(id int64, client string, ttl time.Duration, lose context.CancelFunc) (history int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[id] = &served{
		client: client,
		ttl:    ttl,
		until:  time.Now().Add(ttl),
		timer:  time.AfterFunc(ttl, func() { m.expire(id) }),
		nodes:  map[*node]struct{}{},
		lose:   lose,
	}
	return m.history
}

func (m *Mem) renewSession(id int64) (history int64, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.sessions[id]
	if held == nil {
		return 0, errNoSession
	}
	held.until = time.Now().Add(held.ttl)
	held.timer.Reset(held.ttl)
	return m.history, nil
}

// expire runs on a session's timer. A renewal that came after the timer fired has been acknowledged, and has set the
// timer again.
func (m *Mem) expire(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if held := m.sessions[id]; held != nil && !m.frozen && !time.Now().Before(held.until) {
		m.endSession(id)
	}
}

func (m *Mem) closeSession(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endSession(id)
}

func (m *Mem) endSession(id int64) {
	held := m.sessions[id]
	if held == nil {
		return
	}
	held.timer.Stop()
	for n := range held.nodes {
		m.remove(n)
	}
	m.unsay(func(_ *node, session int64) bool { return session == id })
	delete(m.sessions, id)
}
