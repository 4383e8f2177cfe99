package recipe

import (
	"fmt"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

// Earlier are the entries that the lost sessions of a Store may have left at the service, by the IDs that they got or were asked for. They
// name the Store itself as their holder, though its leases on them are lost: whoever of the Store waits behind one is told so, and not that
// somebody holds. IDs are random, so whatever has one of them is such an entry.
//
// An entry that is not here is told by its holder. Where the service has no History, that may also be an entry of a lost session: of
// a call that was joining, or of a lease that was just being released.
type earlier struct {
	mu sync.Mutex
	of map[string]time.Time // until when the service may keep the session of the entry, as far as its Store knows
}

// leave notes what a session that was lost may have left, until the session must have run out even if its last renewal was late.
func (s *Store) leave(in *session) {
	ids, until := in.leaving()
	if len(ids) == 0 {
		return
	}
	s.earlier.add(ids, until)
	s.background(func() {
		if pause.For(s.life, time.Until(until)+in.ttl) == nil {
			s.earlier.forget(ids)
		}
	})
}

// leaving returns the IDs of the entries that a lost session may leave, and until when the service may keep it.
func (in *session) leaving() (ids []string, until time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for id := range in.made {
		ids = append(ids, id)
	}
	if in.made == nil {
		for _, gr := range in.losing {
			ids = append(ids, gr.place.Load().entry.ID)
		}
		for _, w := range in.parting {
			ids = append(ids, w.place.entry.ID)
		}
		for _, all := range in.removals {
			for id := range all.of {
				ids = append(ids, id)
			}
		}
	}
	return ids, in.kept
}

func (l *earlier) add(ids []string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]time.Time{}
	}
	for _, id := range ids {
		l.of[id] = until
	}
}

func (l *earlier) forget(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.of, id)
	}
	if len(l.of) == 0 {
		l.of = nil
	}
}

// has returns what is known of e if a lost session has left it, for people; else "".
func (l *earlier) has(e driver.Entry) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := byID(l.of, e)
	if !ok {
		return ""
	}
	ends := "should have ended"
	if left := time.Until(until); left > 0 {
		ends = fmt.Sprintf("is to end within %v", max(left.Round(silenceUnit), silenceUnit))
	}
	return "an entry of an earlier session of this Store, which was lost and " + ends
}

// ofEarlier is has for the Store of the session.
func (in *session) ofEarlier(e driver.Entry) string {
	if in.earlier == nil {
		return ""
	}
	return in.earlier.has(e)
}

// LeftOf returns what the Store knows of an entry of its own that stands for nobody any more, for people: of a
// session that was lost, or of a removal that the service refuses or has not confirmed in time. Else it returns "":
// the entry stands for a caller, or is another Store's, of which nothing is known.
func LeftOf(s *Store, e driver.Entry) string {
	if left := s.earlier.has(e); left != "" {
		return left
	}
	if in := s.inUse(); in != nil {
		if stuck := in.stuck(e.Queue, e); stuck != nil {
			return stuck.Error()
		}
	}
	return ""
}
