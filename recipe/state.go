package recipe

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/farsync/farsync/internal/goroutine"
)

// A State is how a Store stands with its service.
type State uint8

// The states of a Store.
const (
	// Connected means that the last renewal of the session was acknowledged.
	Connected State = iota + 1
	// Suspended means that a renewal is overdue. Leases are still held, until their deadline.
	Suspended
	// Lost means that the session is over, and with it every lease under it. Connected follows once there is a new one.
	Lost
	// Recovering means that the session is open and its last renewal was acknowledged, but that the service grants
	// nothing for a while: a Redis server does so for one TTL after a restart, so that all who held before can stop.
	// What waits is granted afterwards. Connected follows.
	Recovering
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Connected:
		return "connected"
	case Suspended:
		return "suspended"
	case Lost:
		return "lost"
	case Recovering:
		return "recovering"
	default:
		return "unknown"
	}
}

// answers reports whether the last renewal was acknowledged.
func (s State) answers() bool { return s == Connected || s == Recovering }

// An announcer calls a Store's state hook from a goroutine of its own, in order, so that a slow hook delays no renewal.
// Repeats are left out.
type announcer struct {
	hook   func(State)
	states chan State
	done   sync.WaitGroup
	number atomic.Uint64 // of the goroutine that calls the hook

	mu   sync.Mutex
	last State
	well context.Context // done while the service does not answer
	ail  context.CancelCauseFunc
}

// newAnnouncer returns an announcer for hook, which may be nil. stop must be called.
func newAnnouncer(hook func(State)) *announcer {
	a := &announcer{hook: hook, states: make(chan State, 64)}
	a.well, a.ail = context.WithCancelCause(context.Background())
	if hook != nil {
		a.done.Go(func() {
			n, _ := goroutine.Number()
			a.number.Store(n)
			var told State
			for state := range a.states {
				if state != told { // one in between was left out
					hook(state)
				}
				told = state
			}
		})
	}
	return a
}

// announce reports whether state is news. It never waits: a hook that is 64 states behind misses the oldest of them.
func (a *announcer) announce(state State) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == state {
		return false
	}
	a.last = state
	if !state.answers() {
		a.ail(errDisconnected)
	} else if a.well.Err() != nil {
		a.well, a.ail = context.WithCancelCause(context.Background())
	}
	if a.hook != nil {
		for sent := false; !sent; {
			select {
			case a.states <- state:
				sent = true
			default:
				select {
				case <-a.states:
				default: // the hook has taken one
				}
			}
		}
	}
	return true
}

// state returns the last state that was announced.
func (a *announcer) state() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// connected returns a context that is done while the last state is neither Connected nor Recovering, or at the next
// that is neither.
func (a *announcer) connected() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.well
}

// within reports whether the caller is the hook.
func (a *announcer) within() bool {
	if a.hook == nil {
		return false
	}
	n, ok := goroutine.Number()
	return ok && n == a.number.Load()
}

// stop returns when the hook has been told everything. It is called once, when nothing announces any more.
func (a *announcer) stop() {
	a.mu.Lock()
	a.ail(ErrClosed)
	a.mu.Unlock()
	close(a.states)
	a.done.Wait()
}
