package farsynctest

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/farsync/farsync/driver"
)

// silenceID is the ID of an entry that is nowhere: it is ahead of all others, and gone when the service grants again.
const silenceID = "silence"

// Restart ends all sessions with their entries, as a service does that comes back without what it knew, and has it grant
// nothing for d, so that those who held can learn of it.
func (m *Mem) Restart(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.sessions {
		m.endSession(id)
	}
	m.quiet = time.Now().Add(d)
	time.AfterFunc(d, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.silent() { // a later Restart may have prolonged it
			m.wake(&m.sound)
		}
	})
}

func (m *Mem) silent() bool { return time.Now().Before(m.quiet) }

// silence returns until when nothing is granted; zero if that is over.
func (m *Mem) silence() (until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent() {
		until = m.quiet
	}
	return until
}

// hush is the view as it is shown while nothing is granted. An entry waits for an entry ahead of it that waits, too, and by whose
// end it comes in. All other entries wait for the end of the silence.
func (m *Mem) hush(v driver.View) driver.View {
	blocks := func(e driver.Entry) bool {
		return v.Self.Kind != driver.Permit && (v.Self.Kind != driver.Read || e.Kind != driver.Read)
	}
	if !m.silent() || slices.ContainsFunc(v.Entries, blocks) {
		return v
	}
	kind := v.Self.Kind // of the same family, or the queue would be another's
	if kind == driver.Read {
		kind = driver.Write
	}
	v.All, v.Silent = false, true
	v.Entries = []driver.Entry{{Queue: v.Self.Queue, ID: silenceID, Kind: kind, Units: math.MaxInt64}}
	return v
}

// Revive has an entry stand again that was removed, in its place and its session, as a service does that goes back to an earlier state. List
// has shown e, with its session, which must live. The next renewal of each session shows another history.
func (m *Mem) Revive(e driver.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	session, _ := strconv.ParseInt(e.Session, 10, 64)
	n, q := &node{entry: e, session: session, first: true}, m.queues[e.Queue]
	m.queues[e.Queue] = slices.Insert(q, place(q, n), n)
	m.nodes[baseOf(e.ID)] = n
	m.sessions[session].nodes[n] = struct{}{}
	m.history++
}
