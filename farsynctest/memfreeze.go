package farsynctest

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A parcel is a request that has arrived at a service that is stopped, and lies unread in its socket.
type parcel struct {
	kind     OpKind
	carryOut func()
	done     chan struct{} // closed when it was carried out
}

// Freeze stops the service until Resume, as SIGSTOP does a server: it takes requests, and answers none. Resume carries out the requests
// that arrive meanwhile, also if nobody waits for the answer any more: nothing takes back a request that lies in the socket of a server.
func (m *Mem) Freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = true
}

// Resume has the service go on. It first reads what has arrived, in that order, and ends the sessions whose time has passed only then: so does a
// server whose timers are as late as all else.
func (m *Mem) Resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.unread) > 0 {
		p := m.unread[0]
		m.unread = m.unread[1:]
		m.mu.Unlock()
		m.admit(p.kind)
		p.carryOut()
		close(p.done)
		m.mu.Lock()
	}
	m.frozen = false
	for id, held := range m.sessions {
		if !time.Now().Before(held.until) {
			m.endSession(id)
		}
	}
}

// serve carries out a request that has arrived, now or when the service goes on. An error means that ctx has ended before.
func (m *Mem) serve(ctx context.Context, kind OpKind, carryOut func()) error {
	m.mu.Lock()
	if !m.frozen {
		m.mu.Unlock()
		m.admit(kind)
		carryOut()
		return nil
	}
	p := &parcel{kind, carryOut, make(chan struct{})}
	m.unread = append(m.unread, p)
	m.mu.Unlock()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	i := slices.Index(m.unread, p)
	if i >= 0 && kind == Watch { // it would be a watch that nobody has
		m.unread = slices.Delete(m.unread, i, i+1)
	}
	m.mu.Unlock()
	if i < 0 {
		<-p.done // it is being carried out
		return nil
	}
	return fmt.Errorf("%w: %w", errUnanswered, context.Cause(ctx))
}
