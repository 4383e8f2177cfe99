package recipe

import (
	"slices"
	"sync"
)

// A waiter is a goroutine that waits for a turn from another of its process. It is sent one hand, ever: a share of a
// grant to go on with, or an empty one to join the queue by itself.
type waiter struct {
	hand chan share // room for one
}

// A line is what a Gate knows of the goroutines of its process. Invariant: waiters is empty unless queued > 0.
type line struct {
	mu      sync.Mutex
	waiters []*waiter // in order of arrival
	queued  int       // grants of this process that are in the queue of the store or held
	held    *grant    // the grant won last, while it is held
}

// pop takes the first waiter.
func (l *line) pop() *waiter {
	w := l.waiters[0]
	l.waiters = slices.Delete(l.waiters, 0, 1)
	return w
}
