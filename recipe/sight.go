package recipe

import (
	"context"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
)

const (
	// A waiter whose ctx has a deadline, and which does not know the name of the holder, asks for it that long before, or
	// when half of its time is over: the error names the holder, and must not wait for the answer.
	sightBefore = 250 * time.Millisecond
	// sightEvery is the least time between two such requests for one line: what one has learned serves all.
	sightEvery = sightBefore / 10
	// lookoutMost is the longest that a timer is set for a line, which may be empty by then.
	lookoutMost = time.Minute
	// maxSights is how many such requests a Store has under way. Further callers go without.
	maxSights = 16
)

// sightAt returns when a caller that waits until a deadline asks for the holder's name.
func sightAt(now, deadline time.Time) time.Time {
	return deadline.Add(-min(deadline.Sub(now)/2, sightBefore))
}

// sight asks for the holder's name shortly before the deadline of ctx, if w, which then waits, does not know it. Stop must be
// called.
func (s *Store) sight(ctx context.Context, w *waiting) (stop func()) {
	deadline, ok := ctx.Deadline()
	if !ok || w.place.in.knows(w) {
		return func() {}
	}
	now := time.Now()
	attempt, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	t := time.AfterFunc(sightAt(now, deadline).Sub(now), func() {
		defer close(done)
		s.ask(attempt, w)
	})
	return func() {
		cancel()
		if !t.Stop() {
			<-done
		}
	}
}

// ask asks for the name of what w waits for, unless it is known or too many ask.
func (s *Store) ask(ctx context.Context, w *waiting) {
	in := w.place.in
	if in.knows(w) {
		return
	}
	select {
	case s.sights <- struct{}{}:
		head := s.head(ctx, in, w.place.entry.Queue)
		<-s.sights
		in.heads(w, head)
	default:
	}
}

// A lookout fetches the holder's name shortly before the deadline of a waiter. Few waiters get that far, so all waiters
// of a line share one timer, which is not set anew when a waiter leaves.
type lookout struct {
	mu    *sync.Mutex // of the line
	line  *line
	asker interface{ ask() } // asks for the name, in the background

	timer *time.Timer
	at    time.Time // when the timer fires; zero while it is not set
}

// expect has the line looked at when a waiter is due, if it ever is. The caller holds mu.
func (l *lookout) expect(now, due time.Time) {
	if due.IsZero() || !l.at.IsZero() && !due.Before(l.at) {
		return
	}
	wait := min(due.Sub(now), lookoutMost)
	l.at = now.Add(wait)
	l.timer = after(l.timer, wait, l.look)
}

// rest ends the lookout of a line that is empty. The caller holds mu.
func (l *lookout) rest() {
	if !l.at.IsZero() {
		l.timer.Stop()
		l.at = time.Time{}
	}
}

// look runs on the timer.
func (l *lookout) look() {
	if l.due(time.Now()) {
		l.asker.ask()
	}
}

// due reports whether one of the line is due, and sees to the next.
func (l *lookout) due(now time.Time) (due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var next time.Time
	for at := l.line.Front(); at != nil; at = at.Next() {
		switch w := at.Value.(*waiter); {
		case w.due.IsZero():
		case !w.due.After(now):
			due, w.due = true, time.Time{}
		case next.IsZero() || w.due.Before(next):
			next = w.due
		}
	}
	l.at = time.Time{}
	if first := now.Add(sightEvery); due && !next.IsZero() && next.Before(first) {
		next = first
	}
	l.expect(now, next)
	return due
}

// ask asks who holds, for the line, unless that is another goroutine of this process.
func (c *cohort) ask() {
	c.mu.Lock()
	known := c.grants.held()
	c.mu.Unlock()
	if w := c.waits(); !known && w != nil {
		c.store.background(func() { c.store.ask(w.place.in.life, w) })
	}
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

// knows reports whether the name of what w waits for is known.
func (in *session) knows(w *waiting) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(w.behind.Value) > 0
}
