package live

import (
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync"
)

// A memory is what the surveys have shown of the holders of each lock, for as long as a viewer was there to have them
// made.
type memory struct {
	limit int // of the locks that the last survey has not shown

	mu    sync.Mutex
	locks map[gone]*past // Invariant: at most limit, besides the locks that the last survey has shown
}

// A past is the past of one lock.
type past struct {
	seen  time.Time // last
	since time.Time // when the survey that has seen it last began
	now   []hold
	holds []hold // that have ended, the last ones last
}

// A hold is what was seen of one.
type hold struct {
	Holder string `json:"holder"`
	// Token tells a holder from all others of its lock, before it and beside it. An ID may be used again.
	Token farsync.Token `json:"token"`
	// From is when it was first seen, or began, where that is known; To is when it was first not seen any more. It was
	// held until Last, at least.
	From int64 `json:"from"`
	Last int64 `json:"last,omitempty"`
	To   int64 `json:"to,omitempty"`
}

const (
	mostHolds = 20
	// forgotten is how long a lock is remembered that is not shown.
	forgotten = 10 * time.Minute
)

// note remembers what the surveys of the Stores have shown. A hold that ended while there was no viewer, no answer, or
// no room for it within the limit, is not known, and not made up.
func (m *memory) note(now time.Time, pace time.Duration, surveys map[string]*sight, locks []lockJSON) {
	m.mu.Lock()
	defer m.mu.Unlock()
	looking := now.Add(-2*pace - patience) // the survey before was not earlier than that
	for _, lock := range locks {
		survey := surveys[lock.Store]
		if !survey.covers(lock.Path) {
			continue // it is shown as it was
		}
		at := gone{lock.Store, lock.Path}
		p := m.locks[at]
		if p == nil {
			p = &past{}
			m.locks[at] = p
		}
		p.note(now, looking, lock.Participants[:min(lock.Held, mostInRow)])
		p.since = survey.seen.Add(-survey.took)
	}
	var old []gone
	for at, p := range m.locks {
		switch {
		case p.seen.Equal(now):
			continue
		case now.Sub(p.seen) > forgotten:
			delete(m.locks, at)
			continue
		case len(p.now) > 0 && surveys[at.Store].covers(at.Path):
			seen := p.seen
			p.note(now, looking, nil)
			p.seen = seen
		}
		old = append(old, at)
	}
	if n := len(old) - m.limit; n > 0 {
		slices.SortFunc(old, func(a, b gone) int { return m.locks[a].seen.Compare(m.locks[b].seen) })
		for _, at := range old[:n] {
			delete(m.locks, at)
		}
	}
}

// forget forgets all.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locks = map[gone]*past{} // a map that is cleared keeps its room
}

// of returns the holds on a lock, the present holds last.
func (m *memory) of(at gone) []hold {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.locks[at]
	if p == nil {
		return []hold{}
	}
	return slices.Concat(p.holds, p.now)
}

// note compares the holders with the holders in the last survey that has covered the lock. If that was before looking,
// a hold that has ended since then has ended at some time that is not known.
func (p *past) note(now, looking time.Time, holders []participantJSON) {
	for _, h := range p.now {
		holds := slices.ContainsFunc(holders, func(one participantJSON) bool { return one.Token == h.Token })
		if !holds && !p.seen.Before(looking) {
			h.Last, h.To = milli(p.since), now.UnixMilli()
			p.holds = append(p.holds, h)
		}
	}
	if n := len(p.holds) - mostHolds; n > 0 {
		p.holds = slices.Clone(p.holds[n:])
	}
	held := make([]hold, 0, len(holders))
	for _, one := range holders {
		if i := slices.IndexFunc(p.now, func(h hold) bool { return h.Token == one.Token }); i >= 0 {
			held = append(held, p.now[i])
			continue
		}
		from := now.UnixMilli()
		if one.HeldSince != 0 {
			from = one.HeldSince
		}
		held = append(held, hold{Holder: one.Holder, Token: one.Token, From: from})
	}
	p.now, p.seen = held, now
}
