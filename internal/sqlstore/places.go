package sqlstore

import (
	"context"
	"sync"
)

// Places are how many connections calls have at a time, beside the connections that renew the session. While room is
// scarce, places go out of use as they are given back, until one is left.
//
// A renewal needs a place only when its own connection was lost and the server has no room for another. It goes before
// all calls that wait: a call gives its place back within the time that an attempt has, and the session lasts for
// several attempts. A renewal behind calls might not come to its turn in that time, for each call may stand behind a
// locked row.
type Places struct {
	most int
	room *Room
	wait func() // is called when one waits

	mu              sync.Mutex
	unused          int // Invariant: 0 if one waits
	out             int // Invariant: 0 ≤ out < most
	renewals, calls fifo
}

// NewPlaces returns so many places, one at least. Waits is called when a call begins to wait.
func NewPlaces(most int, room *Room, waits func()) *Places {
	most = max(most, 1)
	return &Places{most: most, room: room, wait: waits, unused: most}
}

// Take waits for a place until ctx ends.
func (p *Places) Take(ctx context.Context, renews bool) error {
	p.mu.Lock()
	for ; p.out > 0 && !p.room.Scarce(); p.out-- {
		p.pass()
	}
	if p.unused > 0 {
		p.unused--
		p.mu.Unlock()
		return nil
	}
	line := &p.calls
	if renews {
		line = &p.renewals
	}
	waits := line.enter()
	p.mu.Unlock()
	p.wait()
	if waits.await(ctx) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if line.leave(waits) {
		p.pass()
	}
	return context.Cause(ctx)
}

// Give gives a place back.
func (p *Places) Give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass()
}

// pass gives a place to whoever is next.
func (p *Places) pass() {
	if !p.renewals.admit() && !p.calls.admit() {
		p.unused++
	}
}

// Retire has a place that is to be given back go out of use instead, if it is to, and reports whether.
func (p *Places) Retire() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	goes := p.extra()
	if goes {
		p.out++
	}
	return goes
}

// Extra reports whether a place would go out of use now if it were given back.
func (p *Places) Extra() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.extra()
}

func (p *Places) extra() bool { return p.out < p.most-1 && p.room.Scarce() }

// Narrow has all places go out of use that no call has, but for the last.
func (p *Places) Narrow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(p.unused, p.most-1-p.out)
	p.unused, p.out = p.unused-n, p.out+n
}

// Few reports whether there is one place alone, or that is to come.
func (p *Places) Few() bool { return p.most == 1 || p.room.Scarce() }

// Waits reports whether a call waits for a place.
func (p *Places) Waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewals.any() || p.calls.any()
}
