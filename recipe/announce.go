package recipe

import "sync"

// An Announcer calls a Store's state hook from a goroutine of its own, in order, so that a slow hook delays nobody.
// Repeats are left out.
type Announcer struct {
	hook   func(State)
	states chan State
	done   sync.WaitGroup

	mu   sync.Mutex
	last State
	over bool
}

// NewAnnouncer returns an announcer for hook, which may be nil. Stop must be called.
func NewAnnouncer(hook func(State)) *Announcer {
	a := &Announcer{hook: hook, states: make(chan State, 64)}
	if hook != nil {
		a.done.Go(func() {
			for state := range a.states {
				hook(state)
			}
		})
	}
	return a
}

// Announce reports whether state is news. It never waits: a hook that is 64 states behind misses some.
func (a *Announcer) Announce(state State) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.last == state {
		return false
	}
	a.last = state
	if a.hook != nil {
		select {
		case a.states <- state:
		default:
		}
	}
	return true
}

// Stop returns when the hook has been told everything.
func (a *Announcer) Stop() {
	a.mu.Lock()
	over := a.over
	a.over = true
	a.mu.Unlock()
	if !over {
		close(a.states)
	}
	a.done.Wait()
}
