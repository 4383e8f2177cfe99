package sqlstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync/internal/pause"
)

// Waiters are the calls of Watch that are under way in a session, by the names that they wait for. All methods may be
// called by many goroutines at once.
type Waiters struct {
	mu      sync.Mutex
	waits   map[chan struct{}]wait // by what has a value once it was woken, and has not looked since
	arrived chan struct{}          // has a value if a waiter may have come since Await has last returned
}

// A wait is what one of them waits for.
type wait struct {
	names   []string
	targets []Target
}

func newWaiters() *Waiters {
	return &Waiters{waits: map[chan struct{}]wait{}, arrived: make(chan struct{}, 1)}
}

// add adds a waiter for some names, before its first look: what comes in between is kept for it.
func (w *Waiters) add(names []string, targets ...Target) chan struct{} {
	in := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits[in] = wait{names, targets}
	signal(w.arrived)
	return in
}

func (w *Waiters) remove(in chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waits, in)
}

// Wake wakes the Watches that wait for one of the names. The empty name, and no name, wake all. It never waits: a
// waiter that was woken before and has not looked since will see this change, too, for its look is yet to come.
func (w *Waiters) Wake(names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := len(names) == 0 || slices.Contains(names, "")
	for in, of := range w.waits {
		if all || slices.ContainsFunc(of.names, func(name string) bool { return slices.Contains(names, name) }) {
			signal(in)
		}
	}
}

// Any reports whether there are waiters.
func (w *Waiters) Any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waits) > 0
}

// Tend calls look, now and then, while there are waiters, with the names that they wait for, and whether those are
// others than the last time. It does so after first, and then after times that grow to most, until the names are
// others. It does nothing while there is no waiter, nor for a waiter who soon goes. It returns when ctx ends.
func (w *Waiters) Tend(ctx context.Context, first, most time.Duration, look func(names []string, others bool)) {
	for w.Await(ctx) {
		var known []string
		for after := first; pause.For(ctx, after) == nil; after = min(after*5/4, most) {
			names := w.waitedFor()
			if len(names) == 0 {
				break
			}
			others := !slices.Equal(names, known)
			if others {
				after, known = first, names
			}
			look(names, others)
		}
	}
}

// waitedFor returns each name once, in alphabetical order, so that two answers can be compared.
func (w *Waiters) waitedFor() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.waits {
		all = append(all, of.names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Sought returns what the Watches under way wait for, in no order. A target of two Watches is there twice.
func (w *Waiters) Sought() (all []Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.waits {
		all = append(all, of.targets...)
	}
	return all
}

// Await waits until a waiter may have come, or ctx ends, and reports whether one has. It may have gone again.
func (w *Waiters) Await(ctx context.Context) bool {
	select {
	case <-w.arrived:
		return true
	case <-ctx.Done():
		return false
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
