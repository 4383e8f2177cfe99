package locktest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/farsync/farsync/internal/pause"
)

// visitFor is how long a Visit lasts: the time of several requests to a service, so that a second holder that is granted
// too early arrives while the first is still inside.
const visitFor = time.Millisecond

// A Section is a critical section that detects an overlap by itself. It has room for a number of units and fails its
// test when more than that are held inside at once. A Mutex protects a Section of one unit. Under an RWMutex a writer
// takes all units and a reader one. Under a Semaphore each holder takes as many as it has acquired.
//
// A holder whose lease has ended does not count, although it may still be inside: it has been told. All methods may be
// called by many goroutines at once.
type Section struct {
	t    testing.TB
	room int64

	mu     sync.Mutex
	inside map[*visit]struct{}
	visits int
	most   int64 // units that were held at once
	over   []string
}

// A visit is one holder's stay in a Section.
type visit struct {
	lease Held
	units int64
	since time.Time
}

// Held is what a Section asks of a lease: Err is nil while it is held.
type Held interface{ Err() error }

// NewSection returns an empty Section with room for so many units. It reports overlaps to t if that is not nil.
func NewSection(t testing.TB, room int64) *Section {
	return &Section{t: t, room: room, inside: map[*visit]struct{}{}}
}

// Enter enters with so many units of a lease that has been granted, and returns a function that leaves. A nil lease is
// held until it leaves.
func (s *Section) Enter(lease Held, units int64) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := &visit{lease, units, time.Now()}
	var others []string
	held := units
	for v := range s.inside {
		if v.held() {
			held += v.units
			others = append(others, fmt.Sprintf("%d since %v", v.units, now.since.Sub(v.since)))
		}
	}
	// The lease that enters is asked last: if it is still held, then so it was while the others were.
	if now.held() {
		s.visits++
		s.most = max(s.most, held)
		if held > s.room {
			overlap := fmt.Sprintf("%d units enter a section that has room for %d, where others hold %q", units, s.room, others)
			s.over = append(s.over, overlap)
			if s.t != nil {
				s.t.Errorf("overlap: %s", overlap)
			}
		}
	}
	s.inside[now] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.inside, now)
	}
}

// Visit enters, stays for a millisecond at least or until ctx is done, and leaves.
func (s *Section) Visit(ctx context.Context, lease Held, units int64) {
	defer s.Enter(lease, units)()
	_ = pause.For(ctx, visitFor)
}

// Visits returns how many leases have entered that were held, and the most units that were held at once.
func (s *Section) Visits() (visits int, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.visits, s.most
}

// Overlaps returns what overlaps there were.
func (s *Section) Overlaps() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.over)
}

func (v *visit) held() bool { return v.lease == nil || v.lease.Err() == nil }
