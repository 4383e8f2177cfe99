// Package deaf runs calls of the kind that hears of no context, into a file system that may be frozen for instance, for
// callers that must not wait for longer than their context lives.
package deaf

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrClosed is returned by Do after Close.
	ErrClosed = errors.New("closed")
	// ErrStuck is the error of a call that still runs. Its outcome is not known.
	ErrStuck = errors.New("the call does not return")
)

// grace is what a call still has when its context ends, to say how it ended.
const grace = 50 * time.Millisecond

// Calls are calls that may be under way for longer than their callers wait. The zero value is ready.
type Calls struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // added to under mu while not closed; joined by Close
}

// Do runs call in a goroutine that Close joins, and returns what it returns. If ctx ends first, it waits for a moment,
// and returns an error that wraps ErrStuck and the cause. The call then still runs, so what it writes is read only
// after nil.
func (c *Calls) Do(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	if !c.start(func() { done <- call() }) {
		return ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case err := <-done:
		return err
	case <-patience.C:
		return fmt.Errorf("%w: %w", ErrStuck, context.Cause(ctx))
	}
}

func (c *Calls) start(call func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Go(call)
	}
	return !c.closed
}

// Close has Do refuse all calls, and waits for the calls that run.
func (c *Calls) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
}
