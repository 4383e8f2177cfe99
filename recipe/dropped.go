package recipe

import (
	"sync"
	"time"
)

// mostDropped is how many leases that were dropped are named at a renewal. Those beyond are counted.
const mostDropped = 100

// drops are the holds whose leases nobody can reach any more, since the last renewal.
type drops struct {
	mu   sync.Mutex
	list []*Hold // Invariant: len(list) ≤ mostDropped
	more int
}

// Dropped notes that the lease on h, which nobody has released, cannot be reached any more. The goroutine that renews the
// session says so.
//
// It is called by a cleanup of the runtime, outside of every bubble of testing/synctest and beside the cleanups of the
// whole program. So it waits for nothing, looks at no clock and ends no context: whether the hold is still held is asked
// by those who read the list.
func (h *Hold) Dropped() {
	d := &h.grant.store.drops
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.list) == mostDropped {
		d.more++
		return
	}
	d.list = append(d.list, h)
}

// take empties the list.
func (d *drops) take() (list []*Hold, more int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, more = d.list, d.more
	d.list, d.more = nil, 0
	return list, more
}

// noteDropped says which leases were dropped and are still held. A lease that has ended keeps nothing: what was released
// by its hold alone, as by a MultiMutex that gives up, and what was lost, has been told already.
func (s *Store) noteDropped() {
	list, more := s.drops.take()
	for _, h := range list {
		if h.Err() == nil {
			e := h.grant.place.Load().entry
			s.log.Warn("lease dropped without Release: its lock stays until the Store is closed",
				"path", e.Queue, "kind", e.Kind.String(), "token", digits(h.token()), "held", time.Since(h.since))
		}
	}
	if more > 0 {
		s.log.Warn("lease dropped without Release: its lock stays until the Store is closed", "locks", more)
	}
}
