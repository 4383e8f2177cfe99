package recipe

import (
	"context"
	"log/slog"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

const (
	// waitersEvery is how often a session looks at its waiters, while there are any.
	waitersEvery = 2500 * time.Millisecond
)

// longWaits are the times after which it is noted that a waiter still waits.
var longWaits = [...]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}

// A waiting is one call that waits in a queue. Guarded by the session's mu.
type waiting struct {
	place  *place
	behind driver.Entry            // the nearest that it waits for
	head   driver.Entry            // the oldest of the queue, when that was last read; none at first
	said   int                     // so many of longWaits
	spurn  context.CancelCauseFunc // ends the wait of a Replaceable request; nil of all others

	// Where entries are not removed: the last walk that has passed here, what it has found in the way, and at which change. See removals.
	walk    uint64
	found   *removal
	foundAt uint64
}

// enlist notes that p waits. The first in a session has the others looked at from then on.
func (s *Store) enlist(p *place, on []driver.Target) *waiting {
	w := &waiting{place: p, behind: on[0].Entry}
	in := p.in
	in.mu.Lock()
	in.waiters[w] = true
	if all := in.removals[p.entry.Queue]; all != nil {
		all.calls[p.entry.ID] = w
		all.changes++
		all.waits++
	}
	first := !in.attended && s.notes(slog.LevelInfo)
	in.attended = in.attended || first
	in.mu.Unlock()
	if first && !s.background(func() { s.attend(in) }) {
		in.mu.Lock()
		in.attended = false
		in.mu.Unlock()
	}
	return w
}

// ahead is how many are ahead of w, as far as is known. Behind is what it waits for.
func (w *waiting) ahead(behind driver.Entry) int {
	if w.place.in.silence() != nil {
		return w.place.ahead // there may be none, and what it waits for may be no entry
	}
	return behind.Ahead + 1
}

// moved notes what w waits for now.
func (in *session) moved(w *waiting, on []driver.Target) {
	in.mu.Lock()
	defer in.mu.Unlock()
	w.behind = on[0].Entry
	if all := in.removals[w.place.entry.Queue]; all != nil {
		all.changes++
		if in.ahead(w) != nil {
			in.spurnAll(w.place.entry.Queue) // those behind w may have waited for others until now
		}
	}
}

// heads notes the oldest entry of the queue in which w waits.
func (in *session) heads(w *waiting, head driver.Entry) {
	in.mu.Lock()
	defer in.mu.Unlock()
	w.head = head
	if all := in.removals[w.place.entry.Queue]; all != nil {
		all.changes++
	}
}

// delist notes that w waits no more.
func (in *session) delist(w *waiting, failed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.waiters, w)
	in.dropMovable(w)
	all := in.removals[w.place.entry.Queue]
	if all == nil {
		return
	}
	all.waits--
	if !failed {
		delete(all.calls, w.place.entry.ID)
		all.changes++
	}
}

// name returns what is known of what w waits for, for people. It is not inlined, so that a waiter needs no stack for it.
//
//go:noinline
func (in *session) name(w *waiting) string {
	if quiet := in.silence(); quiet != nil {
		return quiet.Error()
	}
	if stuck := w.stuck(); stuck != nil {
		return stuck.Error()
	}
	e := in.awaited(w)
	if left := in.ofEarlier(e); left != "" {
		return left
	}
	return describe(e)
}

// behind says what w waits for, as the trouble of its call. It is not inlined, so that a waiter needs no stack for it.
//
//go:noinline
func (in *session) behind(w *waiting) error {
	if stuck := w.stuck(); stuck != nil && in.silence() == nil {
		return stuck
	}
	e := &waitingError{behind: in.name(w)}
	if in.silence() == nil {
		e.holder = in.holder(in.awaited(w)).holder
	}
	return e
}

// holder returns what an entry ahead says of its holder: nothing where an earlier session of the Store has left it.
func (in *session) holder(e driver.Entry) words {
	if in.ofEarlier(e) != "" {
		return words{}
	}
	return wordsOf(e)
}

// awaited returns what is known of what w waits for.
func (in *session) awaited(w *waiting) driver.Entry {
	in.mu.Lock()
	defer in.mu.Unlock()
	return w.nearest()
}

// nearest is awaited for a caller that holds the session's mu.
func (w *waiting) nearest() driver.Entry {
	// The oldest may be the waiter itself: what it waited for has gone meanwhile, or is no entry of the queue.
	if len(w.behind.Value) == 0 && w.head.ID != "" && w.head.ID != w.place.entry.ID {
		return w.head
	}
	return w.behind
}

// attend looks now and then for waiters that wait for long. It ends when no waiter is left.
func (s *Store) attend(in *session) {
	for pause.For(in.life, waitersEvery) == nil {
		due, more := in.long(time.Now())
		if !more {
			return
		}
		heads := map[string]driver.Entry{}
		for _, w := range due {
			s.noteWaiting(in, w, heads)
		}
	}
}

// long returns those whose wait has become long since the last call, and reports whether there are any.
func (in *session) long(now time.Time) (due []*waiting, more bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for w := range in.waiters {
		if waited := now.Sub(w.place.began); w.said < len(longWaits) && waited >= longWaits[w.said] {
			for w.said < len(longWaits) && waited >= longWaits[w.said] {
				w.said++
			}
			due = append(due, w)
		}
	}
	in.attended = len(in.waiters) > 0
	return due, in.attended
}

// noteWaiting says that w still waits. Heads are the oldest entries of queues that were asked for on the way.
func (s *Store) noteWaiting(in *session, w *waiting, heads map[string]driver.Entry) {
	e := w.place.entry
	in.mu.Lock()
	behind := w.behind
	in.mu.Unlock()
	if len(behind.Value) == 0 && in.silence() == nil {
		head, known := heads[e.Queue]
		if !known {
			head = s.head(in.life, in, e.Queue)
			heads[e.Queue] = head
		}
		in.heads(w, head)
	}
	s.log.Info("still waiting", "path", e.Queue, "kind", e.Kind.String(), "behind", in.name(w),
		"ahead", w.ahead(behind), "waited", time.Since(w.place.began))
}
