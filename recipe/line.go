package recipe

import (
	"container/list"
	"context"
	"time"
)

// A waiter is a goroutine in the line. It is sent one turn, ever.
type waiter struct {
	hand chan struct{} // has a value once turn is set
	turn turn
	at   *list.Element // nil while it is in no line
	came time.Time
	due  time.Time // when the name of the holder is asked for, if it waits still; zero if it waits for as long as it takes

	ahead int    // how many were in the line when it came
	note  string // what an entry is to say that is carried for it
	units int64  // that it asks for; 1 for all but permits
}

// newWaiter returns a waiter that comes now, and waits for no longer than ctx.
func newWaiter(ctx context.Context, now time.Time) *waiter {
	w := &waiter{hand: make(chan struct{}, 1), came: now, units: 1}
	if deadline, ok := ctx.Deadline(); ok {
		w.due = sightAt(now, deadline)
	}
	return w
}

// give sends a waiter its turn.
func (w *waiter) give(t turn) {
	w.turn = t
	w.hand <- struct{}{}
}

// A line has the waiters, in order of arrival. The mu of its cohort or window guards it.
type line struct {
	list.List // of *waiter
}

func (l *line) push(w *waiter) { w.at = l.PushBack(w) }

func (l *line) pushFront(w *waiter) { w.at = l.PushFront(w) }

// first returns the waiter that has waited for longest.
func (l *line) first() *waiter { return l.Front().Value.(*waiter) }

// pop takes the first out of the line.
func (l *line) pop() *waiter {
	w := l.first()
	l.remove(w)
	return w
}

// remove takes w out of the line, and reports false if it has left it.
func (l *line) remove(w *waiter) bool {
	if w.at == nil {
		return false
	}
	l.Remove(w.at)
	w.at = nil
	return true
}
