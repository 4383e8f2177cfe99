package recipe

import (
	"context"
	"log/slog"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

const (
	// waitersEvery is how often a session looks at those that wait in it, while there are any.
	waitersEvery = 2500 * time.Millisecond
	// A waiter whose ctx has a deadline, and which does not know the name of the holder, asks for it that long before, or
	// when half of its time is over: the error names the holder, and must not wait for the answer.
	sightBefore = 250 * time.Millisecond
	// maxSights is how many such requests a Store has under way. What is more goes without.
	maxSights = 16
)

// longWaits are the times after which it is noted that a waiter still waits.
var longWaits = [...]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}

// A waiting is one call that waits in a queue. Guarded by the session's mu.
type waiting struct {
	place  *place
	behind driver.Entry // the nearest that it waits for
	holder driver.Entry // the oldest of the queue, when that was last read; none at first
	said   int          // so many of longWaits
}

// enlist notes that p waits. The first in a session has the others looked at from then on.
func (s *Store) enlist(p *place, on []driver.Target) *waiting {
	w := &waiting{place: p, behind: on[0].Entry}
	in := p.in
	in.mu.Lock()
	in.waiters[w] = true
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

// moved notes what w waits for now.
func (in *session) moved(w *waiting, on []driver.Target) {
	in.mu.Lock()
	defer in.mu.Unlock()
	w.behind = on[0].Entry
}

func (in *session) delist(w *waiting) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.waiters, w)
}

// name returns what is known of what w waits for, for people. What it needs of the stack is not needed by one that waits.
//
//go:noinline
func (in *session) name(w *waiting) string { return describe(in.holder(w)) }

// holder returns what is known of what w waits for.
func (in *session) holder(w *waiting) driver.Entry {
	in.mu.Lock()
	defer in.mu.Unlock()
	// The oldest may be the waiter itself: what it waited for has gone meanwhile, or is no entry of the queue.
	if len(w.behind.Value) == 0 && w.holder.ID != "" && w.holder.ID != w.place.entry.ID {
		return w.holder
	}
	return w.behind
}

// attend looks now and then for those that wait for long. It ends when none waits.
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
	if len(behind.Value) == 0 {
		head, known := heads[e.Queue]
		if !known {
			head = s.head(in.life, in, e.Queue)
			heads[e.Queue] = head
		}
		in.mu.Lock()
		w.holder = head
		in.mu.Unlock()
	}
	s.log.Info("still waiting", "path", e.Queue, "kind", e.Kind.String(), "behind", in.name(w),
		"ahead", behind.Ahead+1, "waited", time.Since(w.place.began))
}

// head returns the oldest entry of a queue, in one attempt; none if it is not to be had.
func (s *Store) head(ctx context.Context, in *session, queue string) (head driver.Entry) {
	attempt, cancel := context.WithTimeout(ctx, firstAttempt)
	defer cancel()
	v, err := in.Session.List(attempt, queue, 1)
	if err == nil && len(v.Entries) > 0 {
		head = v.Entries[0]
	}
	return head
}

// sight asks for the holder's name shortly before the deadline of ctx, if what then waits does not know it. Stop must be called.
func (s *Store) sight(ctx context.Context, waits func() *waiting) (stop func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return func() {}
	}
	if w := waits(); w != nil && w.place.in.knows(w) {
		return func() {}
	}
	left := time.Until(deadline)
	attempt, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	t := time.AfterFunc(left-min(left/2, sightBefore), func() {
		defer close(done)
		w := waits()
		if w == nil || w.place.in.knows(w) {
			return
		}
		in := w.place.in
		select {
		case s.sights <- struct{}{}:
			head := s.head(attempt, in, w.place.entry.Queue)
			<-s.sights
			in.mu.Lock()
			w.holder = head
			in.mu.Unlock()
		default:
		}
	})
	return func() {
		cancel()
		if !t.Stop() {
			<-done
		}
	}
}

// knows reports whether the name of what w waits for is known.
func (in *session) knows(w *waiting) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(w.behind.Value) > 0
}
