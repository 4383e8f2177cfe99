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
	// Waiters are granted afterwards. Connected follows.
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
	caught func(function string) // deferred around the hook
	states chan State
	told   State         // the last; the goroutine's own that calls the hook
	done   chan struct{} // closed when that has ended
	number atomic.Uint64 // of that goroutine
	over   atomic.Bool   // the hook is called no more

	mu   sync.Mutex
	last State
	well context.Context // done while the service does not answer
	ail  context.CancelCauseFunc
}

// newAnnouncer returns an announcer for hook, which may be nil. A panic of hook is for caught. stop must be called.
func newAnnouncer(hook func(State), caught func(function string)) *announcer {
	a := &announcer{hook: hook, caught: caught, states: make(chan State, 64), done: make(chan struct{})}
	a.well, a.ail = context.WithCancelCause(context.Background())
	if hook == nil {
		close(a.done)
	} else {
		go a.tell() // joined by stop, unless the hook does not return
	}
	return a
}

// tell calls the hook until stop is called. A hook that ends its goroutine misses no other state.
func (a *announcer) tell() {
	n, _ := goroutine.Number()
	a.number.Store(n)
	done := false
	defer func() {
		if !done {
			go a.tell() // in place of this goroutine, and joined as it was
		}
	}()
	for state := range a.states {
		again := state == a.told // one in between was left out
		a.told = state
		if !again && !a.over.Load() {
			a.call(state)
		}
	}
	done = true
	close(a.done)
}

func (a *announcer) call(state State) {
	defer a.caught("OnState")
	a.hook(state)
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

// stop returns when the hook has been told everything, or when patience ends. No call of the hook begins after that. It
// is called once, when nothing announces any more.
func (a *announcer) stop(patience context.Context) {
	a.mu.Lock()
	a.ail(ErrClosed)
	a.mu.Unlock()
	close(a.states)
	select {
	case <-a.done:
	case <-patience.Done():
		a.over.Store(true)
	}
}
